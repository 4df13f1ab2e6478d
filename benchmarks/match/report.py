"""The tables at the end."""

from itertools import chain

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.match.cell import Measured
from benchmarks.match.peers.running import CHECKED_EVENTS, PeerResult
from benchmarks.match.run import Report
from benchmarks.match.workloads import WORKLOADS

WIDTH_MIN = 150  # of a table that goes into a file
_NAMES = ("workload", "matcher")


def show(report: Report, console: Console) -> None:
    console.print(f"{report.machine}; one process and one thread for each row", highlight=False)
    if report.cells:
        console.print(_cells(report.cells))
        for name in dict.fromkeys(cell.workload for cell in report.cells):
            console.print(f"{name:<2} {WORKLOADS[name].what}", highlight=False)
    if report.peers:
        console.print(_peers(report))
    for what, reason in report.missing.items():
        console.print(Text(f"missing: {what}: {reason}", style="yellow"))
    for cell in report.cells:
        if cell.profile:
            console.print(Text(f"\n{cell.workload} {cell.size:,}: {cell.profile}"))
    for cell in report.cells:
        for difference in cell.differences:
            console.print(Text(f"WRONG: {cell.workload} {cell.size:,}: {difference}", style="bold red"))


def _cells(cells: list[Measured]) -> Table:
    table = _table(
        "Braid's index",
        ("workload", "subscriptions", "events/s", "cores", "matches", "p50 ms", "p99 ms", "build s", "bulk adds/s"),
        ("adds/s", "removes/s", "bytes", "compared"),
    )
    table.caption = (
        "matches: per event; p50, p99: of a batch; bytes: per subscription; "
        "compared: events x subscriptions held against their meaning"
    )
    for cell in cells:
        compared = f"{cell.compared_events} x {cell.compared_subscriptions:,}"
        table.add_row(
            cell.workload,
            f"{cell.size:,}",
            f"{cell.events_per_s:,.0f}",
            f"{cell.processor_share:.2f}",
            f"{cell.matches_per_event:,.2f}",
            f"{cell.batch_ms_p50:,.2f}",
            f"{cell.batch_ms_p99:,.2f}",
            f"{cell.build_s:,.2f}",
            f"{cell.adds_per_s:,.0f}",
            f"{cell.single_adds_per_s:,.0f}",
            f"{cell.removes_per_s:,.0f}",
            f"{cell.bytes_per_subscription:,}",
            f"[bold red]{compared} WRONG" if cell.differences else compared,
        )
    return table


def _peers(report: Report) -> Table:
    table = _table(
        "Other matchers on the same subscriptions and publications",
        ("workload", "subscriptions", "matcher", "events/s", "cores", "matches", "build s", "bytes"),
        ("Braid / matcher", "per core"),
    )
    table.caption = "per core: the ratio of events per second of processor time"
    table.add_column("note", overflow="fold")
    ours = {(cell.workload, cell.size): cell for cell in report.cells}
    for peer in report.peers:
        braid = ours.get((peer.workload, peer.size))
        where = (peer.workload, f"{peer.size:,}", peer.peer)
        if peer.missing:
            table.add_row(*where, *[""] * 7, Text(peer.missing))
            continue
        table.add_row(
            *where,
            f"{peer.events_per_s:,.0f}",
            f"{peer.processor_share:.2f}",
            f"{peer.matches_per_event:,.2f}",
            f"{peer.build_s:,.2f}",
            f"{peer.bytes_per_subscription:,}",
            *_ratios(peer, braid),
            _agreement(peer, braid),
        )
    return table


def _table(title: str, *headings: tuple[str, ...]) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left", padding=(0, 1, 0, 0))
    for heading in chain(*headings):
        table.add_column(heading, justify="left" if heading in _NAMES else "right", no_wrap=True)
    return table


def _ratios(peer: PeerResult, braid: Measured | None) -> tuple[str, str]:
    if braid is None:
        return "", ""
    ratio = braid.events_per_s / peer.events_per_s
    return f"{ratio:,.2f}", f"{ratio * peer.processor_share / braid.processor_share:,.2f}"


def _agreement(peer: PeerResult, braid: Measured | None) -> str:
    if braid is None or peer.checked_matches == braid.checked_matches:
        return ""
    return f"{peer.checked_matches:,} matches of {CHECKED_EVENTS} events, not {braid.checked_matches:,}"
