"""Blocking writes off the event loop: whatever is queued is one write, one write after the other.

Each writer has a thread of its own. Callbacks run on the event loop, in the order in which their operations were
queued, and only when these are written. Long work that is no write is done in slices on the same thread, between
writes.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, Literal, TypeVar

import structlog

log = structlog.get_logger()

Fsync = Literal["always", "interval", "never"]
Done = Callable[[Exception | None], None]
T = TypeVar("T")

_TOLD_AT_ONCE = 250  # callbacks in one turn of the event loop


class GroupWriter(ABC, Generic[T]):
    """`fsync`: "always" waits for the disk at every write, "interval" at most every so many seconds, "never" leaves it
    to the operating system. A crash of the process alone loses nothing under any of them.
    """

    def __init__(self, name: str, fsync: Fsync, fsync_interval_s: float) -> None:
        self._name = name
        self._fsync = fsync
        self._fsync_interval_s = fsync_interval_s
        self._synced_at = 0.0
        self._unsynced = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._queued: list[T] = []
        self._done: list[Done] = []
        self._writing: asyncio.Task[None] | None = None
        self.writes = 0

    @abstractmethod
    def _write(self, operations: list[T], sync: bool) -> None:
        """Writes them in their order; on the writer's thread."""

    @abstractmethod
    def _again(self, operations: list[T]) -> list[T]:
        """Which of the operations of a failed write are tried again with the next one: nobody was told of these."""

    async def _slice(self) -> None:
        """A bit of whatever is to be done between writes."""

    async def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Runs blocking work on the writer's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def queue(self, operations: Iterable[T], done: Done | None) -> None:
        """`done` is told when all of them, and whatever was queued before, are written.

        Without it they wait for the next write or `flush`: nobody is in a hurry to forget.
        """
        self._queued += operations
        if done is not None:
            self._done.append(done)
            self.flush()

    @property
    def queued(self) -> int:
        return len(self._queued)

    def flush(self) -> None:
        """Writes what waits; under "interval" it also brings to the disk what was written since the last time."""
        if self._writing is None and self._wants_to_work():
            self._writing = asyncio.get_running_loop().create_task(self._write_queued())

    def _wants_to_work(self) -> bool:
        return bool(self._queued or self._done or self._is_sync_due())

    def _is_sync_due(self) -> bool:
        if self._fsync != "interval" or not self._unsynced:
            return False
        return time.monotonic() - self._synced_at >= self._fsync_interval_s

    async def _write_queued(self) -> None:
        try:
            # Asked before every write: under load this goes on without end.
            while self._wants_to_work():
                if (self._queued or self._done or self._is_sync_due()) and not await self._write_group():
                    return  # it is tried again with the next flush
                await self._slice()
        finally:
            self._writing = None

    async def _write_group(self) -> bool:
        operations, self._queued = self._queued, []
        done, self._done = self._done, []
        failure = await self._attempt(operations, self._is_sync_due())
        for place, callback in enumerate(done, start=1):
            if place % _TOLD_AT_ONCE == 0:
                await asyncio.sleep(0)  # one write may be that of thousands; everybody else has a turn
            try:
                callback(failure)
            except Exception:
                # Our own mistake; whoever else waits for this write must hear of it nevertheless.
                log.exception("a callback failed", database=self._name)
        if failure is not None:
            self._queued = self._again(operations) + self._queued
        return failure is None

    async def _attempt(self, operations: list[T], sync: bool) -> Exception | None:
        sync = sync or self._fsync == "always"
        try:
            await self.run(self._write, operations, sync)
        except Exception as error:
            log.error("a write failed", database=self._name, error=str(error))
            return error
        self.writes += 1
        self._unsynced = not sync
        if sync:
            self._synced_at = time.monotonic()
        return None

    async def finish(self) -> None:
        """Writes what is queued."""
        if self._writing is not None:
            await self._writing
        await self._write_queued()

    def shutdown(self) -> None:
        self._thread.shutdown()
