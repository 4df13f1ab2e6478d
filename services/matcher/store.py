"""What one matcher keeps on disk: its subscriptions, and the publications it keeps until they expire (`storage/`).

One thread does everything. Writes go first; between two of them comes a slice of a search, or of the upkeep. The file
`foreign` stands there while subscriptions of other matchers may be among the matcher's own: from the moment a scaling
begins until the last one that moved away is erased.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import structlog
from msgspec.structs import replace

from braid.config import Settings
from braid.group_writer import Done, GroupWriter
from braid.messages import FindPublications, KeptBatch
from braid.subscription import SubscriptionRecord
from services.matcher.filing import filed_publications, filed_subscription, kept_batch, record_of, records_of
from services.matcher.searching import Search
from services.matcher.storage.dual import DualDB
from services.matcher.storage.interface import Storage
from services.matcher.storage.records import (
    Cursor,
    Damage,
    Filed,
    Kind,
    StorageFullError,
    StoredPublication,
    StoredSubscription,
    Usage,
)
from services.matcher.storage.settings import StorageSettings

log = structlog.get_logger()

SEARCHES_MAX = 1_000  # at a time; who asked for one more asks again
_RECOVERED_AT_ONCE = 5_000
_READ_AT_ONCE = 200
_UPKEEP_S = 0.1  # between two slices of the upkeep
_UPKEEP_PAUSE_S = 0.01  # while there is more to do
_AGAIN_S = 0.5

OnSearched = Callable[[Search | None], None]
OnKeptRead = Callable[[list[KeptBatch], Cursor | None], None]  # some, and where to go on
OnRecovered = Callable[[list[SubscriptionRecord], int], None]  # some records, and how many there are by estimate


class Put(msgspec.Struct, frozen=True):
    record: SubscriptionRecord
    is_new: bool  # else one of the same id may be there


class Remove(msgspec.Struct, frozen=True):
    ids: list[str]


class Keep(msgspec.Struct, frozen=True):
    batches: list[KeptBatch]


class Mark(msgspec.Struct, frozen=True):
    foreign: bool


Operation = Put | Remove | Keep | Mark


class MatcherStore(GroupWriter[Operation]):
    def __init__(self, path: Path, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        matching, storage = settings.matching, settings.storage
        super().__init__(f"store-{path.name}", matching.fsync, matching.fsync_interval_s)
        self._path = path
        self._clock = clock
        self._settings = StorageSettings(
            window_s=storage.window_s,
            retention_s=min(storage.retention_s, storage.retention_s_max),
            retention_s_max=storage.retention_s_max,
            remember_s=storage.remember_s,
            disk_bytes_max=storage.disk_bytes_max,
        )
        self._mark_path = path / "foreign"
        self._storage: Storage
        self._is_open = False
        self._searches: deque[tuple[Search, OnSearched]] = deque()
        self._searches_queued = 0
        self._readings: deque[tuple[Cursor | None, OnKeptRead]] = deque()
        self._readings_at_s = 0.0
        self._upkeep_at_s = 0.0
        self._damages_told = 0
        self.not_kept = 0  # records of publications that found no room
        self.erasing = 0  # ids that are to be erased and are not yet
        self._expired: list[str] = []  # ids of subscriptions whose space was reclaimed
        self.on_expired: Callable[[list[str]], None] = lambda _ids: None

    # Opening

    async def open(self, on_recovered: OnRecovered) -> bool:
        """Hands out all subscriptions bit by bit; returns whether some of them may belong to others."""
        self._storage = await self.run(self._open)
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
        return self._storage.damages

    @property
    def usage(self) -> Usage:
        return self._storage.usage()

    # Writing

    def put(self, record: SubscriptionRecord, *, is_new: bool, done: Done) -> None:
        self.queue([Put(record, is_new)], done)

    def take_chunk(self, records: list[SubscriptionRecord], removed: list[str], done: Done) -> None:
        """Of another matcher. The mark is written first, so that nothing of it is ever there without."""
        operations: list[Operation] = [Mark(True), *(Put(record, False) for record in records)]
        self.queue([*operations, Remove(removed)] if removed else operations, done)

    def erase(self, ids: list[str], done: Done | None) -> None:
        """`done` is told when all are erased."""
        if ids:
            self.erasing += len(ids)
            self.queue([Remove(ids)], done)

    def keep(self, batches: list[KeptBatch], done: Done) -> None:
        self.queue([Keep(batches)], done)

    def when_written(self, done: Done) -> None:
        self.queue([], done)

    def expect_foreign(self, expected: bool) -> None:
        self.queue([Mark(expected)], _ignore if expected else None)

    def _again(self, operations: list[Operation]) -> list[Operation]:
        return [operation for operation in operations if isinstance(operation, Remove | Mark)]

    def _write(self, operations: list[Operation], sync: bool) -> None:
        now_s = self._clock()
        filed: list[Filed] = []
        for operation in operations:
            match operation:
                case Keep(batches):
                    filed += (one for batch in batches for one in filed_publications(batch, now_s))
                case Put(record, True):
                    filed.append(filed_subscription(record, now_s))
                case _:
                    self._put(filed, now_s)
                    filed = []
                    self._write_other(operation, now_s)
        self._put(filed, now_s)
        if sync:
            self._storage.sync()

    def _write_other(self, operation: Operation, now_s: float) -> None:
        match operation:
            case Put(record):
                one = filed_subscription(record, now_s)
                assert isinstance(one.record, StoredSubscription)
                self._storage.replace(one.record, one.lists, now_s)
            case Remove(ids):
                self._storage.unsubscribe(ids, now_s)
                self.erasing = max(0, self.erasing - len(ids))
            case Mark(foreign):
                if foreign:
                    self._mark_path.touch()
                else:
                    self._mark_path.unlink(missing_ok=True)

    def _put(self, filed: list[Filed], now_s: float) -> None:
        """Without room publications are given up, so that they are delivered at least; subscriptions are refused."""
        if not filed:
            return
        try:
            self._storage.put(filed, now_s)
        except StorageFullError:
            subscriptions = [one for one in filed if isinstance(one.record, StoredSubscription)]
            self.not_kept += len(filed) - len(subscriptions)
            if subscriptions:
                raise

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
        """Some of all kept publications, with those that were to be written before."""
        self.queue([], lambda _failure: self._readings.append((after, done)))

    def _wants_to_work(self) -> bool:
        return super()._wants_to_work() or bool(self._searches) or self._is_reading_due() or self._is_upkeep_due()

    def _is_reading_due(self) -> bool:
        return bool(self._readings) and time.monotonic() >= self._readings_at_s

    def _is_upkeep_due(self) -> bool:
        return self._is_open and time.monotonic() >= self._upkeep_at_s

    async def _slice(self) -> None:
        if self._is_upkeep_due():
            await self._maintain()
        elif self._is_reading_due():
            await self._read_some_kept()
        elif self._searches:
            await self._search_some()

    async def _maintain(self) -> None:
        has_more = False
        try:
            has_more = await self.run(lambda: self._storage.maintain(self._clock()))
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
            batches, after = await self.run(self._read_kept, after)
        except Exception as error:
            log.error("kept publications cannot be read; trying again", database=self._name, error=str(error))
            self._readings_at_s = time.monotonic() + _AGAIN_S
            return
        self._readings.popleft()
        done(batches, after)

    async def _search_some(self) -> None:
        search, done = self._searches.popleft()
        try:
            await self.run(lambda: search.step(self._storage, self._clock()))
        except Exception as error:
            log.error("a search failed", database=self._name, error=str(error))
            done(None)
            return
        if search.is_done:
            done(search)
        else:
            self._searches.append((search, done))  # the others have their turn

    def _read_kept(self, after: Cursor | None) -> tuple[list[KeptBatch], Cursor | None]:
        piece = self._storage.read_piece(Kind.PUBLICATION, self._clock(), after, _READ_AT_ONCE)
        kept = [one.record for one in piece.filed]
        return [kept_batch(record) for record in kept if isinstance(record, StoredPublication)], piece.next

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
        self.shutdown()


def _ignore(_failure: Exception | None) -> None:
    """A mark that failed is written with the next write."""
