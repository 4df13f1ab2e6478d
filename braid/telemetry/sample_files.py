"""The files of one slice: written whole, removed when they are too old or too many. Everything here blocks.

    <cluster.data>/telemetry/<slice>/<incarnation>-<number of the first sample>-<samples>.ndjson

A file is written under a name that begins with a dot and renamed when it is complete, so whoever looks into the
directory finds only whole files; Spark does not look at names that begin so. Nothing is forced to the disk: telemetry
is no state.
"""

import os
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from braid import metrics
from braid.telemetry.backlog import Line

ENDING = ".ndjson"


class _File(NamedTuple):
    written_s: float
    path: Path
    size: int


class SampleFiles:
    def __init__(self, root: Path, slice: str, incarnation: int, *, bytes_max: int, s_max: float) -> None:
        self._root = root
        self._directory = root / slice
        self._incarnation = incarnation
        self._bytes_max = bytes_max
        self._s_max = s_max
        self._files: deque[_File] = deque()  # of this slice, the oldest first
        self._bytes = 0

    def open(self) -> None:
        """Finds what processes of the same name have left. Too old files are removed of all slices of this machine: one
        that has left the cluster removes nothing itself.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        for unfinished in self._directory.glob(f".*{ENDING}"):
            unfinished.unlink(missing_ok=True)
        too_old_s = time.time() - self._s_max
        for found in sorted(_found(self._root)):
            if found.written_s < too_old_s:
                _remove(found, "old")
            elif found.path.parent == self._directory:
                self._add(found)

    def write(self, lines: Sequence[Line]) -> None:
        """One file of them, then whatever is too much is removed."""
        name = f"{self._incarnation}-{lines[0].number:010}-{len(lines)}{ENDING}"
        aside, path = self._directory / f".{name}", self._directory / name
        content = b"".join([line.text + b"\n" for line in lines])
        self._directory.mkdir(parents=True, exist_ok=True)  # somebody may have removed it
        aside.write_bytes(content)
        os.replace(aside, path)
        self._add(_File(time.time(), path, len(content)))
        self._bound()

    def _add(self, file: _File) -> None:
        self._files.append(file)
        self._bytes += file.size

    def _bound(self) -> None:
        too_old_s = time.time() - self._s_max
        while self._files and (self._bytes > self._bytes_max or self._files[0].written_s < too_old_s):
            oldest = self._files.popleft()
            self._bytes -= oldest.size
            _remove(oldest, "old" if oldest.written_s < too_old_s else "no room")
        metrics.TELEMETRY_FILE_BYTES.set(self._bytes)


def _found(root: Path) -> list[_File]:
    found = []
    for path in root.glob(f"*/[!.]*{ENDING}"):
        try:
            about = path.stat()
        except FileNotFoundError:  # another slice was quicker to remove it
            continue
        found.append(_File(about.st_mtime, path, about.st_size))
    return found


def _remove(file: _File, reason: str) -> None:
    try:
        file.path.unlink()
    except FileNotFoundError:
        return
    samples = file.path.stem.rpartition("-")[2]
    metrics.TELEMETRY_DROPPED.labels(reason).inc(int(samples) if samples.isdecimal() else 1)
