"""The outbox on disk: what waits to be posted, in a LevelDB of its own. What is asked of it is done in order."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from braid.config import Settings
from braid.group_writer import Done
from braid.leveldb import Pages, SerialDatabase
from services.connpoint.delivery import Addressed
from services.connpoint.webhooks.events import Bury, BuryWaiting
from services.connpoint.webhooks.facts import Facts
from services.connpoint.webhooks.records import DeadLetter
from services.connpoint.webhooks.shelf import Counts, Taken
from services.connpoint.webhooks.shelves import Shelves

T = TypeVar("T")


class WebhookOutbox:
    """Calls that wait raise what the disk raised. What others ask for is done again with the next write then."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self._shelves = Shelves(settings.webhooks)
        # What it keeps has left the ingress log, so it is as safe as that.
        fsync = settings.ingress
        self._database = SerialDatabase(path, fsync.fsync, fsync.fsync_interval_s, self._shelves.load)

    async def open(self) -> dict[str, tuple[Facts, bool]]:
        """Every endpoint that is there, and whether something waits for it."""
        await self._database.open()
        found = self._shelves.facts
        return {id: (facts, self._shelves.counts(id).waiting > 0) for id, facts in found.items()}

    def append(self, came: Sequence[tuple[list[Addressed], float]], done: Done) -> None:
        """Each with the time at which it came."""
        works = [partial(self._shelves.append, addressed=addressed, received_s=at_s) for addressed, at_s in came]
        self._database.do(works, done)

    async def take(self, id: str) -> Taken | None:
        return await self._ask(lambda pages: self._shelves.take(pages, id))

    def settle(self, id: str, number: int, facts: Facts, now_s: float) -> None:
        self._queue(lambda pages: self._shelves.settle(pages, id, number, facts, now_s))

    def bury(self, id: str, wanted: Bury, facts: Facts, now_s: float) -> None:
        self._queue(lambda pages: self._shelves.bury(pages, id, wanted, facts, now_s))

    def bury_waiting(self, id: str, wanted: BuryWaiting, now_s: float) -> None:
        self._queue(lambda pages: self._shelves.bury_waiting(pages, id, wanted, now_s))

    def note(self, id: str, facts: Facts) -> None:
        self._queue(lambda pages: self._shelves.note(pages, id, facts))

    def remove(self, id: str) -> None:
        self._queue(lambda pages: self._shelves.remove(pages, id))

    async def replay(self, id: str, wanted: set[str] | None) -> tuple[int, int]:
        return await self._ask(lambda pages: self._shelves.replay(pages, id, wanted))

    async def dead_letters(self, id: str, most: int) -> list[DeadLetter]:
        return await self._ask(lambda pages: self._shelves.dead_letters(pages, id, most))

    async def counts(self, id: str) -> Counts:
        return await self._ask(lambda _pages: self._shelves.counts(id))

    @property
    def totals(self) -> Counts:
        """As they are in this moment, somewhere between two writes."""
        return self._shelves.totals

    def forget_arrived(self, now_s: float) -> None:
        """Where that fails, the next call forgets it."""
        self._database.do([lambda pages: self._shelves.forget_arrived(pages, now_s)], lambda _failure: None)

    def flush(self) -> None:
        self._database.flush()

    async def close(self) -> None:
        await self._database.close()

    def _queue(self, work: Callable[[Pages], None]) -> None:
        """Done with whatever is asked for next, at the latest with the next flush."""
        self._database.do([work], None)

    async def _ask(self, work: Callable[[Pages], T]) -> T:
        answered: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        results: list[T] = []

        def done(failure: Exception | None) -> None:
            if answered.done():
                return  # whoever asked has gone
            if failure is None:
                answered.set_result(results[-1])
            else:
                answered.set_exception(failure)

        self._database.do([lambda pages: results.append(work(pages))], done)
        return await answered
