"""`braid sub`: shows publications as they come."""

import asyncio
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from braid.cli import wanted, webhook
from braid.cli.running import examples, new_client, run, stderr_console
from braid.cli.secret import secret_option

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from braid.client import Notification, Past, State, Stream

Scope = Literal["self", "below", "both"]

EXAMPLES = examples(
    "braid sub \"value > 40 and city in ('Madrid', 'Getafe')\"",
    "braid sub --count 10 --json | jq .publication.attributes",
    "braid sub \"pollutant = 'NO2'\" --until +10m --subscriber dashboard-7",
    'braid sub "value > 40" --from -10m',
    'braid sub "value > 40" --from -1h --distinct --subscriber dashboard-7',
    "braid sub --word flood --word warning --topic rivers/+/madrid",
    "braid sub --topic sports/soccer --topic-scope below",
    'braid sub "value > 40" --circle 40.4168,-3.7038,5000',
    "braid sub --zone @district.json",
    'braid sub "value > 40" --webhook https://example.com/hooks/braid --subscriber alarms',
    'braid sub "value > 40" --webhook https://example.com/hooks/braid --secret env:HOOK_SECRET',
)
_OLD_NS = 60_000_000_000  # nothing is under way for so long, so it is of the past
_NEWS = {
    "gap": ("yellow", "some notifications are missing"),
    "resubscribing": ("yellow", "subscribing again"),
    "error": ("red", "the server reports"),
}


def sub(
    context: typer.Context,
    filter: Annotated[str, typer.Argument(help="What to subscribe to; everything when nothing is given.")] = "",
    *,
    word: Annotated[list[str] | None, wanted.WORD] = None,
    topic: Annotated[str | None, wanted.TOPIC] = None,
    topic_scope: Annotated[Scope | None, wanted.TOPIC_SCOPE] = None,
    circle: Annotated[dict[str, Any] | None, wanted.CIRCLE] = None,
    box: Annotated[dict[str, Any] | None, wanted.BOX] = None,
    zone: Annotated[dict[str, Any] | None, wanted.ZONE] = None,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="When to begin: -10m, +10s, or 2026-05-01T12:00:00Z, or Unix seconds; the past comes first.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="When to end: +10m, or 2026-05-01T12:00:00Z, or Unix seconds.")
    ] = None,
    distinct: Annotated[
        bool, typer.Option("--distinct", help="Not what this subscriber was given before, through any subscription.")
    ] = False,
    subscriber: Annotated[
        str | None, typer.Option(help="The name to subscribe under; one is made up when it is left out.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many publications.")] = None,
    to: Annotated[
        str | None,
        typer.Option("--webhook", metavar="URL", help="Have it posted there, signed, instead of shown here."),
    ] = None,
    secret: Annotated[
        str | None, secret_option("What --webhook signs with; one is made up when it is left out.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON for each notification.")] = False,
) -> None:
    """Subscribe and show what matches, until Ctrl-C. It goes on by itself after a lost connection, and says so.

    The filter and the options that say what to get are joined by 'and'.

    With --webhook the subscription stays, and the command ends: 'braid webhook' shows how it stands and ends it.
    """
    parts = wanted.parts_of(
        words=word, topic=topic, topic_scope=topic_scope, circle=circle, box=box, zone=zone, begin=begin, until=until
    )
    parts["filter"] = filter
    if to is not None:
        if distinct or count is not None:
            raise typer.BadParameter("--distinct and --count are for what is shown here, not for a --webhook")
        run(webhook.subscribe(context.obj, to, secret, parts, subscriber=subscriber, as_json=json))
        return
    if secret is not None:
        raise typer.BadParameter("--secret needs the --webhook that it is for")
    parts["distinct"] = distinct
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
            if stream.past is not None and not as_json:
                errors.print(f"[dim]{_past(stream.past)}[/]")
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
    """The publication as it comes now, and if the id tells how long it took, or how old it is."""
    from braid.cli.lines import publication_line
    from braid.cli.status import up_time
    from braid.cli.trace import duration
    from braid.client.ids import time_of

    publication, now = notification.publication, datetime.fromtimestamp(now_ns / 1e9)
    line = publication_line(publication, now, now)
    made_ns = time_of(publication.id)
    if made_ns is not None and now_ns >= made_ns:
        took_ns = now_ns - made_ns
        shown = duration(took_ns) if took_ns < _OLD_NS else f"{up_time(took_ns / 1e9)} old"
        line.append(f"  {shown}", "yellow")
    return line


def _past(past: "Past") -> str:
    more = "" if past.complete else "; there were more, and the oldest were left out"
    return f"{past.publications} of the past{more}"


def _tell(state: "State", console: "Console") -> None:
    from rich.text import Text

    if state.kind == "reconnecting":
        console.print(Text.assemble(("connection lost", "yellow"), f": {state.detail}; attempt {state.attempt}"))
    elif state.kind == "connected" and state.attempt:
        console.print(Text.assemble(("connected again", "green"), f" to {state.url}"))
    elif state.kind in _NEWS:
        colour, what = _NEWS[state.kind]
        console.print(Text.assemble((what, colour), f": {state.detail}"))
