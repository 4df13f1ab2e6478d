"""The ledger: what each database is known to hold, kept outside of them.

A log whose end is cut off looks to LevelDB like one that ends there, and a log that is gone like one that never was.
Only something outside can tell that there was more. The ledger is brought up to date by maintenance and when the
storage is closed, so it never says more than there was. Files only grow until they go; all must be there only after an
orderly end.
"""

import os
from pathlib import Path

import msgspec


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


class Ledger:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = Lines()

    def read(self) -> Lines:
        """From now on it does not count as closed. An unreadable one is empty: then LevelDB is on its own."""
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=Lines)
        except (FileNotFoundError, msgspec.DecodeError):
            return Lines()
        self.write(Lines(False, found.databases))
        return found

    def write(self, lines: Lines) -> None:
        if lines == self._lines:
            return
        aside = self._path.with_suffix(".new")
        aside.write_bytes(msgspec.json.encode(lines))
        os.replace(aside, self._path)
        self._lines = lines


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
