"""Blocking writes off the event loop: whatever is queued is one write, one write after the other.

Each writer has a thread of its own. Callbacks run on the event loop, in the order in which their operations were
queued, and only when these are written. Long work that is no write is done in slices on the same thread, between
writes. What is forced to the disk now and then is forced from another thread, so that no write waits for it.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import structlog

from braid.forcing import force_logs

log = structlog.get_logger()

Fsync = Literal["always", "interval", "never"]
Done = Callable[[Exception | None], None]
T = TypeVar("T")

_TOLD_AT_ONCE = 250  # callbacks in one turn of the event loop


class PartlyWritten(Exception, Generic[T]):
    """Everything is written but some, each of which failed for itself."""

    def __init__(self, failed: list[tuple[T, Exception]]) -> None:
        self.failed = failed
        self.reason = failed[0][1]
        super().__init__(str(self.reason))


class GroupWriter(ABC, Generic[T]):
    """`fsync`: "always" waits for the disk at every write, "interval" forces what was written every so many seconds,
    "never" leaves it to the operating system. A crash of the process alone loses nothing under any of them.
    """

    def __init__(self, path: Path, name: str, fsync: Fsync, fsync_interval_s: float) -> None:
        """`path` is the directory of everything that is written."""
        self._path = path
        self._name = name
        self._fsync = fsync
        self._fsync_interval_s = fsync_interval_s
        self._forced_at = 0.0
        self._unforced = False
        self._forcing: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._forcing_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"force-{name}")
        self._queued: list[T] = []
        self._done: list[tuple[list[T], Done]] = []  # who is told, of which operations
        self._writing: asyncio.Task[None] | None = None
        self.writes = 0
        self.forced = 0  # how often what was written has been forced to the disk

    @abstractmethod
    def _write(self, operations: list[T], sync: bool) -> None:
        """Writes them in their order, and waits for the disk if it is to; on the writer's thread.

        Raises `PartlyWritten` where only some of them failed; after any other error all of them have.
        """

    @abstractmethod
    def _again(self, operations: list[T]) -> list[T]:
        """Which of the operations of a failed write are tried again with the next one: nobody was told of these."""

    def _on_told(self) -> None:
        """Whoever waited for a write has heard of it."""

    async def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Runs blocking work on the writer's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def queue(self, operations: Iterable[T], done: Done | None) -> None:
        """`done` is told when all of them, and whatever was queued before, are written.

        Without it they wait for the next write or `flush`: nobody is in a hurry to forget.
        """
        given = list(operations)
        self._queued += given
        if done is not None:
            self._done.append((given, done))
            self.flush()

    @property
    def queued(self) -> int:
        return len(self._queued)

    def flush(self) -> None:
        """Writes what waits; under "interval" it also forces to the disk what was written since the last time."""
        if self._writing is None and self._has_writes():
            self._writing = asyncio.get_running_loop().create_task(self._write_queued())
        if self._forcing is None and self._is_forcing_due():
            self._forcing = asyncio.get_running_loop().create_task(self._force())

    def _has_writes(self) -> bool:
        return bool(self._queued or self._done)

    def _is_forcing_due(self) -> bool:
        if self._fsync != "interval" or not self._unforced:
            return False
        return time.monotonic() - self._forced_at >= self._fsync_interval_s

    async def _force(self) -> None:
        self._unforced = False  # what is written meanwhile is forced the next time
        try:
            await asyncio.get_running_loop().run_in_executor(self._forcing_thread, force_logs, self._path)
            self.forced += 1
        except OSError as error:
            log.error("what was written cannot be forced to the disk", database=self._name, error=str(error))
            self._unforced = True
        finally:
            self._forced_at = time.monotonic()
            self._forcing = None

    async def _write_queued(self) -> None:
        try:
            # Asked before every write: under load this goes on without end.
            while self._has_writes():
                if not await self._write_group():
                    return  # it is tried again with the next flush
                self._on_told()
        finally:
            self._writing = None

    async def _write_group(self) -> bool:
        """Whether to go on with the next one."""
        operations, self._queued = self._queued, []
        done, self._done = self._done, []
        failure = await self._attempt(operations)
        partly = failure if isinstance(failure, PartlyWritten) else None
        reasons = {} if partly is None else {id(operation): reason for operation, reason in partly.failed}
        for place, (own, callback) in enumerate(done, start=1):
            if place % _TOLD_AT_ONCE == 0:
                await asyncio.sleep(0)  # one write may be that of thousands; everybody else has a turn
            try:
                callback(_reason_of(own, reasons) if reasons else failure)
            except Exception:
                # Our own mistake; whoever else waits for this write must hear of it nevertheless.
                log.exception("a callback failed", database=self._name)
        if failure is None:
            return True
        again = self._again(operations if partly is None else [operation for operation, _ in partly.failed])
        self._queued = again + self._queued
        return partly is not None and not again

    async def _attempt(self, operations: list[T]) -> Exception | None:
        try:
            await self.run(self._write, operations, self._fsync == "always")
        except Exception as error:
            log.error("a write failed", database=self._name, error=str(error))
            self._unforced |= isinstance(error, PartlyWritten)
            return error
        self.writes += 1
        self._unforced = True
        return None

    async def finish(self) -> None:
        """Writes what is queued."""
        if self._writing is not None:
            await self._writing
        await self._write_queued()
        if self._forcing is not None:
            await self._forcing

    def shutdown(self) -> None:
        self._thread.shutdown()
        self._forcing_thread.shutdown()


def _reason_of(operations: Iterable[Any], reasons: dict[int, Exception]) -> Exception | None:
    return next((reasons[id(operation)] for operation in operations if id(operation) in reasons), None)
