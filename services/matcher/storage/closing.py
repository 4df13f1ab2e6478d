"""Closing a database that goes anyway, while everybody else goes on.

LevelDB closes a database when its background thread, which all databases of a process share, has done what is planned
for that one; and plyvel keeps the interpreter to itself meanwhile. So whoever closes in the middle of a large
compaction stops every other thread, the event loop too. Here a thread of its own waits until nothing is planned any
more, with the interpreter free, and closes then.

The directory has another name by then. Nothing new can be written below the old one, so LevelDB ends a compaction with
its next file, and plans none from there on.
"""

import threading
import time
from typing import Any

_LAST_KEY = b"\xff" * 64
_PAUSE_S = 0.01


class Closing:
    def __init__(self, database: Any) -> None:
        """The database of plyvel; nobody else has it any more."""
        self._thread = threading.Thread(target=_close, args=(database,), name="closing", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether it is closed."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()


def _close(database: Any) -> None:
    # The first compaction fails, or there is nothing to compact; in the pause LevelDB meets what it planned itself.
    for _ in range(2):
        database.compact_range(start=b"\x00", stop=_LAST_KEY)
        time.sleep(_PAUSE_S)
    database.close()
