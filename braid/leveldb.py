"""One LevelDB database with one writer (`braid.group_writer`): plyvel's calls block."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import plyvel

from braid.group_writer import Done, Fsync, GroupWriter

Pair = tuple[bytes, bytes | None]  # no value erases the key


def settle(database: Any) -> None:
    """Waits until LevelDB has nothing to do for this database: compacting nothing comes behind whatever it does.

    Closing waits for that too, but keeps the interpreter to itself meanwhile, so that every other thread stands still.
    """
    database.compact_range(start=b"\x00", stop=b"\x00")


def _open(path: Path) -> Any:
    path.mkdir(parents=True, exist_ok=True)
    return plyvel.DB(str(path), create_if_missing=True, write_buffer_size=16 * 1024 * 1024)


def _open_again(database: Any, path: Path) -> Any:
    settle(database)
    database.close()
    return _open(path)


class GroupCommit(GroupWriter[Pair]):
    def __init__(self, path: Path, fsync: Fsync, fsync_interval_s: float) -> None:
        super().__init__(path, f"leveldb-{path.name}", fsync, fsync_interval_s)
        self._failed = False
        self._database: Any = None

    async def open(self) -> None:
        self._database = await self.run(_open, self._path)

    async def read_all(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        def read() -> list[tuple[bytes, bytes]]:
            return list(self._database.iterator(prefix=prefix))

        result: list[tuple[bytes, bytes]] = await self.run(read)
        return result

    async def read_sizes(self, prefix: bytes) -> list[tuple[bytes, int]]:
        """Keys, and the sizes of their values: these are not kept in memory."""

        def read() -> list[tuple[bytes, int]]:
            return [(key, len(value)) for key, value in self._database.iterator(prefix=prefix)]

        result: list[tuple[bytes, int]] = await self.run(read)
        return result

    async def read_some(self, start: bytes, stop: bytes, most: int, bytes_max: int) -> list[tuple[bytes, bytes]]:
        """In the order of keys, as many as asked for at most; a first one that is larger comes alone."""

        def read() -> list[tuple[bytes, bytes]]:
            found: list[tuple[bytes, bytes]] = []
            size = 0
            with self._database.iterator(start=start, stop=stop) as pairs:
                for key, value in pairs:
                    size += len(value)
                    if len(found) == most or (found and size > bytes_max):
                        break
                    found.append((key, value))
            return found

        result: list[tuple[bytes, bytes]] = await self.run(read)
        return result

    def put(self, key: bytes, value: bytes, done: Done) -> None:
        self.queue([(key, value)], done)

    def delete(self, key: bytes, done: Done | None = None) -> None:
        self.queue([(key, None)], done)

    def _again(self, operations: list[Pair]) -> list[Pair]:
        return [(key, value) for key, value in operations if value is None]

    def _write(self, operations: list[Pair], sync: bool) -> None:
        if self._failed:
            # LevelDB goes on writing behind the record it could not finish, where no reader will ever look.
            self._database = _open_again(self._database, self._path)
            self._failed = False
        try:
            with self._database.write_batch(sync=sync) as batch:
                for key, value in operations:
                    if value is None:
                        batch.delete(key)
                    else:
                        batch.put(key, value)
        except Exception:
            self._failed = True
            raise

    async def close(self) -> None:
        """Writes what is queued, then closes."""
        if self._database is not None:
            await self.finish()
            await self.run(self._database.close)
        self.shutdown()


class Pages:
    """A database as its thread sees it. What is put or deleted is collected, and written before anything is read."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self._batch = database.write_batch()
        self._is_empty = True
        self._has_written = False

    def put(self, key: bytes, value: bytes) -> None:
        self._batch.put(key, value)
        self._is_empty = False

    def delete(self, key: bytes) -> None:
        self._batch.delete(key)
        self._is_empty = False

    def scan(self, prefix: bytes, first: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """In the order of keys, as they are now: what is put or deleted meanwhile changes nothing.

        Whoever knows the `first` key that can be there says so: LevelDB walks over everything that was deleted before
        it, until that is compacted away.
        """
        self.write()
        behind = prefix[:-1] + bytes([prefix[-1] + 1])
        iterator: Iterator[tuple[bytes, bytes]] = self._database.iterator(start=first or prefix, stop=behind)
        return iterator

    def get(self, key: bytes) -> bytes | None:
        self.write()
        value: bytes | None = self._database.get(key)
        return value

    def write(self) -> None:
        if not self._is_empty:
            self._write(sync=False)

    def finish(self, sync: bool) -> None:
        """Whatever was written stands in one log, so what is forced last is forced with all before it."""
        if not self._is_empty or (sync and self._has_written):
            self._write(sync)

    def _write(self, sync: bool) -> None:
        batch = self._batch
        if sync:
            batch = self._database.write_batch(sync=True)
            batch.append(self._batch)
        batch.write()
        self._batch = self._database.write_batch()
        self._is_empty, self._has_written = True, True


Work = Callable[[Pages], None]


class _Asked(NamedTuple):
    work: Work
    is_told: bool  # whoever asked for it


class SerialDatabase(GroupWriter[_Asked]):
    """Work that reads and writes, done on one thread in the order in which it was asked for; many writes become one."""

    def __init__(self, path: Path, fsync: Fsync, fsync_interval_s: float, on_open: Work) -> None:
        """`on_open` is done first, and again when the database had to be opened anew because a write failed."""
        super().__init__(path, f"leveldb-{path.name}", fsync, fsync_interval_s)
        self._on_open = on_open
        self._failed = False
        self._database: Any = None

    async def open(self) -> None:
        def open_and_read() -> Any:
            database = _open(self._path)
            self._on_open(Pages(database))
            return database

        self._database = await self.run(open_and_read)

    def do(self, works: Iterable[Work], done: Done | None) -> None:
        """Without `done` it is done with the next write or `flush`; and again, should that fail halfway."""
        self.queue([_Asked(work, done is not None) for work in works], done)

    def _again(self, operations: list[_Asked]) -> list[_Asked]:
        return [asked for asked in operations if not asked.is_told]

    def _write(self, operations: list[_Asked], sync: bool) -> None:
        if self._failed:
            self._database = _open_again(self._database, self._path)
            self._on_open(Pages(self._database))
            self._failed = False
        pages = Pages(self._database)
        try:
            for asked in operations:
                asked.work(pages)
            pages.finish(sync)
        except Exception:
            self._failed = True
            raise

    async def close(self) -> None:
        """Does what is queued, then closes."""
        if self._database is not None:
            await self.finish()
            await self.run(self._database.close)
        self.shutdown()
