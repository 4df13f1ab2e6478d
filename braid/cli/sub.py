"""`braid sub`: shows publications as they come."""

import asyncio
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from braid.cli.running import examples, new_client, run, stderr_console
from braid.cli.zones import one_zone, read_box, read_circle, read_zone

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from braid.client import Notification, State, Stream

Scope = Literal["self", "below", "both"]

EXAMPLES = examples(
    "braid sub \"value > 40 and city in ('Madrid', 'Getafe')\"",
    "braid sub --count 10 --json | jq .publication.attributes",
    "braid sub \"pollutant = 'NO2'\" --until +10m --subscriber dashboard-7",
    "braid sub --word flood --word warning --topic rivers/+/madrid",
    "braid sub --topic sports/soccer --topic-scope below",
    'braid sub "value > 40" --circle 40.4168,-3.7038,5000',
    "braid sub --zone @district.json",
)
_COLOURS = {bool: "magenta", int: "cyan", float: "cyan", str: "green"}
_NEWS = {
    "gap": ("yellow", "some notifications are missing"),
    "resubscribing": ("yellow", "subscribing again"),
    "error": ("red", "the server reports"),
}


def sub(
    context: typer.Context,
    filter: Annotated[str, typer.Argument(help="What to subscribe to; everything when nothing is given.")] = "",
    *,
    word: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="It occurs in the text, in any form; may be given several times."),
    ] = None,
    topic: Annotated[str | None, typer.Option(help="A topic; + stands for one level, a last # for any number.")] = None,
    topic_scope: Annotated[
        Scope | None,
        typer.Option(
            help="Only that topic, or also below it, or also above it; without it both, and self with + or #."
        ),
    ] = None,
    circle: Annotated[
        dict[str, Any] | None,
        typer.Option(parser=read_circle, metavar="LAT,LON,RADIUS_M", help="What happens within a circle."),
    ] = None,
    box: Annotated[
        dict[str, Any] | None,
        typer.Option(parser=read_box, metavar="SOUTH,WEST,NORTH,EAST", help="What happens within a box, in degrees."),
    ] = None,
    zone: Annotated[
        dict[str, Any] | None,
        typer.Option(
            parser=read_zone, metavar="JSON", help="What happens within any zone, such as a GeoJSON Polygon; or @file."
        ),
    ] = None,
    begin: Annotated[
        str | None, typer.Option("--from", help="When to begin: +10s, or 2026-05-01T12:00:00Z, or Unix seconds.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="When to end: +10m, or 2026-05-01T12:00:00Z, or Unix seconds.")
    ] = None,
    subscriber: Annotated[
        str | None, typer.Option(help="The name to subscribe under; one is made up when it is left out.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many publications.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON for each notification.")] = False,
) -> None:
    """Subscribe and show what matches, until Ctrl-C. It goes on by itself after a lost connection, and says so.

    The filter and the options that say what to get are joined by 'and'.
    """
    if topic == "":
        raise typer.BadParameter("--topic needs a topic such as rivers/manzanares; leave it out for all publications")
    if topic_scope is not None and topic is None:
        raise typer.BadParameter("--topic-scope needs the --topic that it is the scope of")
    parts = {
        "filter": filter,
        "words": word or (),
        "topic": topic or "",
        "topic_scope": topic_scope or "",
        "zone": one_zone(circle=circle, box=box, zone=zone),
        "from_": _instant(begin),
        "until": _instant(until),
    }
    run(_sub(context.obj, parts, subscriber=subscriber, count=count, as_json=json))


async def _sub(
    urls: list[str], parts: dict[str, Any], *, subscriber: str | None, count: int | None, as_json: bool
) -> None:
    errors = stderr_console()
    shown = 0
    try:
        async with (
            new_client(urls, subscriber=subscriber, on_state=lambda state: _tell(state, errors)) as client,
            client.subscribe(**parts) as stream,
        ):
            errors.print("[dim]subscribed; Ctrl-C ends it[/]")
            shown = await _show_all(stream, count, as_json)
    except asyncio.CancelledError:
        # Ctrl-C. The subscription has been taken back on the way here; there is nothing left to do.
        errors.print("[dim]unsubscribed[/]")
        return
    if count is None or shown < count:
        errors.print("[dim]the window of the subscription is over[/]")


async def _show_all(stream: "Stream", count: int | None, as_json: bool) -> int:
    import msgspec
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    shown = 0
    async for notification in stream:
        if as_json:
            sys.stdout.write(msgspec.json.encode(notification).decode() + "\n")
            sys.stdout.flush()
        else:
            console.print(line_of(notification, time.time_ns()))
        shown += 1
        if shown == count:
            break
    return shown


def line_of(notification: "Notification", now_ns: int) -> "Text":
    """Time of day, id, attributes by type, what else there is, and how long it took if the id tells."""
    import msgspec
    from rich.text import Text

    from braid.client.ids import time_of

    publication = notification.publication
    line = Text(datetime.fromtimestamp(now_ns / 1e9).strftime("%H:%M:%S.%f")[:-3], "dim")
    line.append(f"  {publication.id}", "bold")
    for name, value in publication.attributes.items():
        shown = msgspec.json.encode(value).decode()
        line.append(f"  {name}", "dim").append("=").append(shown, _COLOURS[type(value)])
    for part in ("topic", "text", "object", "zone", "expires", "data"):
        value = getattr(publication, part)
        if value:
            line.append(f"  {part}: ", "dim").append(msgspec.json.encode(value).decode())
    made_ns = time_of(publication.id)
    if made_ns is not None and now_ns >= made_ns:
        line.append(f"  {(now_ns - made_ns) / 1e6:.1f} ms", "yellow")
    return line


def _tell(state: "State", console: "Console") -> None:
    from rich.text import Text

    if state.kind == "reconnecting":
        console.print(Text.assemble(("connection lost", "yellow"), f": {state.detail}; attempt {state.attempt}"))
    elif state.kind == "connected" and state.attempt:
        console.print(Text.assemble(("connected again", "green"), f" to {state.url}"))
    elif state.kind in _NEWS:
        colour, what = _NEWS[state.kind]
        console.print(Text.assemble((what, colour), f": {state.detail}"))


def _instant(text: str | None) -> str | float | None:
    """A command line has only strings; plain digits are Unix seconds."""
    return float(text) if text and text.replace(".", "", 1).isdecimal() else text
