"""`braid history`: shows publications of the past."""

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from braid.cli import wanted
from braid.cli.running import examples, new_client, run, stderr_console
from braid.cli.sub import Scope

if TYPE_CHECKING:
    from braid.client import KeptPublication

EXAMPLES = examples(
    "braid history \"pollutant = 'NO2' and value > 40\"",
    "braid history --from -10m --topic rivers/# --limit 1000",
    'braid history "value > 40" --from 2026-05-01T12:00:00Z --until 2026-05-01T12:10:00Z',
    "braid history --word flood --circle 40.4168,-3.7038,5000 --json | jq .publication.text",
)


def history(
    context: typer.Context,
    filter: Annotated[str, typer.Argument(help="What to look for; everything when nothing is given.")] = "",
    *,
    word: Annotated[list[str] | None, wanted.WORD] = None,
    topic: Annotated[str | None, wanted.TOPIC] = None,
    topic_scope: Annotated[Scope | None, wanted.TOPIC_SCOPE] = None,
    circle: Annotated[dict[str, Any] | None, wanted.CIRCLE] = None,
    box: Annotated[dict[str, Any] | None, wanted.BOX] = None,
    zone: Annotated[dict[str, Any] | None, wanted.ZONE] = None,
    begin: Annotated[
        str | None, typer.Option("--from", help="Published from then on: -10m, 2026-05-01T12:00:00Z, Unix seconds.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Published before that: -5m, 2026-05-01T12:00:00Z, Unix seconds.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="At most so many, the newest.")] = 100,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON for each publication.")] = False,
) -> None:
    """Show the most recent publications that match, of those that the cluster keeps, the newest last.

    The filter and the options that say what to look for are joined by 'and'.
    """
    conditions = wanted.parts_of(
        words=word, topic=topic, topic_scope=topic_scope, circle=circle, box=box, zone=zone, begin=begin, until=until
    )
    run(_history(context.obj, filter, conditions, limit, json))


async def _history(urls: list[str], filter: str, conditions: dict[str, Any], limit: int, as_json: bool) -> None:
    async with new_client(urls) as client:
        found = await client.publications(filter, **conditions, limit=limit)
    found.reverse()
    if as_json:
        import msgspec

        for kept in found:
            sys.stdout.write(msgspec.json.encode(kept).decode() + "\n")
    else:
        _show(found, limit)


def _show(found: "list[KeptPublication]", limit: int) -> None:
    from rich.console import Console

    from braid.cli.lines import publication_line

    console, errors = Console(highlight=False, soft_wrap=True), stderr_console()
    if not found:
        errors.print("[dim]nothing that is kept matches[/]")
    today = datetime.now().astimezone()
    for kept in found:
        console.print(publication_line(kept.publication, kept.published.astimezone(), today))
    if len(found) == limit:
        errors.print(f"[dim]the newest {limit}; there may be more, which --limit or --until show[/]")
