"""One LevelDB database: a window of records that expire together, or the base of those that last.

Its counters say how many entries were ever written and removed, of which kinds, and how new the newest publication is.
By them a reader passes over databases that have nothing for it, and whoever opens the database again sees what is
missing. They are written by `checkpoint`: a database that was not closed may hold more than they say, so then anything
is expected in it.

plyvel's plain iterators say nothing where their first seek meets a damaged file, its raw iterators do. So short reads
are by raw iterators, and a long one begins with the seek of one; all of them verify checksums.
"""

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import plyvel

from braid.forcing import force_logs
from braid.leveldb import settle
from services.matcher.storage.closing import Closing
from services.matcher.storage.keys import COUNTERS_KEY, ENTRIES_BEGIN, ChecksumError, opened, sealed
from services.matcher.storage.records import Kind
from services.matcher.storage.settings import StorageSettings

_counters = struct.Struct(">QQBdB")
_ANYTHING = int(Kind.SUBSCRIPTION | Kind.PUBLICATION)
_OPEN_FILES_MAX = 64  # of each database; the rest is opened when needed
_DAMAGE_TEXTS = ("Invalid argument", "No such file", "Corruption", "does not exist")


class DamagedError(Exception):
    def __init__(self, database: "Database", reason: str) -> None:
        super().__init__(f"{database.name} is damaged: {reason}")
        self.database = database
        self.reason = reason


class Write(msgspec.Struct):
    """What is written at once. `others` are not counted: what is kept beside the entries."""

    entries: list[tuple[bytes, bytes]] = []
    others: list[tuple[bytes, bytes]] = []
    removed: list[bytes] = []
    others_removed: list[bytes] = []
    kinds: int = 0
    newest_s: float = -math.inf

    @property
    def size(self) -> int:
        return sum([len(key) + len(value) for key, value in self.entries])


class Database:
    def __init__(self, name: str, path: Path, end_s: float, settings: StorageSettings) -> None:
        self.name = name
        self.path = path
        self.end_s = end_s  # from then on, everything in it has expired; infinite for a base
        self.written = 0  # entries, those written twice counted twice
        self.removed = 0
        self.kinds = 0
        self.newest_s = -math.inf  # T_P of the newest publication
        self.saved = (0, 0)  # written and removed, as they were when last written down
        self._changed = True
        self._is_synced = True
        self._settings = settings
        self._failed = False
        self._database: Any = None

    def open(self) -> None:
        """Raises `DamagedError`."""
        try:
            is_new = self._connect()
            packed = self._database.get(COUNTERS_KEY, verify_checksums=True)
            if packed is not None:
                *counters, was_closed = _counters.unpack(opened(COUNTERS_KEY, packed))
                self.written, self.removed, self.kinds, self.newest_s = counters
            if packed is None or was_closed:
                self.checkpoint()
            if (packed is None and not is_new) or (packed is not None and not was_closed):
                anything = (int(Kind.SUBSCRIPTION), -math.inf) if self.is_base else (_ANYTHING, math.inf)
                self.kinds, self.newest_s = anything
            self.saved = self.written, self.removed
        except (plyvel.Error, ChecksumError) as error:
            raise self._damaged(error) from None

    def _connect(self) -> bool:
        """Whether it is a new one."""
        self.path.mkdir(parents=True, exist_ok=True)
        is_new = not any(file.suffix in (".ldb", ".log") for file in self.path.iterdir())
        self._database = plyvel.DB(
            str(self.path),
            create_if_missing=is_new,
            paranoid_checks=True,
            write_buffer_size=self._settings.write_buffer_bytes,
            max_open_files=_OPEN_FILES_MAX,
            bloom_filter_bits=10,
        )
        return is_new

    def _connected(self) -> Any:
        """Again, where a failed write was the end of the last connection. Raises `plyvel.Error`."""
        if self._database is None:
            self._connect()
        return self._database

    def close(self) -> None:
        """With the last word of the storage; it does not matter who waits for LevelDB then."""
        if self._database is not None:
            self.checkpoint(closing=True)
            self._database.close()
            self._database = None

    def abandon(self) -> None:
        """Without a word: what is damaged."""
        if self._database is not None:
            settle(self._database)
            self._database.close()
            self._database = None

    def give_away(self) -> Closing | None:
        """What goes anyway, and has another path by now."""
        database, self._database = self._database, None
        return None if database is None else Closing(database)

    # Reading

    def entries(self, start: bytes = ENTRIES_BEGIN, stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """In the order of the keys. Raises `DamagedError`, perhaps after some."""
        try:
            database = self._connected()
            database.raw_iterator(verify_checksums=True).seek(start)
            yield from database.iterator(start=start, stop=stop, verify_checksums=True)
        except plyvel.Error as error:
            raise self._damaged(error) from None

    def cursor(self) -> Any:
        """A raw iterator, for whoever jumps about; it raises `plyvel.Error`, see `damaged_by`."""
        return self._connected().raw_iterator(verify_checksums=True)

    def get(self, key: bytes) -> memoryview | None:
        """What is sealed under a key."""
        try:
            value = self._connected().get(key, verify_checksums=True)
            return None if value is None else opened(key, value)
        except (plyvel.Error, ChecksumError) as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> Exception:
        """Not everything that goes wrong is damage: a full table of open files, for example, is not."""
        return DamagedError(self, text_of(error)) if is_damage(error) else error

    damaged_by = _damaged

    # Writing

    def write(self, write: Write) -> None:
        """All of it or nothing. Raises `DamagedError`, and `plyvel.Error` for what a repair cannot help."""
        if self._failed:
            # LevelDB goes on writing behind the record it could not finish, where no reader will ever look.
            self.abandon()
            self._failed = False
        try:
            database = self._connected()
            if len(write.entries) == 1 and not (write.others or write.removed or write.others_removed):
                database.put(*write.entries[0], sync=self._settings.fsync)
            else:
                batch = database.write_batch(sync=self._settings.fsync)
                for key, value in write.entries:
                    batch.put(key, value)
                for key, value in write.others:
                    batch.put(key, value)
                for key in (*write.removed, *write.others_removed):
                    batch.delete(key)
                batch.write()
        except plyvel.Error as error:
            self._failed = True
            raise self._damaged(error) from None
        self.written += len(write.entries)
        self.removed += len(write.removed)
        self.kinds |= write.kinds
        self.newest_s = max(self.newest_s, write.newest_s)
        self._changed = True
        self._is_synced = False

    def checkpoint(self, *, closing: bool = False) -> None:
        """Writes the counters. Raises `plyvel.Error`; the next write then begins with a new log, as behind `write`."""
        if not self._failed and (self._changed or closing):
            counters = _counters.pack(self.written, self.removed, self.kinds, self.newest_s, closing)
            try:
                self._connected().put(COUNTERS_KEY, sealed(COUNTERS_KEY, counters))
            except plyvel.Error:
                self._failed = True
                raise
            self.saved = self.written, self.removed
            self._changed = False

    def sync(self) -> None:
        """Brings to the disk what was written since the last time. All logs: what filled one up lies in the one before,
        which a write that waits for the disk would not force.
        """
        if not self._is_synced:
            force_logs(self.path)
            self._is_synced = True

    def reset_counters(self, found: int, kinds: int, newest_s: float) -> None:
        """After a repair: what is there is what was written."""
        self.written, self.removed, self.kinds, self.newest_s = found, 0, kinds, newest_s
        self._changed = True

    @property
    def is_base(self) -> bool:
        """Only of subscriptions: publications always expire in some window."""
        return math.isinf(self.end_s)

    @property
    def entries_left(self) -> int:
        return max(self.written - self.removed, 0)

    def has(self, kind: Kind) -> bool:
        return bool(self.kinds & kind)

    def disk_bytes(self) -> int:
        return sum(self.file_sizes().values())

    def file_sizes(self) -> dict[str, int]:
        sizes = {}
        for file in self.path.iterdir():
            try:
                sizes[file.name] = file.stat().st_size
            except FileNotFoundError:  # LevelDB removes files at any time
                continue
        return sizes

    def data_files(self) -> dict[str, int]:
        """Those that hold records, and the one that names them."""
        return {
            name: size
            for name, size in self.file_sizes().items()
            if name.endswith((".ldb", ".log")) or name.startswith("MANIFEST-")
        }


def is_damage(error: Exception) -> bool:
    """And not, for example, a disk or a table of open files that is full."""
    return isinstance(error, ChecksumError) or any(sign in text_of(error) for sign in _DAMAGE_TEXTS)


def text_of(error: Exception) -> str:
    """plyvel says it in bytes."""
    return error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
