"""Shows a scaling until it has ended: its phases with their times, and what it moves and holds meanwhile."""

import asyncio
import time
from typing import TYPE_CHECKING

import typer

from braid.cli.running import Failure, stderr_console
from braid.topology import PHASES

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live

    from braid.client import Client, Scaling

POLL_S = 0.2
SILENCE_S_MAX = 30.0  # a connection point may be started again meanwhile, or ZooKeeper be away for a moment
_ORDER = ("asked", "gathering", *PHASES)


def hint(id: str) -> str:
    return f"Watch it with: braid scale --watch {id}"


async def watch(client: "Client", id: str, as_json: bool) -> None:
    """Ends the command with exit code 1 when the scaling was aborted. Ctrl-C ends only the watching."""
    try:
        ended = await (_poll(client, id) if as_json else _display(client, id))
    except asyncio.CancelledError:
        stderr_console().print(f"the scaling goes on. {hint(id)}", markup=False)
        raise
    if as_json:
        import msgspec

        typer.echo(msgspec.json.encode(ended))
    if ended.state == "aborted":
        raise Failure(f"{id} was aborted: {ended.reason or 'the coordinator gave no reason'}")


async def _display(client: "Client", id: str) -> "Scaling":
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        ended = await _poll(client, id, _Lines(console))
    else:
        with Live(console=console, auto_refresh=False) as live:
            ended = await _poll(client, id, _Picture(live))
    if ended.state == "done":
        console.print(f"[green]done[/] in {seconds(ended.total_s)}: {summary(ended)}")
    return ended


class _Lines:
    """For a pipe or a log file: one line for every phase that is over."""

    def __init__(self, console: "Console") -> None:
        self._console = console
        self._printed = 0

    def show(self, scaling: "Scaling") -> None:
        if not self._printed:
            self._console.print(title(scaling), markup=False)
        over = [phase for phase in scaling.phase_s if phase != scaling.phase]
        for phase in over[max(0, self._printed - 1) :]:
            self._console.print(f"  {phase:<10} {seconds(scaling.phase_s[phase]):>9}")
        self._printed = 1 + len(over)


class _Picture:
    """For a terminal: the whole scaling, drawn over."""

    def __init__(self, live: "Live") -> None:
        self._live = live

    def show(self, scaling: "Scaling") -> None:
        self._live.update(picture_of(scaling), refresh=True)


async def _poll(client: "Client", id: str, screen: _Lines | _Picture | None = None) -> "Scaling":
    from braid.client.errors import BraidError

    heard_s = time.monotonic()
    while True:
        try:
            scaling = await client.scaling(id)
        except BraidError as error:
            if error.status not in (None, 429, 503):
                raise
            if time.monotonic() - heard_s > SILENCE_S_MAX:
                raise Failure(
                    f"nothing was heard of the scaling for {SILENCE_S_MAX:g} s ({error}). It goes on. {hint(id)}"
                ) from None
        else:
            heard_s = time.monotonic()
            if screen is not None:
                screen.show(scaling)
            if scaling.state != "running":
                return scaling
        await asyncio.sleep(POLL_S)


def picture_of(scaling: "Scaling") -> "Group":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    for justify in ("left", "left", "right", "left"):
        table.add_column(justify=justify, no_wrap=True)
    to_come = [phase for phase in _ORDER if phase not in scaling.phase_s] if scaling.state == "running" else []
    for phase, passed_s in scaling.phase_s.items():
        under_way = scaling.state == "running" and phase == scaling.phase
        mark = "[cyan]▸[/]" if under_way else "[green]✓[/]"
        table.add_row(mark, phase, seconds(passed_s), progress_line(scaling) if under_way else "")
    if scaling.state == "aborted":
        table.add_row("[red]✗[/]", "aborted", "", "")
    for phase in to_come:
        table.add_row("", f"[dim]{phase}[/]", "", "")
    return Group(Text(title(scaling), "bold"), table)


def title(scaling: "Scaling") -> str:
    """`scaling-1f0c6a: matcher=3 exitpoint=2, replacing matcher-2`."""
    parts = [" ".join(f"{layer}={number}" for layer, number in scaling.asked.get("layers", {}).items())]
    if replaced := scaling.asked.get("replace"):
        parts.append(f"replacing {', '.join(replaced)}")
    if routing := scaling.asked.get("routing"):
        parts.append(f"routing {routing}")
    if map := scaling.asked.get("map"):
        parts.append(f"map {map}")
    return f"{scaling.id}: {', '.join(part for part in parts if part)}"


def progress_line(scaling: "Scaling") -> str:
    parts = [
        f"{number:,} {what}"
        for number, what in (
            (scaling.so_far("moved"), "subscriptions moved"),
            (scaling.so_far("publications_handed_over"), "publications handed over"),
            (scaling.so_far("kept_back"), "subscriptions kept back"),
            (scaling.so_far("held"), "publications held"),
        )
        if number
    ]
    return ", ".join(parts)


def summary(scaling: "Scaling") -> str:
    if not any(phase in scaling.phase_s for phase in PHASES):
        return "everything was as asked already"
    return (
        f"epoch {scaling.epoch}, {scaling.moved:,} subscriptions moved, "
        f"longest pause of a publication {seconds(scaling.longest_pause_s)}, "
        f"longest wait of a subscription {seconds(scaling.longest_wait_s)}"
    )


def seconds(value: float) -> str:
    """`7 ms`, `1.20 s`, `75.0 s`."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if value < 60 else f"{value:.1f} s"
