"""Who had the processors, and who waited for one: what a gap between deliveries is made of.

The kernel counts for each thread how long it ran and how long it was ready without a processor. A process of its own
notes both for all processes of the run, again and again.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil

from benchmarks.scaling.processes import Worker

_NOTES_S = 0.02
_LOOKS_S = 0.5  # for processes and threads that have come or gone


class Thread(NamedTuple):
    process: str
    is_main: bool  # of a slice: its event loop


class Note(NamedTuple):
    at_s: float  # since 1970
    ran_ns: int  # so far
    waited_ns: int


Ran = Sequence[tuple[Thread, list[Note]]]


class Share(msgspec.Struct, frozen=True):
    """Of one process in one gap. What is missing to the length of the gap, it slept."""

    process: str
    loop_ran_ms: float  # of its first thread
    loop_waited_ms: float  # for a processor
    others_ran_ms: float
    others_waited_ms: float


class Watcher(Worker):
    def __init__(self, described: Path, own: dict[int, str]) -> None:
        """`described` is where the cluster says which slice has which process id; `own` names other processes."""
        super().__init__(_watch, os.getpid(), described, own)

    def notes(self) -> Ran:
        """Everything, of each thread; it ends with this."""
        self.order("stop")
        found: Ran = self.receive()
        return found


def shares(notes: Ran, begin_s: float, end_s: float) -> list[Share]:
    """Of all processes that ran or waited between these times, those that ran longest first."""
    spent: dict[str, list[float]] = {}
    for thread, own in notes:
        ran_ms, waited_ms = _between(own, begin_s, end_s)
        found = spent.setdefault(thread.process, [0.0] * 4)
        place = 0 if thread.is_main else 2
        found[place] += ran_ms
        found[place + 1] += waited_ms
    told = [Share(process, *(round(each, 1) for each in found)) for process, found in spent.items() if any(found)]
    return sorted(told, key=lambda share: -(share.loop_ran_ms + share.others_ran_ms))


def _between(notes: list[Note], begin_s: float, end_s: float) -> tuple[float, float]:
    """Milliseconds that it ran and waited. A note at the border counts with the part that is within."""
    ran = waited = 0.0
    for earlier, later in pairwise(notes):
        within = min(end_s, later.at_s) - max(begin_s, earlier.at_s)
        if within > 0 and later.at_s > earlier.at_s:
            part = within / (later.at_s - earlier.at_s)
            ran += part * (later.ran_ns - earlier.ran_ns)
            waited += part * (later.waited_ns - earlier.waited_ns)
    return ran / 1e6, waited / 1e6


def _watch(root: int, described: Path, own: dict[int, str], orders: Connection, _count: Any) -> None:
    notes: dict[tuple[int, int], list[Note]] = {}
    threads: dict[tuple[int, int], Thread] = {}
    open_files: dict[tuple[int, int], int] = {}
    look_at = 0.0
    while not orders.poll(_NOTES_S):
        if time.monotonic() >= look_at:
            look_at = time.monotonic() + _LOOKS_S
            for id, thread in _threads_below(root, described, own):
                threads[id] = thread  # one that was started with another name has its own now
                if id not in open_files:
                    with contextlib.suppress(OSError):
                        open_files[id] = os.open(f"/proc/{id[0]}/task/{id[1]}/schedstat", os.O_RDONLY)
        for id, file in list(open_files.items()):
            try:
                ran, waited, _ = os.pread(file, 100, 0).split()
            except OSError:
                os.close(open_files.pop(id))
                continue
            notes.setdefault(id, []).append(Note(time.time(), int(ran), int(waited)))
    orders.recv()
    orders.send([(threads[id], own_notes) for id, own_notes in notes.items()])


def _threads_below(root: int, described: Path, own: dict[int, str]) -> Iterator[tuple[tuple[int, int], Thread]]:
    names = own | {root: "publishers", os.getpid(): "watcher"}
    with contextlib.suppress(OSError, msgspec.DecodeError):
        names |= {pid: name for name, pid in msgspec.json.decode(described.read_bytes())["slices"].items()}
    with contextlib.suppress(psutil.Error):
        parent = psutil.Process(root)
        for process in (parent, *parent.children(recursive=True)):
            with contextlib.suppress(psutil.Error, OSError):
                name = names.get(process.pid) or _named(process)
                for thread in map(int, os.listdir(f"/proc/{process.pid}/task")):
                    yield (process.pid, thread), Thread(name, thread == process.pid)


def _named(process: psutil.Process) -> str:
    """By its module, where Python runs one."""
    arguments = process.cmdline()
    return arguments[arguments.index("-m") + 1] if "-m" in arguments[:-1] else process.name()
