"""What was measured, as tables."""

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.storage.figures import FIGURES, FOUND, RADII, Figure
from benchmarks.storage.running import Measured
from benchmarks.storage.upkeep import Upkeep
from benchmarks.storage.upkeep import table as upkeep_tables

WIDTH_MIN = 130


class FigureResult(msgspec.Struct):
    figure: str
    source: str
    operations: int
    rate: float
    measured: list[Measured]

    def of(self, variant: str) -> Measured | None:
        return next((one for one in self.measured if one.variant == variant), None)


class Report(msgspec.Struct):
    machine: str
    load: float  # of the machine when the measurement began, without it
    figures: list[FigureResult] = []
    missing: dict[str, str] = {}
    upkeep: Upkeep | None = None


def cpu(one: Measured) -> float:
    """Microseconds of an operation; what other processes do is not in it, nor what other programs on the machine do."""
    return one.cpu_seconds / one.operations * 1e6


def show(report: Report, console: Console) -> None:
    console.print(f"{report.machine}; load before: {report.load:.1f}")
    if report.load > 0.5:
        console.print("the machine was busy: times are longer than on a quiet one; variants took turns", style="yellow")
    for result in report.figures:
        figure = FIGURES[result.figure]
        console.print(_overall(result, figure))
        if any(one.groups for one in result.measured):
            console.print(_by_group(result, figure))
        console.print(_disk(result))
    for table in [] if report.upkeep is None else upkeep_tables(report.upkeep):
        console.print(table)
    for what, why in report.missing.items():
        console.print(f"not measured: {what}: {why}", style="yellow", markup=False)


def _overall(result: FigureResult, figure: Figure) -> Table:
    title = (
        f"Figure {result.figure}: {figure.title}; {result.source}, {result.operations:,} operations, "
        f"{result.rate:,.0f} a second of their clock. Paper: {figure.paper}"
    )
    table = Table(title=title, title_justify="left")
    for name in (
        "variant",
        "µs/operation",
        "times the first",
        "CPU µs",
        "times the first",
        "SUBSCRIBE µs",
        "PUBLISH µs",
        "upkeep %",
        "matches",
        "disk/live",
    ):
        table.add_column(name, justify="left" if name == "variant" else "right")
    first = result.measured[0]
    for one in result.measured:
        upkeep = one.upkeep_seconds / (one.us * one.operations / 1e6) * 100 if one.operations else 0
        table.add_row(
            one.variant,
            f"{one.us:.1f}",
            f"{one.us / first.us:.2f}",
            *((f"{cpu(one):.1f}", f"{cpu(one) / cpu(first):.2f}") if one.variant != "PostgreSQL" else ("", "")),
            f"{one.subscribing.us:.1f}",
            f"{one.publishing.us:.1f}",
            f"{upkeep:.1f}",
            f"{one.matches:,}",
            f"{one.disk_to_live_max:.2f}" if one.disk_to_live_max else "",
        )
    return table


def _by_group(result: FigureResult, figure: Figure) -> Table:
    """The share of each group is given where groups are what operations happen to find."""
    first = result.measured[0]
    groups = sorted({name for one in result.measured for name in one.groups}, key=_order)
    title = "the same by what is found" if figure.self_join else f"Figure {int(result.figure) + 2}: the same"
    table = Table(title=f"{title}, µs/operation", title_justify="left")
    table.add_column("variant")
    for name in groups:
        table.add_column(name, justify="right")
    digits = 1 if figure.self_join else 0
    for one in result.measured:
        cells = (f"{one.groups[name].us:.{digits}f}" if name in one.groups else "" for name in groups)
        table.add_row(one.variant, *cells)
    if figure.self_join:
        table.add_row(
            "% of operations", *(f"{100 * first.groups[name].operations / first.operations:.1f}" for name in groups)
        )
    return table


def _disk(result: FigureResult) -> Table:
    table = Table(title="disk over time, MB (what has not expired, MB)", title_justify="left")
    table.add_column("variant")
    shown = result.measured[0].samples[3::4]
    for sample in shown:
        table.add_column(f"{sample.at_s:.0f} s", justify="right")
    for one in result.measured:
        cells = [f"{sample.disk_bytes / 1e6:.1f} ({sample.live_bytes / 1e6:.1f})" for sample in one.samples[3::4]]
        table.add_row(one.variant, *cells[: len(shown)])
    return table


def _order(group: str) -> tuple[int, str]:
    return [*RADII, *FOUND].index(group) if group in RADII or group in FOUND else 0, group
