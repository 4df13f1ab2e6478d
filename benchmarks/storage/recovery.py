"""How fast a matcher that starts has its subscriptions again, and how fast it keeps and finds publications."""

import asyncio
import gc
import tempfile
import time
from pathlib import Path

from braid.config import Settings
from braid.matching.warm import warm
from braid.messages import FindPublications, KeptBatch
from braid.subscription import SubscriptionRecord
from services.matcher.core import MatcherCore
from services.matcher.operations import Put
from services.matcher.searching import Search
from services.matcher.store import MatcherStore

SUBSCRIPTIONS = 200_000
BATCHES, BATCH = 5_000, 20
_AT_ONCE = 5_000


class Recovery:
    """Each number is of records a second."""

    def __init__(self) -> None:
        self.rates: list[tuple[str, int, float, float]] = []  # what, how many, seconds, seconds of the processor

    def note(self, what: str, count: int, begin: tuple[float, float]) -> None:
        self.rates.append((what, count, time.perf_counter() - begin[0], time.process_time() - begin[1]))


def measure_recovery() -> Recovery:
    warm()
    measured = Recovery()
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as scratch:
        asyncio.run(_subscriptions(Path(scratch), measured))
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as scratch:
        asyncio.run(_publications(Path(scratch), measured))
    return measured


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


async def _subscriptions(root: Path, measured: Recovery) -> None:
    store = MatcherStore(root, Settings())
    await store.open(lambda _records, _entries: None)
    begin = _now()
    for first in range(0, SUBSCRIPTIONS, _AT_ONCE):
        written = asyncio.Event()
        store.queue(
            [Put(record_of(number), True) for number in range(first, first + _AT_ONCE)],
            lambda _failure, written=written: written.set(),  # type: ignore[misc]  # bound now
        )
        await written.wait()
    measured.note("store new subscriptions", SUBSCRIPTIONS, begin)
    await store.close()
    core = MatcherCore("matcher-1", time.time_ns)
    store = MatcherStore(root, Settings())
    gc.disable()  # as the matcher does
    begin = _now()
    await store.open(lambda records, _entries: core.on_recovering(records))
    measured.note("recover subscriptions into the index", len(core.index), begin)
    gc.enable()
    await store.close()


def record_of(number: int) -> SubscriptionRecord:
    filter = f"sensor = 's{number % 5000}' and value > {number % 97} and city = 'c{number % 31}'"
    return SubscriptionRecord(f"s-{number:020x}", f"u{number % 1000}", "connpoint-1", filter, 1e9 + number)


async def _publications(root: Path, measured: Recovery) -> None:
    store = MatcherStore(root, Settings())
    await store.open(lambda _records, _entries: None)
    began_s = time.time()
    for size in (BATCH, 1):
        begin = _now()
        for first in range(0, BATCHES, 50):
            written = asyncio.Event()
            batches = [batch_of(size, number) for number in range(first, first + 50)]
            store.keep(batches, lambda _failure, written=written: written.set())  # type: ignore[misc]  # bound now
            await written.wait()
        measured.note(f"keep publications in batches of {size}", BATCHES * size, begin)
    for what, asked in (
        ("look through everything for a value", SubscriptionRecord("", "", "", "sensor = 's7'", 0.0)),
        ("look through one topic of a hundred", SubscriptionRecord("", "", "", "", 0.0, topic="a/7")),
    ):
        begin, until_s, found = _now(), float("inf"), 0
        while True:
            done: asyncio.Future[Search | None] = asyncio.get_running_loop().create_future()
            store.search(FindPublications(1, 1, "c", asked, began_s - 60, until_s, 1_000_000), done.set_result)
            search = await done
            assert search is not None
            found += len(search.found)
            if search.reached_s is None:
                break
            until_s = search.reached_s
        measured.note(what, BATCHES * (BATCH + 1) if asked.filter else found, begin)
    await store.close()


def batch_of(size: int, number: int) -> KeptBatch:
    contents = [
        b'{"id":"p%d-%d","topic":"a/%d","attributes":{"sensor":"s%d","value":41.5,"city":"Madrid"}}'
        % (number, place, number % 100, (number + place) % 5000)
        for place in range(size)
    ]
    return KeptBatch(f"connpoint-{size}.a", number + 1, number, time.time(), list(range(size)), contents)
