"""The table of workloads."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.match.generated import Groups, Independent, Ranges, RangesOfMany
from benchmarks.match.recorded import AIR, POSTS, TAXIS, Air, Posts, Taxis
from benchmarks.match.source import Source
from benchmarks.match.strings import Strings

_USUAL = (1_000, 10_000, 100_000)


class Workload(NamedTuple):
    what: str
    sizes: tuple[int, ...]
    open: Callable[[int, Path], Source]  # takes the number of subscriptions, and where recorded data is
    recorded: str = ""  # the file it needs below that directory
    with_peers: bool = False


WORKLOADS = {
    "A": Workload(
        "five equalities, ten matches each", (*_USUAL, 1_000_000), lambda size, _data: Groups(size), with_peers=True
    ),
    "A*": Workload(
        "five of ten equalities, independent", (100_000,), lambda _size, _data: Independent(), with_peers=True
    ),
    "B": Workload(
        "air readings: equalities and bounds",
        _USUAL,
        lambda _size, data: Air(data),
        recorded=AIR,
        with_peers=True,
    ),
    "C": Workload("only ranges on numbers", (100_000,), lambda _size, _data: Ranges()),
    "C*": Workload("ranges over many attributes", _USUAL, lambda _size, _data: RangesOfMany()),
    "D": Workload("only prefix, suffix and contains", _USUAL, lambda _size, _data: Strings(), with_peers=True),
    "E": Workload("posts: words", (100_000,), lambda _size, data: Posts(data), recorded=POSTS),
    "F": Workload("taxis: circles", (100_000,), lambda _size, data: Taxis(data), recorded=TAXIS),
}


def missing_data(name: str, data: Path | None) -> str:
    """Why a workload cannot run, or nothing."""
    recorded = WORKLOADS[name].recorded
    if not recorded:
        return ""
    if data is None:
        return f"needs recorded data: --data DIRECTORY with {recorded}"
    return "" if (data / recorded).is_file() else f"{data / recorded} does not exist"
