"""One LevelDB database with one writer (`braid.group_writer`): plyvel's calls block."""

from pathlib import Path
from typing import Any

import plyvel

from braid.group_writer import Done, Fsync, GroupWriter

Pair = tuple[bytes, bytes | None]  # no value erases the key


def settle(database: Any) -> None:
    """Waits until LevelDB has nothing to do for this database: compacting nothing comes behind whatever it does.

    Closing waits for that too, but keeps the interpreter to itself meanwhile, so that every other thread stands still.
    """
    database.compact_range(start=b"\x00", stop=b"\x00")


class GroupCommit(GroupWriter[Pair]):
    def __init__(self, path: Path, fsync: Fsync, fsync_interval_s: float) -> None:
        super().__init__(path, f"leveldb-{path.name}", fsync, fsync_interval_s)
        self._failed = False
        self._database: Any = None

    async def open(self) -> None:
        self._database = await self.run(self._open)

    def _open(self) -> Any:
        self._path.mkdir(parents=True, exist_ok=True)
        return plyvel.DB(str(self._path), create_if_missing=True, write_buffer_size=16 * 1024 * 1024)

    async def read_all(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        def read() -> list[tuple[bytes, bytes]]:
            return list(self._database.iterator(prefix=prefix))

        result: list[tuple[bytes, bytes]] = await self.run(read)
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
            settle(self._database)
            self._database.close()
            self._database = self._open()
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
