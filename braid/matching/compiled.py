"""Where the compiled engine is kept, and whether all of it is there.

This asks without numba, so that whoever only wants to know does not wait for it to be imported.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

VERSIONS_KEPT = 3  # directories of compiled code, one for each state of the sources

_SOURCES = Path(__file__).parent / "engine"
_DIRECTORY = re.compile(r"[0-9a-f]{16}")


def cache_directory() -> Path:
    """Where the compiled code of just these sources, this numba and this kind of processor is kept."""
    digest = hashlib.sha256(f"{version('numba')} {platform.machine()}".encode())
    for source in sorted(_SOURCES.glob("*.py")):
        digest.update(source.read_bytes())
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "braid" / "kernels" / digest.hexdigest()[:16]


def is_complete() -> bool:
    """Whether everything was compiled for this Python and this processor."""
    return (cache_directory() / _marker()).exists()


@contextmanager
def completing() -> Iterator[None]:
    """Whoever ends this without an error has compiled everything.

    While one process does, the others wait, and then find everything there.
    """
    directory = cache_directory()
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    (directory / _marker()).touch()
    _forget_others(directory)


def _forget_others(current: Path) -> None:
    """Deletes what was compiled from older sources."""
    others = [
        path for path in current.parent.iterdir() if _DIRECTORY.fullmatch(path.name) and path.name != current.name
    ]
    others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in others[VERSIONS_KEPT - 1 :]:
        shutil.rmtree(path, ignore_errors=True)


def _marker() -> str:
    """numba compiles for the version of Python and for what this very processor can do.

    It looks for what it compiled by the path of the source and the time of its last change: what was compiled for a
    copy of the same sources elsewhere is not found.
    """
    processor = hashlib.sha256(_processor().encode()).hexdigest()[:16]
    files = [f"{source} {source.stat().st_mtime}" for source in sorted(_SOURCES.glob("*.py"))]
    sources = hashlib.sha256("\n".join(files).encode()).hexdigest()[:16]
    return f"complete-{sys.implementation.cache_tag}-{processor}-{sources}"


def _processor() -> str:
    try:
        described = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    return "\n".join(dict.fromkeys(re.findall(r"^(?:model name|flags|Features)\s*:.*", described, re.MULTILINE)))
