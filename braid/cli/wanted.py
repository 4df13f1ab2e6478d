"""The options that say which publications are wanted, of `braid sub` and `braid history`."""

from collections.abc import Sequence
from typing import Any

import typer

from braid.cli.zones import one_zone, read_box, read_circle, read_zone
from braid.instants import instant_of_text

WORD = typer.Option(metavar="WORD", help="It occurs in the text, in any form; may be given several times.")
TOPIC = typer.Option(help="A topic; + stands for one level, a last # for any number.")
TOPIC_SCOPE = typer.Option(
    help="Only that topic, or also below it, or also above it; without it both, and self with + or #."
)
CIRCLE = typer.Option(parser=read_circle, metavar="LAT,LON,RADIUS_M", help="What happens within a circle.")
BOX = typer.Option(parser=read_box, metavar="SOUTH,WEST,NORTH,EAST", help="What happens within a box, in degrees.")
ZONE = typer.Option(
    parser=read_zone, metavar="JSON", help="What happens within any zone, such as a GeoJSON Polygon; or @file."
)


def parts_of(
    *,
    words: Sequence[str] | None,
    topic: str | None,
    topic_scope: str | None,
    circle: dict[str, Any] | None,
    box: dict[str, Any] | None,
    zone: dict[str, Any] | None,
    begin: str | None,
    until: str | None,
) -> dict[str, Any]:
    """As the client takes them, without the filter."""
    if topic == "":
        raise typer.BadParameter("--topic needs a topic such as rivers/manzanares; leave it out for all publications")
    if topic_scope is not None and topic is None:
        raise typer.BadParameter("--topic-scope needs the --topic that it is the scope of")
    return {
        "words": words or (),
        "topic": topic or "",
        "topic_scope": topic_scope or "",
        "zone": one_zone(circle=circle, box=box, zone=zone),
        "from_": None if begin is None else instant_of_text(begin),
        "until": None if until is None else instant_of_text(until),
    }
