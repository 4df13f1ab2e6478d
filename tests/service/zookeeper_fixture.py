"""A real ZooKeeper for tests: on a free port of loopback, its data in a temporary directory."""

import contextlib
import subprocess
import time
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from braid.coordination import Coordination
from coordinator import zookeeper as embedded

READY_S = 30.0
STOP_S = 10.0


class ZooKeeperServer:
    """Stopped and started again it keeps its port, its data and its sessions."""

    def __init__(self, server: embedded.EmbeddedZooKeeper) -> None:
        self._server = server
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def hosts(self) -> str:
        return self._server.hosts

    @property
    def pid(self) -> int:
        assert self._process is not None, "stopped"
        return self._process.pid

    def start(self) -> None:
        """Does nothing when it runs."""
        if self._process is not None:
            return
        with (self._server.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._server.argv, cwd=self._server.directory, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        deadline = time.monotonic() + READY_S
        while not embedded.is_serving(self._server.port):
            assert self._process.poll() is None, (self._server.directory / "log").read_text()
            assert time.monotonic() < deadline, "ZooKeeper is not ready"
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()


def expire_session(coordination: Coordination) -> None:
    """Ends the session under the feet of its owner: a second client takes it over and closes it.

    The owner connects again at once and may win the session back before it is closed, or take it from the second
    client while that one connects; then it is tried again.
    """
    victim = coordination._session._kazoo
    identity = victim.client_id
    assert identity is not None, "not connected"
    for _ in range(20):
        thief = KazooClient(hosts=coordination.hosts, client_id=identity)
        with contextlib.suppress(KazooTimeoutError):
            thief.start(timeout=3)
        thief.stop()
        thief.close()
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            if victim._session_id != identity[0]:
                return
            time.sleep(0.01)
    raise AssertionError("the session could not be ended")


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    server = ZooKeeperServer(embedded.prepare(tmp_path_factory.mktemp("zookeeper")))
    server.start()
    yield server
    server.stop()
