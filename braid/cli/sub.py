"""`braid sub`: shows publications as they come."""

import asyncio
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from braid.cli.running import examples, new_client, run, stderr_console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from braid.client import Notification, State, Stream

EXAMPLES = examples(
    "braid sub \"value > 40 and city in ('Madrid', 'Getafe')\"",
    "braid sub --count 10 --json | jq .publication.attributes",
    "braid sub \"pollutant = 'NO2'\" --until +10m --subscriber dashboard-7",
)
_COLOURS = {bool: "magenta", int: "cyan", float: "cyan", str: "green"}
_NEWS = {
    "gap": ("yellow", "some notifications are missing"),
    "resubscribing": ("yellow", "subscribing again"),
    "error": ("red", "the server reports"),
}


def sub(
    context: typer.Context,
    filter: Annotated[str, typer.Argument(help="What to subscribe to; everything when it is left out.")] = "",
    *,
    subscriber: Annotated[
        str | None, typer.Option(help="The name to subscribe under; one is made up when it is left out.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="When to end: +10m, or 2026-05-01T12:00:00Z, or Unix seconds.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many publications.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON for each notification.")] = False,
) -> None:
    """Subscribe and show what matches, until Ctrl-C. It goes on by itself after a lost connection, and says so."""
    run(_sub(context.obj, filter, subscriber=subscriber, until=until, count=count, as_json=json))


async def _sub(
    urls: list[str], filter: str, *, subscriber: str | None, until: str | None, count: int | None, as_json: bool
) -> None:
    errors = stderr_console()
    shown = 0
    try:
        async with (
            new_client(urls, subscriber=subscriber, on_state=lambda state: _tell(state, errors)) as client,
            client.subscribe(filter, until=_instant(until)) as stream,
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
