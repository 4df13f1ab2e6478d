"""A start of Spark that fetches packages and says little of it: what it prints meanwhile is shown when it fails."""

import os
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_KEPT_LINES = 500
_ENDS_S_MAX = 5.0
_FAILURES = ("unresolved dependency: ", "download failed: ")  # no such version; a jar of it did not come


class PackagesMissingError(Exception):
    """What Ivy says of it."""


@contextmanager
def kept_to_itself() -> Iterator[None]:
    """Raises `PackagesMissingError`; another error is raised as it is, behind all that was printed.

    The Java process inherits our standard error for as long as it runs. So it gets a pipe instead, and when it has
    started, whatever comes through that goes to where it should.
    """
    printed: deque[str] = deque(maxlen=_KEPT_LINES)
    has_started = threading.Event()
    before = os.dup(2)
    read, write = os.pipe()

    def pass_on() -> None:
        with os.fdopen(read, errors="replace") as lines, os.fdopen(os.dup(before), "w") as shown:
            for line in lines:
                if has_started.is_set():
                    shown.write(line)
                    shown.flush()
                else:
                    printed.append(line)

    passing = threading.Thread(target=pass_on, name="braid-printed", daemon=True)
    sys.stderr.flush()
    os.dup2(write, 2)
    os.close(write)
    passing.start()
    try:
        yield
        has_started.set()
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)
        if not has_started.is_set():
            passing.join(_ENDS_S_MAX)  # the Java process has ended, so this comes to an end
            _tell(printed)


def _tell(printed: Sequence[str]) -> None:
    for line in printed:
        for failure in _FAILURES:
            _, found, what = line.partition(failure)
            if found:
                raise PackagesMissingError(what.strip().rstrip("]"))
    sys.stderr.writelines(printed)
