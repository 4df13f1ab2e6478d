"""What is not in the figures of the paper: dropping a window, rewriting a base, going through all, unsubscribing, and
how long the event loop of a matcher waits for all of it.
"""

import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from rich.table import Table

from benchmarks.storage.loop_delay import Delay, measure_loop_delay
from benchmarks.storage.recovery import measure_recovery
from services.matcher.storage.dual import DualDB
from services.matcher.storage.keys import list_id
from services.matcher.storage.records import Cursor, Filed, Kind, StoredPublication, StoredSubscription
from services.matcher.storage.settings import StorageSettings

Tell = Callable[[str], None]
WINDOWS = (10_000, 100_000, 1_000_000)
SUBSCRIPTIONS = 200_000
_BEGIN_S = 1_700_000_000.0
_BATCH = 1000
_SETTINGS = StorageSettings(window_s=100, retention_s=300, retention_s_max=400)


class Slices(msgspec.Struct):
    """Of `maintain`, with its own number of entries; milliseconds by the clock and of the processor.

    `gone_ms` is until its directory has no longer its name, so that nobody finds it; `space_ms` until the file system
    has its space back, that is until not one file of it is left.
    """

    what: str
    count: int
    longest_ms: float
    longest_cpu_ms: float
    gone_ms: float
    space_ms: float


class Rate(msgspec.Struct):
    what: str
    a_second: float
    a_cpu_second: float


class Upkeep(msgspec.Struct):
    slices: list[Slices] = []
    rates: list[Rate] = []
    delays: list[Delay] = []


def measure_upkeep(tell: Tell) -> Upkeep:
    measured = Upkeep([], [], [])
    for count in WINDOWS:
        tell(f"a window of {count:,} publications")
        with tempfile.TemporaryDirectory(prefix="braid-bench-") as scratch:
            _window(Path(scratch), count, measured)
    tell(f"a base of {SUBSCRIPTIONS:,} subscriptions")
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as scratch:
        _base(Path(scratch), measured)
    tell("the store of a matcher")
    measured.rates += [
        Rate(what, count / seconds, count / cpu_seconds)
        for what, count, seconds, cpu_seconds in measure_recovery().rates
    ]
    tell("the event loop of a matcher")
    measured.delays = measure_loop_delay()
    return measured


def table(measured: Upkeep) -> list[Table]:
    slices = Table(title="upkeep in slices of 500 entries", title_justify="left")
    for name in ("what", "slices", "longest ms", "longest CPU ms", "gone after ms", "space back after ms"):
        slices.add_column(name, justify="left" if name == "what" else "right")
    for one in measured.slices:
        times = [f"{ms:.1f}" for ms in (one.longest_ms, one.longest_cpu_ms, one.gone_ms, one.space_ms)]
        slices.add_row(one.what, str(one.count), *times)
    rates = Table(title="records", title_justify="left")
    for name in ("what", "a second", "a second of CPU"):
        rates.add_column(name, justify="left" if name == "what" else "right")
    for rate in measured.rates:
        rates.add_row(rate.what, f"{rate.a_second:,.0f}", f"{rate.a_cpu_second:,.0f}")
    delays = Table(title="how late a timer of 1 ms comes on the event loop, while its store has", title_justify="left")
    for name in ("what", "timers", "p50 ms", "p99 ms", "longest ms", "over 10 ms"):
        delays.add_column(name, justify="left" if name == "what" else "right")
    for delay in measured.delays:
        times = [f"{delay.p50_ms:.2f}", f"{delay.p99_ms:.2f}", f"{delay.longest_ms:.1f}"]
        delays.add_row(delay.what, f"{delay.ticks:,}", *times, str(delay.over_10_ms))
    return [slices, rates, delays]


def _window(root: Path, count: int, measured: Upkeep) -> None:
    storage = DualDB(root, _SETTINGS, _BEGIN_S)
    expires_s = _BEGIN_S + 50
    with _Timing(f"put, {_BATCH:,} publications at once, {count:,}", count, measured):
        for begin in range(0, count, _BATCH):
            filed = [
                Filed(StoredPublication(f"p{n}", _BEGIN_S, expires_s, b"x" * 100), (list_id(str(n % 50_000)),))
                for n in range(begin, begin + _BATCH)
            ]
            storage.put(filed, _BEGIN_S)
    measured.slices.append(_slices(storage, root, f"drop a window of {count:,}", _BEGIN_S + 100))
    storage.close()


def _base(root: Path, measured: Upkeep) -> None:
    storage = DualDB(root, _SETTINGS, _BEGIN_S)
    body = b'{"filter":"value > 40 and city = 1"}' * 2
    for begin in range(0, SUBSCRIPTIONS, _BATCH):
        filed = [
            Filed(StoredSubscription(f"s{n:016x}", f"u{n % 1000}", _BEGIN_S, body=body), (list_id(f"s{n % 5000}"),))
            for n in range(begin, begin + _BATCH)
        ]
        storage.put(filed, _BEGIN_S)
    storage.close()
    with _Timing("open, and go through all", SUBSCRIPTIONS, measured):
        storage = DualDB(root, _SETTINGS, _BEGIN_S)
        after: Cursor | None = None
        found = 0
        while True:
            piece = storage.read_piece(Kind.SUBSCRIPTION, _BEGIN_S, after, _BATCH)
            found += len(piece.filed)
            after = piece.next
            if after is None:
                break
    assert found == SUBSCRIPTIONS
    removed = [f"s{n:016x}" for n in range(SUBSCRIPTIONS) if n % 5 < 3]
    with _Timing("unsubscribe", len(removed), measured):
        storage.unsubscribe(removed, _BEGIN_S)
    what = f"rewrite a base of {SUBSCRIPTIONS:,}, {len(removed):,} removed"
    measured.slices.append(_slices(storage, root, what, _BEGIN_S + 5))
    storage.close()


def _slices(storage: DualDB, root: Path, what: str, now_s: float) -> Slices:
    """Of one database that goes. The disk is looked at between slices."""
    (going,) = (path for path in (root / "dual").iterdir() if path.is_dir())
    times: list[tuple[float, float]] = []
    gone_ms = math.inf
    began = time.perf_counter()
    more = True
    while more:
        begin, cpu_begin = time.perf_counter(), time.thread_time()
        more = storage.maintain(now_s)
        end = time.perf_counter()
        times.append(((end - begin) * 1000, (time.thread_time() - cpu_begin) * 1000))
        if math.isinf(gone_ms) and not going.exists():
            gone_ms = (end - began) * 1000
    space_ms = (end - began) * 1000
    assert not going.exists()
    assert list((root / "trash").iterdir()) == []
    wall, cpu = zip(*times, strict=True)
    return Slices(what, len(times), max(wall), max(cpu), gone_ms, space_ms)


class _Timing:
    def __init__(self, what: str, records: int, measured: Upkeep) -> None:
        self._what, self._records, self._measured = what, records, measured

    def __enter__(self) -> None:
        self._begin, self._cpu_begin = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        seconds, cpu_seconds = time.perf_counter() - self._begin, time.process_time() - self._cpu_begin
        self._measured.rates.append(Rate(self._what, self._records / seconds, self._records / cpu_seconds))
