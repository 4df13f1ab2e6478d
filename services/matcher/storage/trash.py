"""Databases that are gone for everybody, and whose space is still to be given back.

A database goes by one renaming, whatever its size: from then on nobody finds it, also after a crash. Giving its space
back takes as long as it takes the file system to remove dozens of files, so a thread of its own does that, one file
after the other, with the interpreter free; nothing else waits for it.

Until a file is really removed it counts: `bytes` is what is left, and grows less with each file. What is found here
when a storage is opened was left by a process before, and goes the same way. What cannot be removed still counts, and
is tried again by `go_on`.
"""

import contextlib
import os
import shutil
import threading
from pathlib import Path

from services.matcher.storage.closing import Closing
from services.matcher.storage.database import Database


class _Going:
    def __init__(self, path: Path, size: int, closing: Closing | None = None) -> None:
        self.path = path
        self.bytes = size
        self.closing = closing


class Trash:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()  # for everything below
        self._going: list[_Going] = []
        self._worker: threading.Thread | None = None
        self._stopping = False
        self._failure: OSError | None = None

    def open(self) -> None:
        with contextlib.suppress(OSError):  # made before a disk is full; otherwise it is tried again
            self._path.mkdir(parents=True, exist_ok=True)
        if self._path.exists():
            self._going = [_Going(path, size_of(path)) for path in sorted(self._path.iterdir())]
        self.go_on()

    def take(self, database: Database, size: int) -> Closing | None:
        """Nobody finds it any more. Its name is free again when it is closed, which the caller may wait for.

        `size` is what it was known to use; its files are looked at by the thread that removes them.
        """
        self._path.mkdir(parents=True, exist_ok=True)
        number = 0
        while (aside := self._path / f"{database.name.replace('/', '_')}.{number}").exists():
            number += 1
        database.path.rename(aside)
        closing = database.give_away()
        with self._lock:
            self._going.append(_Going(aside, size, closing))
        self.go_on()
        return closing

    @property
    def bytes(self) -> int:
        """What is still to be given back."""
        with self._lock:
            return sum(one.bytes for one in self._going)

    def go_on(self) -> None:
        """Where there is something to remove and nobody does."""
        with self._lock:
            if self._going and self._worker is None and not self._stopping:
                self._worker = threading.Thread(target=self._work, name="trash", daemon=True)
                self._worker.start()

    def failure(self) -> OSError | None:
        """Why something could not be removed, since this was last asked."""
        with self._lock:
            failure, self._failure = self._failure, None
        return failure

    def is_busy(self, timeout_s: float | None = 0.0) -> bool:
        """Whether something is being removed, after so long."""
        worker = self._worker
        if worker is not None:
            worker.join(timeout_s)
        return self._worker is not None

    def close(self) -> None:
        """Waits until all are closed, and for the file that is being removed; the rest is found again."""
        with self._lock:
            self._stopping = True
            going = list(self._going)
        for one in going:
            if one.closing is not None:
                one.closing.wait()
        self.is_busy(None)

    # The thread

    def _work(self) -> None:
        while (one := self._next()) is not None:
            try:
                if one.closing is not None:
                    one.closing.wait()
                self._remove(one)
            except OSError as error:
                with self._lock:
                    self._failure, self._worker = error, None
                return

    def _next(self) -> _Going | None:
        with self._lock:
            if self._going and not self._stopping:
                return self._going[0]
            self._worker = None
            return None

    def _remove(self, one: _Going) -> None:
        with contextlib.suppress(FileNotFoundError):  # somebody else removes it too
            with os.scandir(one.path) as found:
                files = [(file, file.stat(follow_symlinks=False).st_size) for file in found]
            with self._lock:
                one.bytes = sum(size for _, size in files)
            for file, size in files:
                if self._stopping:
                    return
                shutil.rmtree(file.path) if file.is_dir(follow_symlinks=False) else os.unlink(file.path)
                with self._lock:
                    one.bytes -= size
            one.path.rmdir()
        with self._lock:
            self._going.remove(one)


def size_of(path: Path) -> int:
    """Of a file, or of all files of a directory."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.iterdir()) if path.exists() else 0
