"""A matcher's store in tests: opened, asked and, where a test wants it, failing."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from braid.config import Settings
from braid.messages import FindPublications, KeptBatch
from braid.subscription import SubscriptionRecord
from services.matcher.operations import Operation
from services.matcher.searching import Search
from services.matcher.storage.records import Cursor
from services.matcher.store import MatcherStore
from tests.core.kept_cases import question
from tests.service.waiting import TIMEOUT_S
from tests.service.watched_database import written


class Clock:
    """Stands still until a test moves it."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


class Store(MatcherStore):
    """Remembers every group that was written, and can be slow and fail on purpose."""

    def __init__(self, path: Path, clock: Clock) -> None:
        super().__init__(path, Settings(), clock)
        self.groups: list[list[Operation]] = []
        self.failing = False
        self.group_s = 0.0  # how long a group takes at least
        self.pieces: list[list[SubscriptionRecord]] = []
        self.is_foreign = False

    @property
    def recovered(self) -> list[SubscriptionRecord]:
        return sorted((record for piece in self.pieces for record in piece), key=lambda record: record.id)

    def _write(self, operations: list[Operation], sync: bool) -> None:
        self.groups.append(operations)
        if self.failing:
            raise OSError("no space left on device")
        time.sleep(self.group_s)  # on the thread that writes
        super()._write(operations, sync)


async def opened(path: Path, clock: Clock | None = None, **settings: float) -> Store:
    """With what it found."""
    store = Store(path, clock or Clock())
    store._settings = replace(store._settings, **settings)
    store.is_foreign = await store.open(lambda records, _entries: store.pieces.append(records))
    return store


async def reopened(store: Store, **settings: float) -> Store:
    await store.close()
    return await opened(store._path, Clock(store._clock()), **settings)


async def put(store: Store, *records: SubscriptionRecord, is_new: bool = True) -> None:
    for record in records:
        assert await written(lambda done, record=record: store.put(record, is_new=is_new, done=done)) is None  # type: ignore[misc]  # bound now


async def keep(store: Store, *batches: KeptBatch) -> None:
    assert await written(lambda done: store.keep(list(batches), done)) is None


async def search(store: Store, asked: FindPublications | None = None) -> Search | None:
    answer: asyncio.Future[Search | None] = asyncio.get_running_loop().create_future()
    store.search(asked or question(), answer.set_result)
    return await asyncio.wait_for(answer, TIMEOUT_S)


async def found(store: Store, asked: FindPublications | None = None) -> list[tuple[int, int]]:
    """Sequence and place of all that one search finds."""
    done = await search(store, asked)
    assert done is not None
    return [(kept.sequence, kept.place) for kept in done.found]


async def all_kept(store: Store) -> list[list[KeptBatch]]:
    """Piece by piece."""
    pieces: list[list[KeptBatch]] = []
    after: Cursor | None = None
    while True:
        answer: asyncio.Future[tuple[list[KeptBatch], Cursor | None]] = asyncio.get_running_loop().create_future()
        store.read_kept(after, _told(answer))
        batches, after = await asyncio.wait_for(answer, TIMEOUT_S)
        pieces.append(batches)
        if after is None:
            return pieces


def _told(
    answer: "asyncio.Future[tuple[list[KeptBatch], Cursor | None]]",
) -> Callable[[list[KeptBatch], Cursor | None], None]:
    return lambda batches, after: answer.set_result((batches, after))
