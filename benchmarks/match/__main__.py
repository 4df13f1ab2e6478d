"""`./dev bench match`: the index of the matcher, alone in a process, next to other matchers on the same input.

Workloads: A five equalities, A* independent equalities, B air readings, C ranges, C* ranges over many attributes,
D parts of strings, E words of posts, F circles around taxis. B, E and F read recorded data from the directory that
--data names. On A, A*, B and D, AWS event-ruler (needs Maven and Java), hypermatch and quamina (need Go) are measured
too, where they can be built.
"""

import argparse
import sys
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from benchmarks.match.report import WIDTH_MIN, show
from benchmarks.match.run import Options, Report, run
from benchmarks.match.workloads import WORKLOADS


def main() -> None:
    options, json_file = _options(sys.argv[1:])
    report = _run(options)
    console = Console()
    show(report, console if console.is_terminal else Console(width=max(console.width, WIDTH_MIN)))
    if json_file is not None:
        json_file.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    if report.failed:
        Console(stderr=True).print(
            "failed: a cell broke, or found other subscriptions than the meaning says", style="red"
        )
        sys.exit(1)


def _run(options: Options) -> Report:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=None)
        return run(options, lambda step: progress.update(task, description=step))


def _options(arguments: list[str]) -> tuple[Options, Path | None]:
    parser = argparse.ArgumentParser(
        prog="./dev bench match",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples: ./dev bench match    ./dev bench match --workloads A,D --sizes 1000,10000 --no-peers",
    )
    parser.add_argument("--workloads", type=_names, default=list(WORKLOADS), help="e.g. A,B (default all)")
    parser.add_argument("--sizes", type=_sizes, default=[], help="numbers of subscriptions (default by workload)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement (default 5)")
    parser.add_argument("--batch", type=int, default=256, help="publications in one call (default 256)")
    parser.add_argument("--events", type=int, default=20_000, help="different publications (default 20000)")
    parser.add_argument("--singles", type=int, default=20_000, help="added and removed one by one (default 20000)")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="only Braid's index")
    parser.add_argument(
        "--peer-build-seconds", type=float, default=120.0, help="another matcher may take to build (default 120)"
    )
    parser.add_argument("--index", default=Options(workloads=[]).index, help="MODULE:CLASS, to measure another index")
    parser.add_argument("--data", type=Path, help="the directory with recorded data")
    parser.add_argument("--profile", action="store_true", help="say in which functions the time passes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured to this file")
    given = vars(parser.parse_args(arguments))
    json_file = given.pop("json")
    return Options(**given), json_file


def _names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in WORKLOADS:
            raise argparse.ArgumentTypeError(f"there is no workload '{name}'; one of: {', '.join(WORKLOADS)}")
    return names


def _sizes(text: str) -> list[int]:
    sizes = [int(size) for size in text.replace("_", "").split(",")]
    if min(sizes) < 1:
        raise argparse.ArgumentTypeError("a size is at least 1")
    return sizes


if __name__ == "__main__":
    main()
