"""A launcher under test: the real one, with stand-ins for slices that answer /readyz, and for the compiler."""

import json
import os
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from coordinator.zookeeper import free_port

T = TypeVar("T")

STUB = """
import os, signal, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

layer, name, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
mode = os.environ.get("STUB_MODE", "")
if mode == "stubborn" or name == os.environ.get("STUB_STUBBORN"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(f"{name} runs as {mode or 'usual'}", flush=True)
if mode == "dies" and layer == "matcher" or name == os.environ.get("STUB_DIES"):
    sys.exit("something is wrong with this matcher")
if mode == "refuses" and layer == "matcher":
    print("the configuration in ZooKeeper is refused", flush=True)
    sys.exit(os.EX_CONFIG)
if layer != "connpoint":
    signal.pause()


class Door(BaseHTTPRequestHandler):
    def do_GET(self):
        ready = self.path == "/readyz" and mode != "unready"
        self.send_response(200 if ready else 503)
        self.end_headers()
        self.wfile.write(b"" if ready else b"no link to accesspoint-1")

    def log_message(self, *arguments):
        pass


door = HTTPServer(("127.0.0.1", port), Door)
if port == 0:
    import asyncio, threading
    from braid.coordination import Coordination
    from braid.topology import Registration

    async def register():
        address = f"127.0.0.1:{door.server_port}"
        hosts, cluster = os.environ["BRAID_CLUSTER__ZOOKEEPER"], os.environ["BRAID_CLUSTER__NAME"]
        coordination = Coordination(hosts, cluster, 10.0, print)
        await coordination.start()
        await coordination.register(Registration(name, layer, address, address, os.getpid(), 1, "0"))
        await asyncio.Event().wait()

    threading.Thread(target=asyncio.run, args=(register(),), daemon=True).start()
door.serve_forever()
"""

ENTRY = """
import os, sys
from coordinator import growing, launcher, plan

launcher.READY_S = float(os.environ.get("STUB_READY_S", launcher.READY_S))
growing.LEAVE_PATIENCE_S = float(os.environ.get("STUB_LEAVE_PATIENCE_S", growing.LEAVE_PATIENCE_S))


def stub(layer, name, port):
    return [sys.executable, os.environ["STUB"], layer, name, str(port)]


def compiler():
    program = os.environ.get("STUB_COMPILER")
    return program and [sys.executable, "-c", program]


if os.environ.get("STUB_COORDINATOR"):
    plan.coordinator_arguments = lambda: [sys.executable, "-c", "import signal; signal.pause()"]

sys.exit(launcher.main(sys.argv[1:], stub, compiler))
"""


def until(condition: Callable[[], T], timeout_s: float = 30.0) -> T:
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        assert time.monotonic() < deadline, "this did not become true in time"
        time.sleep(0.02)
    return result


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Up:
    """One launcher under test."""

    def __init__(self, directory: Path, hosts: str | None) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.port = free_port()
        self._hosts = hosts
        self.cluster_name = f"test-{uuid.uuid4().hex[:12]}"
        self._started: list[subprocess.Popen[str]] = []
        (directory / "stub.py").write_text(textwrap.dedent(STUB))
        (directory / "entry.py").write_text(textwrap.dedent(ENTRY))

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        external = ["--zookeeper", self._hosts] if self._hosts else []
        given = ["--data", str(self.data), "--port", str(self.port), *external, *arguments]
        process = subprocess.Popen(
            [sys.executable, str(self.directory / "entry.py"), *given],
            cwd=Path(__file__).parents[2],
            env={
                **os.environ,
                "PYTHONPATH": str(Path(__file__).parents[2]),
                "STUB": str(self.directory / "stub.py"),
                "BRAID_CLUSTER__NAME": self.cluster_name,
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def cluster(self) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads((self.data / "cluster.json").read_text())
        except FileNotFoundError:
            return {}
        return content

    def wait_ready(self, process: subprocess.Popen[str]) -> list[int]:
        """Returns the ids of all processes of the cluster."""
        self.wait_said(process)
        return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]

    def wait_said(self, process: subprocess.Popen[str]) -> str:
        """Returns what it said until it was ready."""
        assert process.stdout is not None
        seen = ""
        while "braid down" not in seen:
            line = process.stdout.readline()
            if not line:
                pytest.fail(f"{seen}\n{process.communicate()[1]}")
            seen += line
        assert f"{self.cluster()['api'][0]}/docs" in seen
        return seen

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()
