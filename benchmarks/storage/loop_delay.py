"""How long the event loop of a matcher waits while its store writes, drops windows, searches and hands out.

A timer that is due every millisecond says how late it comes. The machine has a part in that, so the same is measured
with an idle store, and in between with a store whose thread is busy with Python alone, which is what sharing the
interpreter costs whatever that thread does.
"""

import asyncio
import contextlib
import gc
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import uvloop

from benchmarks.storage.recovery import batch_of, record_of
from braid.config import Settings
from braid.messages import FindPublications
from braid.subscription import SubscriptionRecord
from services.matcher.searching import Search
from services.matcher.store import MatcherStore

SECONDS = 10.0
SWITCH_INTERVAL_S = 0.0005  # as in a slice
_TICK_S = 0.001
_BATCHES, _BATCH = 5, 20  # publications at once, a hundred times a second: 10,000 a second
_ROUND_S = 0.01
_RECORDS = 10  # subscriptions at once, stored, changed and ended again: 1,000 a second of each
_SETTINGS = {"storage": {"window_s": 1, "retention_s": 3.0}}

Load = Callable[[MatcherStore], Awaitable[None]]


class Delay(msgspec.Struct):
    """Milliseconds by which a timer came late."""

    what: str
    ticks: int
    p50_ms: float
    p99_ms: float
    longest_ms: float
    over_10_ms: int


def measure_loop_delay() -> list[Delay]:
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        return [uvloop.run(_measure(what, load)) for what, load in _LOADS.items()]
    finally:
        sys.setswitchinterval(interval_s)


async def _measure(what: str, load: Load) -> Delay:
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as scratch:
        store = MatcherStore(Path(scratch) / "store", Settings.model_validate(_SETTINGS))
        await store.open(lambda _records, _entries: None)
        gc.collect()
        gc.freeze()
        working = asyncio.ensure_future(load(store))
        late = await _lateness()
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working
        await store.close()
    late.sort()
    return Delay(
        what,
        len(late),
        late[len(late) // 2] * 1000,
        late[len(late) * 99 // 100] * 1000,
        late[-1] * 1000,
        sum(one > 0.01 for one in late),
    )


async def _lateness() -> list[float]:
    late: list[float] = []
    ends_s = time.monotonic() + SECONDS
    while time.monotonic() < ends_s:
        begin = time.monotonic()
        await asyncio.sleep(_TICK_S)
        late.append(time.monotonic() - begin - _TICK_S)
    return late


async def _rounds() -> AsyncIterator[int]:
    """Numbers at a steady pace, whatever is done for each."""
    number, due_s = 0, time.monotonic()
    while True:
        yield number
        number, due_s = number + 1, due_s + _ROUND_S
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))


async def _nothing(_store: MatcherStore) -> None:
    return


async def _python_alone(store: MatcherStore) -> None:
    while True:
        await store.run(_count)


def _count() -> None:
    number = 0
    while number < 300_000:
        number += 1


async def _everything(store: MatcherStore) -> None:
    asked = SubscriptionRecord("", "", "", "sensor = 's7'", 0.0)
    began_s = time.time()
    searches = 0

    def on_searched(_search: Search | None) -> None:
        nonlocal searches
        searches -= 1

    async for number in _rounds():
        first = number * _BATCHES
        store.keep([batch_of(_BATCH, first + place) for place in range(_BATCHES)], lambda _failure: None)
        new = [record_of(number * _RECORDS + place) for place in range(_RECORDS)]
        for record in new:
            store.put(record, is_new=True, done=lambda _failure: None)
            store.put(record, is_new=False, done=lambda _failure: None)
        store.erase([record.id for record in new], lambda _failure: None)
        if searches < 2:
            searches += 1
            store.search(FindPublications(1, 1, "c", asked, began_s, float("inf"), 1_000), on_searched)
        if number % 100 == 0:
            store.read_kept(None, lambda _batches, _after: None)
        store.flush()


_LOADS: dict[str, Load] = {
    "an idle store": _nothing,
    "a thread busy with Python alone": _python_alone,
    "10,000 publications a second, windows dropped, 3,000 calls, searches": _everything,
}
