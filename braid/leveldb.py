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
        self._database: Any = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"leveldb-{path.name}")
        self._queued: list[tuple[bytes, bytes | None]] = []  # in order; no value erases the key
        self._done: list[Done] = []
        self._writing: asyncio.Task[None] | None = None
        self.writes = 0

    async def open(self) -> None:
        def open_database() -> Any:
            self._path.mkdir(parents=True, exist_ok=True)
            return plyvel.DB(str(self._path), create_if_missing=True, write_buffer_size=16 * 1024 * 1024)

        self._database = await self.run(open_database)

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

    def delete(self, key: bytes, done: Done | None = None) -> None:
        """Without `done` it waits for the next write or `flush`: nobody is in a hurry to forget."""
        self._queued.append((key, None))
        if done is not None:
            self._done.append(done)
            self.flush()

    @property
    def queued(self) -> int:
        return len(self._queued)

    def flush(self) -> None:
        if self._writing is None and self._queued:
            self._writing = asyncio.get_running_loop().create_task(self._write_queued())

    async def _write_queued(self) -> None:
        try:
            while self._queued:
                operations, self._queued = self._queued, []
                done, self._done = self._done, []
                failure: Exception | None = None
                try:
                    await self.run(self._write, operations)
                except Exception as error:
                    log.error("a write failed", database=str(self._path), error=str(error))
                    failure = error
                for callback in done:
                    callback(failure)
        finally:
            self._writing = None

    def _write(self, operations: list[tuple[bytes, bytes | None]]) -> None:
        now = time.monotonic()
        sync = self._fsync == "always" or (
            self._fsync == "interval" and now - self._synced_at >= self._fsync_interval_s
        )
        with self._database.write_batch(sync=sync) as batch:
            for key, value in operations:
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
        self.writes += 1
        if sync:
            self._synced_at = now

    async def close(self) -> None:
        """Writes what is queued, then closes."""
        if self._writing is not None:
            await self._writing
        if self._database is not None:
            await self._write_queued()
            await self.run(self._database.close)
        self._thread.shutdown()
