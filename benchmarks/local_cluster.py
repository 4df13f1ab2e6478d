"""A cluster of its own for a benchmark: started by the real launcher in a directory of its own, on free ports."""

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

from coordinator.compiling import ANNOUNCEMENT, compiler_arguments

READY_S = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class LocalCluster:
    def __init__(self, directory: Path, process: "subprocess.Popen[bytes]") -> None:
        self.directory = directory
        self.process = process

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
    """`slices` as in `--slices`; `settings` as environment variables."""
    _compile()
    command = [sys.executable, "-m", "coordinator.launcher", "--data", str(directory), "--port", "0", "--quiet"]
    command += ["--slices", slices] if slices else []
    process = subprocess.Popen(command, env={**os.environ, **(settings or {})})
    try:
        deadline = time.monotonic() + READY_S
        while not _is_ready(directory):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the cluster did not come up; its logs are in {directory / 'logs'}")
            time.sleep(0.05)
        yield LocalCluster(directory, process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


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
