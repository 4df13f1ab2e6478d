"""The ledger: what each database is known to hold, kept outside of them.

A log whose end is cut off looks to LevelDB like one that ends there, and a log that is gone like one that never was.
So does a MANIFEST that lost its last records, and LevelDB removes the tables that were named in them. Only something
outside can tell that there was more. The ledger is brought up to date by maintenance and when the storage is closed,
so it never says more than there was. Files only grow until they go; all must be there only after an orderly end. It
has a checksum, so that an empty one is never taken for the word that there was nothing.
"""

import os
import zlib
from pathlib import Path

import msgspec

from services.matcher.storage.records import Damage


class Line(msgspec.Struct, array_like=True, frozen=True):
    written: int
    removed: int
    files: dict[str, int] = {}  # with their sizes

    @property
    def entries(self) -> int:
        return max(self.written - self.removed, 0)


class Lines(msgspec.Struct):
    closed: bool = False
    databases: dict[str, Line] = {}


class _Sealed(msgspec.Struct):
    checksum: int
    lines: msgspec.Raw


class Ledger:
    def __init__(self, path: Path, damaged: Path) -> None:
        self._path = path
        self._damaged = damaged  # where an unreadable one is kept
        self._lines = Lines()
        self._is_to_go = False  # it still says that all was closed

    def read(self, damages: list[Damage]) -> Lines:
        """From now on it does not count as closed. An unreadable one is empty: then LevelDB is on its own."""
        try:
            found = self._opened(self._path.read_bytes())
        except FileNotFoundError:
            return Lines()
        except ValueError as error:
            damages.append(self._set_aside(str(error)))
            return Lines()
        if found.closed:
            try:
                self.write(Lines(False, found.databases))
            except OSError:
                self._is_to_go = True
        else:
            self._lines = found
        return found

    def no_longer_closed(self) -> None:
        """All that it names is open. Where it could not be written, it goes: its word that all was closed would make
        damage of whatever a crash leaves. Not before: a start that fails needs it again.
        """
        if self._is_to_go:
            self._path.unlink(missing_ok=True)
            self._is_to_go = False

    def write(self, lines: Lines) -> None:
        if lines == self._lines:
            return
        packed = msgspec.json.encode(lines)
        aside = self._path.with_suffix(".new")
        aside.write_bytes(msgspec.json.encode(_Sealed(zlib.crc32(packed), msgspec.Raw(packed))))
        os.replace(aside, self._path)
        self._lines = lines
        self._is_to_go = False

    @staticmethod
    def _opened(content: bytes) -> Lines:
        """Raises `ValueError`."""
        sealed = msgspec.json.decode(content, type=_Sealed)
        packed = bytes(sealed.lines)
        if zlib.crc32(packed) != sealed.checksum:
            raise ValueError("its checksum is another")
        return msgspec.json.decode(packed, type=Lines)

    def _set_aside(self, error: str) -> Damage:
        kept_at = free_name(self._damaged, self._path.name)
        self._path.rename(kept_at)
        reason = f"the ledger cannot be read, so whatever else is missing may not be noticed: {error}"
        return Damage(self._path.name, (self._path.name,), reason, 0, 0, str(kept_at))


def free_name(directory: Path, name: str) -> Path:
    """For what is kept of something damaged."""
    directory.mkdir(exist_ok=True)
    base = name.replace("/", "_")
    number = 1
    while (directory / f"{base}.{number}").exists():
        number += 1
    return directory / f"{base}.{number}"


def what_is_missing(directory: Path, line: Line, was_closed: bool) -> str:
    """Of the files of a database; empty where they are as they should be."""
    for name, size in sorted(line.files.items()):
        file = directory / name
        if not file.exists():
            if was_closed:
                return f"{name} is missing"
        elif file.stat().st_size < size:
            return f"{name} has {file.stat().st_size:,} bytes and had {size:,}"
    return ""
