"""Goes through the workloads and sizes: each cell in a fresh process, then the other matchers on the same input."""

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from benchmarks.match.cell import Measured, Order
from benchmarks.match.peers import building, running
from benchmarks.match.peers.building import PEERS, MissingError, Peer
from benchmarks.match.peers.running import PeerResult, Task
from benchmarks.match.workloads import WORKLOADS, missing_data

Tell = Callable[[str], None]

_ROOT = Path(__file__).parents[2]
_ONE_THREAD = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_REASON_LINES = 3


class Options(msgspec.Struct, kw_only=True):
    workloads: list[str]
    sizes: list[int] = []  # empty: those of the workload
    seconds: float = 5
    batch: int = 256
    events: int = 20_000
    singles: int = 20_000
    peers: bool = True
    peer_build_seconds: float = 120
    index: str = Order("", 0).index
    data: Path | None = None
    profile: bool = False


class Report(msgspec.Struct):
    machine: str
    cells: list[Measured] = []
    peers: list[PeerResult] = []
    missing: dict[str, str] = {}  # a workload, size or matcher that could not be measured, and why
    failed: bool = False  # something broke, or the index and the meaning differ


def run(options: Options, tell: Tell) -> Report:
    return _Run(options, tell).run()


class _Run:
    def __init__(self, options: Options, tell: Tell) -> None:
        self._options = options
        self._tell = tell
        cores = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
        self._report = Report(machine=cores, cells=[], peers=[], missing={})
        self._commands: dict[Peer, list[str]] = {}

    def run(self) -> Report:
        if self._options.peers:
            self._build_peers()
        for name in self._options.workloads:
            if reason := missing_data(name, self._options.data):
                self._report.missing[f"workload {name}"] = reason
                continue
            for size in self._options.sizes or WORKLOADS[name].sizes:
                self._run_cell(name, size)
                if self._commands and WORKLOADS[name].with_peers:
                    self._run_peers(name, size)
        return self._report

    def _build_peers(self) -> None:
        for peer in PEERS:
            self._tell(f"building {peer.name}")
            try:
                self._commands[peer] = building.build(peer)
            except MissingError as error:
                self._report.missing[peer.name] = str(error)

    def _run_cell(self, name: str, size: int) -> None:
        options = self._options
        order = Order(
            name,
            size,
            seconds=options.seconds,
            batch=options.batch,
            events=options.events,
            singles=options.singles,
            index=options.index,
            data=str(options.data.resolve()) if options.data else "",
            profile=options.profile,
        )
        command = [sys.executable, "-m", "benchmarks.match.cell", msgspec.json.encode(order).decode()]
        last = b""
        with tempfile.TemporaryFile() as errors:
            with subprocess.Popen(
                command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=errors, env={**os.environ, **_ONE_THREAD}
            ) as child:
                assert child.stdout is not None
                for last in child.stdout:
                    if last.startswith(b'{"step"'):
                        self._tell(f"{name} {size:,}: {msgspec.json.decode(last)['step']}")
            errors.seek(0)
            printed = errors.read().decode(errors="replace").strip().splitlines()
        if child.returncode:
            reason = " / ".join(printed[-_REASON_LINES:]) or f"the process ended with {child.returncode}"
            self._report.missing[f"workload {name} of {size:,}"] = reason
            self._report.failed = True
            return
        measured = msgspec.json.decode(last, type=Measured)
        self._report.cells.append(measured)
        self._report.failed |= bool(measured.differences)

    def _run_peers(self, name: str, size: int) -> None:
        options = self._options
        source = WORKLOADS[name].open(size, options.data or Path())
        task = Task(name, size, options.events, options.seconds, options.peer_build_seconds)
        for peer, command in self._commands.items():
            self._tell(f"{name} {size:,}: {peer.name}")
            self._report.peers.append(running.run(peer, command, source, task))
