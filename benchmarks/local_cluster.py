"""A cluster of its own for a benchmark: started by the real launcher in a directory of its own, on free ports."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coordinator import tether
from coordinator.compiling import ANNOUNCEMENT, compiler_arguments
from coordinator.processes import tail

READY_S = 60.0
STOP_S = 30.0
_LOOKS_S = 0.05


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class LocalCluster:
    def __init__(self, directory: Path, process: "subprocess.Popen[bytes]", says: Path | None = None) -> None:
        self.directory = directory
        self.process = process
        self._says = says

    async def until_ready(self) -> None:
        """Raises `RuntimeError` when it does not come up."""
        deadline = time.monotonic() + READY_S
        while not await asyncio.to_thread(self.is_ready, deadline):
            await asyncio.sleep(_LOOKS_S)

    def is_ready(self, deadline: float) -> bool:
        """Raises `RuntimeError` when it has ended, or the deadline has passed."""
        if _is_ready(self.directory):
            return True
        code = self.process.poll()
        if code is None and time.monotonic() < deadline:
            return False
        how = f"was not ready within {READY_S:g} s" if code is None else "did not come up"
        why = "" if self._says is None else f":\n{tail(self._says)}"
        raise RuntimeError(f"the cluster {how}; its logs are in {self.directory / 'logs'}{why}")

    @property
    def api(self) -> list[str]:
        """Where the connection points are now; one that was started again has another port."""
        addresses: list[str] = self._described()["api"]
        return addresses

    @property
    def zookeeper(self) -> str:
        hosts: str = self._described()["zookeeper"]
        return hosts

    def _described(self) -> dict[str, Any]:
        described: dict[str, Any] = json.loads((self.directory / "cluster.json").read_text())
        return described

    def slice_pids(self) -> dict[str, int]:
        """Process ids by name; a slice that was started again has another one."""
        pids: dict[str, int] = self._described()["slices"]
        return pids

    def cpu_seconds(self) -> dict[str, float]:
        """Processor time that each process has used so far."""
        tick = os.sysconf("SC_CLK_TCK")
        used = {}
        for name, pid in self.slice_pids().items():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            used[name] = (int(fields[11]) + int(fields[12])) / tick
        return used


@contextlib.contextmanager
def local_cluster(directory: Path, slices: str = "", settings: dict[str, str] | None = None) -> Iterator[LocalCluster]:
    """One that is ready. `slices` as in `--slices`; `settings` as environment variables."""
    with launched_cluster(directory, slices, settings) as cluster:
        deadline = time.monotonic() + READY_S
        while not cluster.is_ready(deadline):
            time.sleep(_LOOKS_S)
        yield cluster


@contextlib.contextmanager
def launched_cluster(
    directory: Path, slices: str = "", settings: dict[str, str] | None = None, says: Path | None = None
) -> Iterator[LocalCluster]:
    """One that begins to start. What goes wrong it writes to our standard error, or to the file `says`.

    It does not outlive the thread that started it, however that ends.
    """
    _compile()
    command = [sys.executable, "-m", "coordinator.launcher", "--data", str(directory), "--port", "0", "--quiet"]
    command += ["--slices", slices] if slices else []
    tethered = [sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), *command]
    with contextlib.ExitStack() as stack:
        errors = None
        if says is not None:
            says.parent.mkdir(parents=True, exist_ok=True)
            errors = stack.enter_context(says.open("ab"))
        process = subprocess.Popen(tethered, env={**os.environ, **(settings or {})}, stderr=errors)
        try:
            yield LocalCluster(directory, process, says)
        finally:
            _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()  # its slices end with it
            process.wait()


def _compile() -> None:
    """The launcher would do it, too, but it may take longer than a cluster is waited for."""
    arguments = compiler_arguments()
    if arguments is not None:
        print(ANNOUNCEMENT, file=sys.stderr)
        subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)


def _is_ready(directory: Path) -> bool:
    try:
        described = json.loads((directory / "cluster.json").read_text())
        connpoints = [name for name in described["slices"] if name.startswith("connpoint-")]
        # Before the slices start there are none, and addresses become known one by one, as connection points register.
        return 0 < len(connpoints) == len(described["api"]) and all(
            urllib.request.urlopen(f"{url}/readyz", timeout=2).status == 200 for url in described["api"]
        )
    except (OSError, ValueError):
        return False
