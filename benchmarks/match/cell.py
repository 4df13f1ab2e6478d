"""One cell of the table: a workload of one size, measured in a process of its own.

Memory is the growth of the resident set while subscriptions are added, divided by their number. Before that, the
publications exist, and a small index was built and asked, so that compiled code and caches of the process are not
counted. Subscriptions are made in portions, each given to the index and dropped: what is counted is what the index
keeps of them (the records too, where it keeps them), its own structures, and what the allocator holds back.
"""

import cProfile
import gc
import importlib
import io
import pstats
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from statistics import quantiles
from typing import Any

import msgspec
import psutil

from benchmarks.match import check
from benchmarks.match.peers.running import CHECKED_EVENTS
from benchmarks.match.source import NOW_S, Source
from benchmarks.match.workloads import WORKLOADS
from braid.subscription import SubscriptionRecord

PORTION = 10_000  # subscriptions given to `add_many` at once
_WARM_UP_SUBSCRIPTIONS = 200
_WARM_UP_SHARE = 0.2  # of the seconds of measuring
_PROFILE_LINES = 12


class Order(msgspec.Struct):
    workload: str
    size: int
    seconds: float = 5
    batch: int = 256
    events: int = 20_000
    singles: int = 20_000  # further subscriptions, added and removed one at a time
    index: str = "braid.matching.index:MatchIndex"
    data: str = ""
    profile: bool = False


class Measured(msgspec.Struct, kw_only=True):
    workload: str
    size: int
    build_s: float = 0
    adds_per_s: float = 0
    single_adds_per_s: float = 0
    removes_per_s: float = 0
    events_per_s: float = 0
    matches_per_event: float = 0
    batch_ms_p50: float = 0
    batch_ms_p99: float = 0
    bytes_per_subscription: int = 0
    processor_share: float = 0  # 1.0 is one core
    checked_matches: int = 0
    compared_events: int = 0
    compared_subscriptions: int = 0
    differences: list[str] = []
    profile: str = ""


def main() -> None:
    """Reads an `Order` from the command line, tells its steps and at the end prints what was `Measured`."""
    order = msgspec.json.decode(sys.argv[1], type=Order)
    measured = measure(order)
    print(msgspec.json.encode(measured).decode(), flush=True)


def measure(order: Order) -> Measured:
    measured = Measured(workload=order.workload, size=order.size)
    _tell("reading")
    source = WORKLOADS[order.workload].open(order.size, Path(order.data))
    contents = source.contents(order.events)
    batches = [contents[start : start + order.batch] for start in range(0, len(contents), order.batch)]
    _tell("warming up")
    _warm_up(order, source, batches)
    subscriptions = source.subscriptions()
    index = _new_index(order)
    sampled = _build(index, subscriptions, order.size, measured)
    _tell("matching")
    measured.checked_matches = sum(map(len, index.match(contents[:CHECKED_EVENTS], NOW_S).ids()))
    _match(index, batches, order.seconds, measured)
    if order.profile:
        measured.profile = _profile(index, batches, order.seconds)
    _tell("adding and removing")
    _singles(index, list(islice(subscriptions, order.singles)), contents[:1], measured)
    _tell("comparing")
    _compare(index, contents[: check.EVENTS], sampled, measured)
    return measured


def _new_index(order: Order) -> Any:
    module, _, name = order.index.partition(":")
    return getattr(importlib.import_module(module), name)()


def _warm_up(order: Order, source: Source, batches: list[list[bytes]]) -> None:
    """Both ways to add, removing and matching: what is compiled at the first use is compiled afterwards."""
    index = _new_index(order)
    records = list(islice(source.subscriptions(), _WARM_UP_SUBSCRIPTIONS))
    index.add_many(records[1:])
    index.match(batches[0], NOW_S).ids()
    index.add(records[0])
    index.match(batches[0], NOW_S).ids()
    for record in records:
        index.remove(record.id)


def _build(
    index: Any, subscriptions: Iterator[SubscriptionRecord], size: int, measured: Measured
) -> list[SubscriptionRecord]:
    gc.collect()
    before = psutil.Process().memory_info().rss
    sampled: list[SubscriptionRecord] = []
    for start in range(0, size, PORTION):
        _tell(f"building {start:,} of {size:,}")
        portion = list(islice(subscriptions, min(PORTION, size - start)))
        sampled += check.sample(portion, size)
        started = time.perf_counter()
        index.add_many(portion)
        measured.build_s += time.perf_counter() - started
        del portion
    gc.collect()
    measured.bytes_per_subscription = (psutil.Process().memory_info().rss - before) // size
    measured.adds_per_s = size / measured.build_s
    gc.freeze()  # as a slice does; otherwise the collector walks over all of them again and again
    return sampled


def _match(index: Any, batches: list[list[bytes]], seconds: float, measured: Measured) -> None:
    _timed(index, batches, seconds * _WARM_UP_SHARE)
    processor = time.process_time()
    started = time.perf_counter()
    durations, events, matches = _timed(index, batches, seconds)
    measured.processor_share = (time.process_time() - processor) / (time.perf_counter() - started)
    measured.events_per_s = events / sum(durations)
    measured.matches_per_event = matches / events
    cuts = quantiles(durations, n=100, method="inclusive") if len(durations) > 1 else durations * 99
    measured.batch_ms_p50, measured.batch_ms_p99 = 1000 * cuts[49], 1000 * cuts[98]


def _timed(index: Any, batches: list[list[bytes]], seconds: float) -> tuple[list[float], int, int]:
    """How long each batch took, how many events there were, and how many matches."""
    durations: list[float] = []
    events = matches = 0
    end = time.perf_counter() + seconds
    for batch in cycle(batches):
        started = time.perf_counter()
        found = index.match(batch, NOW_S).ids()
        matches += sum(map(len, found))
        del found  # as whoever uses it does; it belongs to the time of this batch, not to that of the next one
        ended = time.perf_counter()
        durations.append(ended - started)
        events += len(batch)
        if ended >= end:
            break
    return durations, events, matches


def _profile(index: Any, batches: list[list[bytes]], seconds: float) -> str:
    """The functions in which most of the time passes; the profiler makes everything slower."""
    profiler = cProfile.Profile()
    profiler.runcall(_timed, index, batches, seconds)
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).strip_dirs().sort_stats("tottime").print_stats(_PROFILE_LINES)
    return text.getvalue().strip()


def _singles(index: Any, records: list[SubscriptionRecord], content: list[bytes], measured: Measured) -> None:
    """One at a time. The next match belongs to it, so that work put off until then is counted."""
    started = time.perf_counter()
    for record in records:
        index.add(record)
    index.match(content, NOW_S).ids()
    added = time.perf_counter()
    for record in records:
        index.remove(record.id)
    index.match(content, NOW_S).ids()
    removed = time.perf_counter()
    measured.single_adds_per_s = len(records) / (added - started)
    measured.removes_per_s = len(records) / (removed - added)


def _compare(index: Any, contents: list[bytes], sampled: list[SubscriptionRecord], measured: Measured) -> None:
    """After adding and removing, where mistakes show."""
    found = index.match(contents, NOW_S).ids()
    records = {id: index.get(id) for ids in found for id in ids}
    known = {id: record for id, record in records.items() if record is not None}
    compared = check.compare(contents, found, sampled, known, NOW_S)
    measured.compared_events, measured.compared_subscriptions = compared.events, compared.subscriptions
    measured.differences = compared.differences


def _tell(step: str) -> None:
    print(msgspec.json.encode({"step": step}).decode(), flush=True)


if __name__ == "__main__":
    main()
