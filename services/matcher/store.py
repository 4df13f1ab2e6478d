"""What one matcher keeps on disk: its subscriptions, and the publications it keeps until they expire (`storage/`); and
what it remembers of publications for `prev` (`previous_database.py`).

One thread does everything. Writes that somebody waits for go first: between two of them comes a slice of what is
written in bulk (`bulk.py`), of a search, of a reading, or of the upkeep. The file `foreign` stands there while
subscriptions of other matchers may be among the matcher's own: from the moment a scaling begins until the last one that
moved away is forgotten.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import structlog
from msgspec.structs import replace

from braid.config import Settings
from braid.group_writer import Done, GroupWriter
from braid.matching.previous import ChainChanges
from braid.messages import FindPublications, KeptBatch
from braid.subscription import SubscriptionRecord
from services.matcher.bulk import Bulk, Load
from services.matcher.filing import kept_batch, record_of, records_of
from services.matcher.operations import (
    Forget,
    Keep,
    KeepForeign,
    KeepPrevious,
    Mark,
    Operation,
    Put,
    Remember,
    Remove,
    RemoveKept,
    weight_of,
)
from services.matcher.previous_database import PreviousDatabase
from services.matcher.searching import Search
from services.matcher.storage.dual import DualDB
from services.matcher.storage.interface import Storage
from services.matcher.storage.records import (
    Cursor,
    Damage,
    Kind,
    StoredPublication,
    StoredSubscription,
    Usage,
)
from services.matcher.storage.settings import StorageSettings
from services.matcher.writing import RecordWriter, failure_of

log = structlog.get_logger()

SEARCHES_MAX = 1_000  # at a time; who asked for one more asks again
_RECOVERED_AT_ONCE = 2_000  # taking them into the index holds the event loop for some ten milliseconds
_READ_AT_ONCE = 200  # records of kept publications, or fewer where they are large:
_READ_PUBLICATIONS = 1_000  # so many come at once, by what came the last time
_READ_BYTES = 1024 * 1024
_READ_FIRST = 5  # records, before anything is known
_BULK_AT_ONCE = 100  # records, at first; then as many as take so much of the processor:
_BULK_SLICE_S_MIN, _BULK_SLICE_S_MAX = 0.004, 0.02
_BULK_SHARE = 0.2  # or this share of the time until the event loop hears of it: nobody notices more than that
_BULK_AT_ONCE_MIN, _BULK_AT_ONCE_MAX = 10, 1_000
_UPKEEP_S = 0.1  # between two slices of the upkeep
_UPKEEP_PAUSE_S = 0.01  # while there is more to do
_AGAIN_S = 0.5

OnSearched = Callable[[Search | None], None]
OnKeptRead = Callable[[list[KeptBatch], Cursor | None], None]  # some, and where to go on
OnRecovered = Callable[[list[SubscriptionRecord], int], None]  # some records, and how many there are by estimate


class MatcherStore(GroupWriter[Operation]):
    def __init__(self, path: Path, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        matching, storage = settings.matching, settings.storage
        super().__init__(path, f"store-{path.name}", matching.fsync, matching.fsync_interval_s)
        self._clock = clock
        self._settings = StorageSettings(
            window_s=storage.window_s,
            retention_s=min(storage.retention_s, storage.retention_s_max),
            retention_s_max=storage.retention_s_max,
            remember_s=storage.remember_s,
            disk_bytes_max=storage.disk_bytes_max,
        )
        self._mark_path = path / "foreign"
        self._previous = PreviousDatabase(path)
        self._storage: Storage
        self._writer: RecordWriter
        self._is_open = False
        self._searches: deque[tuple[Search, OnSearched]] = deque()
        self._searches_queued = 0
        self._readings: deque[tuple[Cursor | None, OnKeptRead]] = deque()
        self._readings_at_s = 0.0
        self._read_at_once = min(_READ_FIRST, _READ_AT_ONCE)
        self._upkeep_at_s = 0.0
        self._damages_told = 0
        self._failed_publications = 0  # whose write has failed
        self._bulk: Bulk[Operation] = Bulk(weight_of)
        self._bulk_at_once = _BULK_AT_ONCE
        self._bulk_turn_s = 0.0  # from the beginning of the last slice until the event loop heard of its end
        self._bulk_at_s = 0.0
        self._turn = 0  # which kind of long work is next
        self._working: asyncio.Task[None] | None = None  # at long work
        self._slice_s = 0.0  # how long the last slice of it kept the thread
        self._expired: list[str] = []  # ids of subscriptions whose space was reclaimed
        self.on_expired: Callable[[list[str]], None] = lambda _ids: None

    # Opening

    async def open(self, on_recovered: OnRecovered) -> bool:
        """Hands out all subscriptions bit by bit; returns whether some of them may belong to others."""
        self._storage = await self.run(self._open)
        self._writer = RecordWriter(self._storage, self._mark_path)
        self._is_open = True
        reading: Awaitable[Any] = self.run(self._read_some, None)
        while True:
            records, after = await reading
            if after is not None:  # while some are taken into the index, the next ones are read
                reading = asyncio.ensure_future(self.run(self._read_some, after))
                await asyncio.sleep(0)
            on_recovered(records, self._storage.usage().entries)
            if after is None:
                break
        self._tell_damages()
        return self._mark_path.exists()

    async def read_ended(self) -> list[SubscriptionRecord]:
        """Distinct ones that have ended and are remembered, in the order in which they ended."""
        ended: list[StoredSubscription] = await self.run(lambda: self._storage.ended(self._clock()))
        ended.sort(key=lambda stored: stored.until_s)
        return [replace(record_of(stored), until_s=stored.until_s) for stored in ended]

    async def read_previous(self) -> dict[str, bytes]:
        """What was remembered for `prev`, by topic."""
        chains: dict[str, bytes] = await self.run(self._previous.open)
        for damage in self._previous.damages:
            log.error("what was remembered for prev is damaged, and begins anew", **msgspec.structs.asdict(damage))
        return chains

    def _open(self) -> Storage:
        self._path.mkdir(parents=True, exist_ok=True)
        storage = DualDB(self._path, self._settings, self._clock())
        storage.listen(lambda records: self._expired.extend(record.id for record in records))
        return storage

    def _read_some(self, after: Cursor | None) -> tuple[list[SubscriptionRecord], Cursor | None]:
        piece = self._storage.read_piece(Kind.SUBSCRIPTION, self._clock(), after, _RECOVERED_AT_ONCE)
        return records_of(piece.filed), piece.next

    @property
    def damages(self) -> list[Damage]:
        return [*self._storage.damages, *self._previous.damages]

    @property
    def usage(self) -> Usage:
        return self._storage.usage()

    @property
    def not_kept(self) -> int:
        """Publications that are delivered, and will not be found again: there was no room, or the disk failed."""
        return self._writer.not_kept + self._failed_publications

    # Writing

    def put(self, record: SubscriptionRecord, *, is_new: bool, done: Done) -> None:
        self._write_soon([Put(record, is_new)], [record.id], done)

    def erase(self, ids: list[str], done: Done | None) -> None:
        """`done` is told when all are erased; without it nobody is in a hurry."""
        if not ids:
            return
        if done is None:
            self._write_in_bulk(map(Remove, _in_parts(ids)), ids, None)
        else:
            self._write_soon([Remove(ids)], ids, done)

    def keep(self, batches: list[KeptBatch], done: Done) -> None:
        def on_written(failure: Exception | None) -> None:
            if failure is not None:
                self._failed_publications += sum(len(batch.contents) for batch in batches)
            done(failure)

        self.queue([Keep(batches)], on_written)

    def keep_previous(self, changes: ChainChanges, done: Done) -> None:
        self.queue([KeepPrevious(changes)], done)

    def keep_foreign(self, batches: list[KeptBatch], ended: list[SubscriptionRecord], done: Done) -> None:
        """All of it, or `done` is told why not: nothing is given up here that is still somewhere else."""
        self._write_in_bulk([KeepForeign(batches), Remember(ended)], [record.id for record in ended], done)

    def remove_kept(self, batches: list[KeptBatch]) -> None:
        """As they were read."""
        self._write_in_bulk([RemoveKept(batches)], [], None)

    def take_chunk(
        self, records: list[SubscriptionRecord], known: Collection[str], removed: list[str], done: Done
    ) -> None:
        """Of another matcher; of the `known` ids, others may be there. The mark is written first, so that nothing of it
        is ever there without.
        """
        puts = (Put(record, record.id not in known) for record in records)
        ids = [*(record.id for record in records), *removed]
        self._write_in_bulk([Mark(True), *puts, *map(Remove, _in_parts(removed))], ids, done)

    def forget(self, ids: list[str]) -> None:
        self._write_in_bulk(map(Forget, _in_parts(ids)), ids, None)

    def when_forgotten(self, done: Done) -> None:
        """All that was to be forgotten before is."""
        self._write_in_bulk([], [], done)

    def expect_foreign(self, expected: bool) -> None:
        if expected:
            self._bulk.take_out(Mark(False))
            self.queue([Mark(True)], _ignore)
        else:
            self._write_in_bulk([Mark(False)], [], None)

    @property
    def in_bulk(self) -> int:
        """Subscriptions whose turn on the way to disk is behind all that somebody waits for."""
        return len(self._bulk)

    def _write_soon(self, operations: list[Operation], ids: list[str], done: Done) -> None:
        if self._bulk.touches(ids):
            self._write_in_bulk(operations, ids, done)
        else:
            self.queue(operations, done)

    def _write_in_bulk(self, operations: Iterable[Operation], ids: list[str], done: Done | None) -> None:
        """Behind all that is queued now, which may be about the same subscriptions."""
        load = Load(operations, ids, done)
        self._bulk.add(load)

        def begin(_failure: Exception | None) -> None:
            load.is_due = True

        self.queue([], begin)

    def _again(self, operations: list[Operation]) -> list[Operation]:
        """What is removed, in bulk: one that fails for ever must not stand before everything else."""
        removals = [operation for operation in operations if isinstance(operation, Remove | Forget)]
        if removals:
            self._bulk_at_s = time.monotonic() + _AGAIN_S
            self._write_in_bulk(removals, [id for one in removals for id in one.ids], None)
        return [operation for operation in operations if isinstance(operation, Mark)]

    def _write(self, operations: list[Operation], sync: bool) -> None:
        previous = [operation.changes for operation in operations if isinstance(operation, KeepPrevious)]
        try:
            self._writer.write(operations, self._clock())
        finally:
            # Whatever becomes of the rest: an older value that stayed would be compared with.
            if previous or sync:
                self._previous.write(previous, sync=sync)
            if sync:
                self._storage.sync()

    # Searching and upkeep

    def search(self, question: FindPublications, done: OnSearched) -> None:
        """Among all that was to be written before. `done` gets nothing when there is no room, or it fails."""
        if self._searches_queued + len(self._searches) >= SEARCHES_MAX:
            done(None)
            return

        def begin(_failure: Exception | None) -> None:
            self._searches_queued -= 1
            self._searches.append((Search(question), done))

        self._searches_queued += 1
        self.queue([], begin)

    def read_kept(self, after: Cursor | None, done: OnKeptRead) -> None:
        """Some of all kept publications. Whoever begins finds all that were to be written before, in bulk too."""

        def begin(_failure: Exception | None) -> None:
            self._readings.append((after, done))

        if after is None:
            self._write_in_bulk([], [], begin)
        else:
            self.queue([], begin)

    def flush(self) -> None:
        """Long work is not done by whoever writes: its slices take a millisecond or two of the thread, but on a busy
        machine it may be fifty until the event loop hears that one has ended, and no write need wait for that.
        """
        super().flush()
        if self._working is None and self._has_long_work():
            self._working = asyncio.get_running_loop().create_task(self._work())

    def _on_told(self) -> None:
        self.flush()

    def _has_long_work(self) -> bool:
        return any(is_due() for is_due, _ in self._long_work())

    async def _work(self) -> None:
        try:
            while self._has_long_work():
                await self._slice()
                if self._writing is not None:  # then it takes half of the thread's time at most
                    await asyncio.sleep(self._slice_s)
        finally:
            self._working = None

    async def _run_slice(self, work: Callable[..., Any], *arguments: Any) -> Any:
        def timed() -> Any:
            began_s = time.monotonic()
            try:
                return work(*arguments)
            finally:
                self._slice_s = time.monotonic() - began_s

        return await self.run(timed)

    async def finish(self) -> None:
        self._bulk_at_s = 0.0  # what failed a moment ago is tried once more before it is too late
        await super().finish()
        while self._working is not None or self._has_long_work():
            if self._working is not None:
                await self._working
            else:
                await self._work()
            await super().finish()

    def _is_upkeep_due(self) -> bool:
        return self._is_open and time.monotonic() >= self._upkeep_at_s

    def _long_work(self) -> list[tuple[Callable[[], bool], Callable[[], Awaitable[None]]]]:
        """Whether there is some, and a slice of it."""
        return [
            (self._is_upkeep_due, self._maintain),
            (lambda: bool(self._bulk) and time.monotonic() >= self._bulk_at_s, self._write_some_in_bulk),
            (lambda: bool(self._readings) and time.monotonic() >= self._readings_at_s, self._read_some_kept),
            (lambda: bool(self._searches), self._search_some),
        ]

    async def _slice(self) -> None:
        """Whatever is to be done has its turn; where slices take long, the upkeep is due whenever it is asked for."""
        kinds = self._long_work()
        for turn in range(self._turn, self._turn + len(kinds)):
            is_due, work = kinds[turn % len(kinds)]
            if is_due():
                self._turn = turn % len(kinds) + 1
                await work()
                return

    async def _write_some_in_bulk(self) -> None:
        taken = self._bulk.take(self._bulk_at_once)
        began_s = time.monotonic()
        outcomes = await self._run_slice(self._write_loads, [operations for _, operations in taken])
        self._bulk_turn_s = time.monotonic() - began_s
        for place, (load, operations) in enumerate(taken):
            if place >= len(outcomes):
                self._bulk.put_back(load, operations)
            else:
                self._on_load_written(load, operations, outcomes[place])

    def _write_loads(self, loads: list[list[Operation]]) -> list[Exception | None]:
        """On the thread. How each of them ended; none is begun behind one that failed, which may be tried again."""
        began_s, weight = time.thread_time(), 0
        outcomes: list[Exception | None] = []
        for operations in loads:
            outcomes.append(failure_of(partial(self._write, operations, sync=False)))
            weight += 1 + sum(map(weight_of, operations))
            if outcomes[-1] is not None:
                break
        if self._fsync == "always" and (failure := failure_of(partial(self._write, [], sync=True))) is not None:
            outcomes = [failure] * len(outcomes)
        took_s = max(time.thread_time() - began_s, 1e-6)
        wanted_s = min(max(_BULK_SHARE * self._bulk_turn_s, _BULK_SLICE_S_MIN), _BULK_SLICE_S_MAX)
        at_once = min(weight * wanted_s / took_s, 2 * self._bulk_at_once)
        self._bulk_at_once = min(_BULK_AT_ONCE_MAX, max(_BULK_AT_ONCE_MIN, int(at_once)))
        return outcomes

    def _on_load_written(self, load: Load[Operation], operations: list[Operation], failure: Exception | None) -> None:
        done = load.done
        if failure is not None:
            log.error("a write failed", database=self._name, error=str(failure))
            self._bulk_at_s = time.monotonic() + _AGAIN_S
            self._bulk.on_failed(load, _repeatable([*operations, *load.operations]))
        else:
            self.writes += 1
            self._unforced = True
            if not self._bulk.on_written(load):
                return
        try:
            if done is not None:
                done(failure)
        except Exception:  # our own mistake; what is behind this load must go on nevertheless
            log.exception("a callback failed", database=self._name)

    async def _maintain(self) -> None:
        has_more = False
        try:
            has_more = await self._run_slice(lambda: self._storage.maintain(self._clock()))
        except Exception as error:
            log.error("the upkeep failed", database=self._name, error=str(error))
        self._upkeep_at_s = time.monotonic() + (_UPKEEP_PAUSE_S if has_more else _UPKEEP_S)
        self._tell_damages()
        if self._expired:
            expired, self._expired = self._expired, []
            self.on_expired(expired)

    async def _read_some_kept(self) -> None:
        after, done = self._readings[0]
        try:
            batches, after = await self._run_slice(self._read_kept, after)
        except Exception as error:
            log.error("kept publications cannot be read; trying again", database=self._name, error=str(error))
            self._readings_at_s = time.monotonic() + _AGAIN_S
            return
        self._readings.popleft()
        done(batches, after)

    async def _search_some(self) -> None:
        search, done = self._searches.popleft()
        try:
            await self._run_slice(lambda: search.step(self._storage, self._clock()))
        except Exception as error:
            log.error("a search failed", database=self._name, error=str(error))
            done(None)
            return
        if search.is_done:
            done(search)
        else:
            self._searches.append((search, done))  # the others have their turn

    def _read_kept(self, after: Cursor | None) -> tuple[list[KeptBatch], Cursor | None]:
        """A record is up to a whole batch, and whoever gets them looks at every publication on the event loop."""
        piece = self._storage.read_piece(Kind.PUBLICATION, self._clock(), after, self._read_at_once)
        batches = [kept_batch(one.record) for one in piece.filed if isinstance(one.record, StoredPublication)]
        publications = sum(len(batch.contents) for batch in batches)
        size = sum(len(content) for batch in batches for content in batch.contents)
        room = min(_READ_PUBLICATIONS / max(1, publications), _READ_BYTES / max(1, size), 2.0)
        self._read_at_once = min(_READ_AT_ONCE, max(1, int(self._read_at_once * room)))
        return batches, piece.next

    def _tell_damages(self) -> None:
        for damage in self._storage.damages[self._damages_told :]:
            log.error("damaged files were repaired", **msgspec.structs.asdict(damage))
        self._damages_told = len(self._storage.damages)

    async def close(self) -> None:
        """Writes what is queued, then closes."""
        if self._is_open:
            self._searches.clear()
            self._readings.clear()
            self._is_open = False  # no more upkeep
            await self.finish()
            await self.run(self._storage.close)
            await self.run(self._previous.close)
        self.shutdown()


def _in_parts(ids: list[str]) -> Iterator[list[str]]:
    return (ids[first : first + _BULK_AT_ONCE] for first in range(0, len(ids), _BULK_AT_ONCE))


def _repeatable(operations: Iterable[Operation]) -> list[Operation]:
    """Nobody was told of these, and they may be done twice."""
    return [operation for operation in operations if isinstance(operation, Remove | Forget | Mark)]


def _ignore(_failure: Exception | None) -> None:
    """A mark that failed is written with the next write."""
