"""Closing a database that goes anyway, and removing its files, while everybody else goes on.

LevelDB closes a database when its background thread, which all databases of a process share, has done what is planned
for that one; and plyvel keeps the interpreter to itself meanwhile. So whoever closes in the middle of a large
compaction stops every other thread, the event loop too. Here a thread of its own waits until nothing is planned any
more, with the interpreter free, closes then, and removes what is left: a window of a million publications is dozens of
files, for which nothing else has to wait.

The directory has another name by then. Nothing new can be written below the old one, so LevelDB ends a compaction with
its next file, and plans none from there on.
"""

import shutil
import threading
import time
from pathlib import Path
from typing import Any

_LAST_KEY = b"\xff" * 64
_PAUSE_S = 0.01


class Closing:
    def __init__(self, database: Any, path: Path) -> None:
        """The database of plyvel, and where its files are by now; nobody else has it any more."""
        self._database = database
        self._path = path
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="closing", daemon=True)
        self._thread.start()

    def wait_until_closed(self) -> None:
        self._is_closed.wait()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether all is done. What could not be removed is left."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        try:
            _close(self._database)
        finally:
            self._is_closed.set()
        shutil.rmtree(self._path, ignore_errors=True)


def _close(database: Any) -> None:
    # The first compaction fails, or there is nothing to compact; in the pause LevelDB meets what it planned itself.
    for _ in range(2):
        database.compact_range(start=b"\x00", stop=_LAST_KEY)
        time.sleep(_PAUSE_S)
    database.close()
