"""Forces what LevelDB has written to the disk, beside whoever goes on writing.

LevelDB hands each write to the operating system, but has no call that forces it later; a write that is forced holds up
all others of its database meanwhile, which is many milliseconds where much is on its way to the disk. The logs are
files like others, so they are forced from outside: whatever was written before is then on the disk, in the log or in a
table, which LevelDB forces itself before it removes the log.
"""

import os
from collections.abc import Iterator
from pathlib import Path

_NO_DATA = ("trash", "damaged")  # what is being removed, and what is kept as it was found


def force_logs(directory: Path) -> int:
    """All logs of all databases below a directory; how many there were. Blocks."""
    forced = 0
    for path in _logs(directory):
        try:
            file = os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # LevelDB has made a table of it
            continue
        try:
            os.fdatasync(file)
            forced += 1
        finally:
            os.close(file)
    return forced


def _logs(directory: Path) -> Iterator[str]:
    for at, names, files in os.walk(directory):
        names[:] = [name for name in names if name not in _NO_DATA]
        yield from (os.path.join(at, name) for name in files if name.endswith(".log"))
