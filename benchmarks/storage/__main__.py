"""`./dev bench storage`: subscriptions and publications on disk, the three layouts next to one another.

Figures 10 and 11 hold DualDB against TwoDB and repeated queries, 12 and 13 DualDB against TwoDB for self-joins, these
also by the number of records that an operation finds; the same operations go to PostgreSQL where it and psycopg are
installed. 14 (with 16) and 15 (with 17) hold one Dewey cell for each operation against all cells of the lowest level:
for cells of all levels of a quad tree, and for circles, these also against the few cells that cover them. Variants take
turns. Operations carry their own clock, which does not depend on how fast they are done.
"""

import argparse
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from benchmarks.storage import figures, postgres, workloads
from benchmarks.storage.figures import FIGURES, Figure
from benchmarks.storage.report import WIDTH_MIN, FigureResult, Report, show
from benchmarks.storage.running import Target, run_together
from benchmarks.storage.targets import StorageTarget
from benchmarks.storage.upkeep import measure_upkeep

Tell = Callable[[str], None]


def main() -> None:
    given = _arguments(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # not without stopping PostgreSQL
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=None)
        report = measure(given, lambda step: progress.update(task, description=step))
    console = Console()
    show(report, console if console.is_terminal else Console(width=max(console.width, WIDTH_MIN)))
    if given.json is not None:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))


def measure(given: argparse.Namespace, tell: Tell) -> Report:
    cores = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    report = Report(cores, os.getloadavg()[0], [], {})
    sources = ["posts"]
    if given.data is not None:
        sources.append("taxis")
    else:
        report.missing["taxis"] = "recorded data is read from the directory that --data names"
    with_peers = given.peers
    if with_peers and (why := postgres.missing()):
        report.missing["PostgreSQL"] = why
        with_peers = False
    if given.upkeep:
        report.upkeep = measure_upkeep(tell)
    for name in sources if given.figures else []:
        tell(f"reading {name}")
        source = workloads.posts(given.operations) if name == "posts" else workloads.taxis(given.data, given.operations)
        for number in given.figures:
            report.figures.append(_measure(FIGURES[number], source, given, with_peers, tell))
    return report


def _measure(
    figure: Figure, source: workloads.Source, given: argparse.Namespace, with_peers: bool, tell: Tell
) -> FigureResult:
    count, rate = max(1, round(given.operations * figure.share)), given.rate * figure.share
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as scratch:
        targets: dict[str, Target] = {
            variant: StorageTarget(
                figure.layout(variant),
                Path(scratch) / variant,
                workloads.BEGIN_S,
                self_join=figure.self_join,
                reach=figure.reach(variant),
            )
            for variant in figure.variants
        }
        if with_peers and figure.shape == "cells":
            targets["PostgreSQL"] = postgres.PostgresTarget(Path(scratch) / "postgres", self_join=figure.self_join)
        steps = partial(figures.steps, figure, source=source, count=count, rate=rate)
        label = f"figure {figure.number}, {source.name}"
        measured = run_together(targets, steps, count, lambda step: tell(f"{label}: {step}"))
    return FigureResult(figure.number, source.name, count, rate, measured)


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench storage",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples: ./dev bench storage    ./dev bench storage --figures 12,13 --operations 1000000 --no-peers",
    )
    parser.add_argument("--figures", type=_numbers, default=list(FIGURES), help="e.g. 10,12 (default all), or none")
    parser.add_argument(
        "--operations",
        type=_positive,
        default=200_000,
        help="of each variant (default 200000, about a minute for a figure; a twentieth of it for 14 and 15)",
    )
    parser.add_argument(
        "--rate",
        type=_positive,
        default=2_000,
        help="operations in a second of their clock (default 2000; a twentieth of it for 14 and 15)",
    )
    parser.add_argument("--upkeep", action="store_true", help="also dropping, rewriting and recovering")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="without PostgreSQL")
    parser.add_argument("--data", type=Path, help="the directory with recorded data: positions of taxis")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured to this file")
    given = parser.parse_args(arguments)
    if given.data is not None and not (given.data / workloads.TAXIS).is_file():
        parser.error(f"--data: there is no {given.data / workloads.TAXIS}")
    return given


def _numbers(text: str) -> list[str]:
    if text == "none":
        return []
    for number in text.split(","):
        if number not in FIGURES:
            raise argparse.ArgumentTypeError(f"there is no figure '{number}'; one of: {', '.join(FIGURES)}")
    return text.split(",")


def _positive(text: str) -> int:
    number = int(text.replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


if __name__ == "__main__":
    main()
