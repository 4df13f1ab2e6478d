"""LevelDB off the event loop: whatever is queued is one write, one write after the other.

plyvel's calls block, so each database has a thread of its own. Callbacks run on the event loop, in the order in
which their writes were queued, and only when the write is done.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import plyvel
import structlog

log = structlog.get_logger()

Fsync = Literal["always", "interval", "never"]
Done = Callable[[Exception | None], None]

_TOLD_AT_ONCE = 250  # callbacks in one turn of the event loop
_SYNC_MARK = b"\x00sync"


class GroupCommit:
    """One LevelDB database with one writer.

    `fsync`: "always" waits for the disk at every write, "interval" at most every so many seconds, "never" leaves it to
    the operating system. A crash of the process alone loses nothing under any of them.
    """

    def __init__(self, path: Path, fsync: Fsync, fsync_interval_s: float) -> None:
        self._path = path
        self._fsync = fsync
        self._fsync_interval_s = fsync_interval_s
        self._synced_at = 0.0
        self._unsynced = False
        self._failed = False
        self._database: Any = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"leveldb-{path.name}")
        self._queued: list[tuple[bytes, bytes | None]] = []  # in order; no value erases the key
        self._done: list[Done] = []
        self._writing: asyncio.Task[None] | None = None
        self.writes = 0

    async def open(self) -> None:
        self._database = await self.run(self._open)

    def _open(self) -> Any:
        self._path.mkdir(parents=True, exist_ok=True)
        return plyvel.DB(str(self._path), create_if_missing=True, write_buffer_size=16 * 1024 * 1024)

    async def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Runs blocking work on the database's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    async def read_all(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        def read() -> list[tuple[bytes, bytes]]:
            return list(self._database.iterator(prefix=prefix))

        result: list[tuple[bytes, bytes]] = await self.run(read)
        return result

    def put(self, key: bytes, value: bytes, done: Done) -> None:
        self._queued.append((key, value))
        self._done.append(done)
        self.flush()

    def put_all(self, pairs: list[tuple[bytes, bytes | None]], done: Done) -> None:
        """No value erases the key. `done` is told when all of them, and whatever was queued before, are written."""
        self._queued += pairs
        self._done.append(done)
        self.flush()

    def delete(self, key: bytes, done: Done | None = None) -> None:
        """Without `done` it waits for the next write or `flush`: nobody is in a hurry to forget."""
        self._queued.append((key, None))
        if done is not None:
            self._done.append(done)
            self.flush()

    @property
    def queued(self) -> int:
        return len(self._queued)

    async def has(self, key: bytes) -> bool:
        found: bytes | None = await self.run(lambda: self._database.get(key))
        return found is not None

    def flush(self) -> None:
        """Writes what waits; under "interval" it also brings to the disk what was written since the last time."""
        if self._writing is None and (self._queued or self._done or self._is_sync_due()):
            self._writing = asyncio.get_running_loop().create_task(self._write_queued())

    def _is_sync_due(self) -> bool:
        if self._fsync != "interval" or not self._unsynced:
            return False
        return time.monotonic() - self._synced_at >= self._fsync_interval_s

    async def _write_queued(self) -> None:
        try:
            # Asked before every write: under load this goes on without end.
            while self._queued or self._done or self._is_sync_due():
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
                        log.exception("a callback failed", database=str(self._path))
                if failure is not None:
                    # Nobody was told that these are erased; they are tried again with the next write.
                    self._queued = [(key, value) for key, value in operations if value is None] + self._queued
                    return
        finally:
            self._writing = None

    async def _attempt(self, operations: list[tuple[bytes, bytes | None]], sync: bool) -> Exception | None:
        try:
            await self.run(self._write, operations, sync or self._fsync == "always")
        except Exception as error:
            log.error("a write failed", database=str(self._path), error=str(error))
            self._failed = True
            return error
        return None

    def _write(self, operations: list[tuple[bytes, bytes | None]], sync: bool) -> None:
        if self._failed:
            # LevelDB goes on writing behind the record it could not finish, where no reader will ever look.
            self._database.close()
            self._database = self._open()
            self._failed = False
        with self._database.write_batch(sync=sync) as batch:
            if sync:
                batch.put(_SYNC_MARK, b"")  # an empty batch would not be written, so nothing would be forced
            for key, value in operations:
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
        self.writes += 1
        self._unsynced = not sync
        if sync:
            self._synced_at = time.monotonic()

    async def close(self) -> None:
        """Writes what is queued, then closes."""
        if self._writing is not None:
            await self._writing
        if self._database is not None:
            await self._write_queued()
            await self.run(self._database.close)
        self._thread.shutdown()
