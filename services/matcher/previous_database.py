"""What a matcher remembers for `prev`, on disk: a small LevelDB database with one value for each topic.

It has the bounds of what is remembered in memory. What it loses makes a comparison false that would have been true, and
nothing else: so whatever is damaged is kept aside and reported, and the matcher goes on without.
"""

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import plyvel

from braid.leveldb import settle
from braid.matching.previous import ChainChanges
from services.matcher.storage.database import text_of
from services.matcher.storage.keys import ChecksumError, opened, sealed
from services.matcher.storage.ledger import free_name
from services.matcher.storage.records import Damage

_NAME = "previous"
_OWED_MAX = 200_000  # three times as many topics as are remembered
_NO_ROOM = ("No space left", "quota exceeded", "Too many open files", "Cannot allocate memory")
_TOPIC, _SYNC_MARK = b"t", b"s"
_WRITE_BUFFER_BYTES = 4 * 1024 * 1024


class PreviousDatabase:
    def __init__(self, root: Path) -> None:
        self._path = root / _NAME
        self._damaged_path = root / "damaged"
        self._database: Any = None
        self._is_open = False
        self._failed = False
        self._owed: dict[bytes, bytes | None] = {}  # not written yet
        self._owes_all = False  # and nothing that is on disk counts
        self.damages: list[Damage] = []

    def open(self) -> dict[str, bytes]:
        """With all that it holds, by topic."""
        self._is_open = True
        try:
            self._connect()
            return self._read()
        except (plyvel.Error, ChecksumError, UnicodeDecodeError, OSError) as error:
            if any(sign in text_of(error) for sign in _NO_ROOM):
                self._disconnect()
                raise  # it is as good as it was, and there when there is room
            self._set_aside(text_of(error))
            self._connect()
            return {}

    def write(self, several: Iterable[ChainChanges], *, sync: bool) -> None:
        """All of them at once, in their order, behind those that could not be written before: an older value that
        stayed on disk would be compared with after the next start.
        """
        if not self._is_open:
            return  # nothing was asked of it before it was opened
        for changes in several:
            if changes.is_cleared:
                self._owed, self._owes_all = {}, True
            self._owed.update({_TOPIC + topic.encode(): chain for topic, chain in changes.chains.items()})
        if len(self._owed) > _OWED_MAX:
            # Most of these were forgotten meanwhile. What has not changed since is given up on disk with them.
            self._owed = {key: chain for key, chain in self._owed.items() if chain is not None}
            self._owes_all = True
        try:
            if self._failed:
                # LevelDB goes on writing behind the record it could not finish, where no reader will ever look.
                self._disconnect()
                self._connect()
                self._failed = False
            self._write_owed(sync)
        except Exception:
            self._failed = True
            raise
        self._owed, self._owes_all = {}, False

    def _write_owed(self, sync: bool) -> None:
        batch = self._database.write_batch(sync=sync)
        for key in self._keys() if self._owes_all else ():
            batch.delete(key)
        for key, value in self._owed.items():
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, sealed(key, value))
        if sync:
            batch.put(_SYNC_MARK, b"")  # an empty batch would not be written, so nothing would be forced
        batch.write()

    def close(self) -> None:
        if self._owed:
            with contextlib.suppress(plyvel.Error):  # there may be room by now
                self.write([], sync=False)
        self._is_open = False
        self._disconnect()

    def _disconnect(self) -> None:
        if self._database is not None:
            settle(self._database)
            self._database.close()
            self._database = None

    def _connect(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        self._database = plyvel.DB(
            str(self._path), create_if_missing=True, paranoid_checks=True, write_buffer_size=_WRITE_BUFFER_BYTES
        )

    def _keys(self) -> Iterable[bytes]:
        return self._database.iterator(prefix=_TOPIC, include_value=False)  # type: ignore[no-any-return]  # plyvel has no types

    def _read(self) -> dict[str, bytes]:
        # Only a raw iterator says when its first seek meets a damaged file.
        self._database.raw_iterator(verify_checksums=True).seek(_TOPIC)
        pairs = self._database.iterator(prefix=_TOPIC, verify_checksums=True)
        return {key[len(_TOPIC) :].decode(): bytes(opened(key, value)) for key, value in pairs}

    def _set_aside(self, reason: str) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
        kept_at = free_name(self._damaged_path, _NAME)
        self._path.rename(kept_at)
        # Nobody counts how many topics there were.
        self.damages.append(Damage(_NAME, (), reason, 0, 0, str(kept_at)))
