"""`braid experiment run` in the midst of a cell: however it ends, nothing that it has started outlives it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cluster.launcher_under_test import is_alive, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PLAN = """
name = "tiny"
configurations = ["1-1-1"]
subscriptions = [100]
rates = [100]
seconds = 600
warm_up_s = 0
"""
GONE_S = 15.0  # a machine that has much to do takes its time to end processes
OWN = 3  # processes that the driver itself starts: the launcher, what receives, and what Python starts to watch that


class Driver:
    """With a process group of its own, as a shell gives it to a command."""

    def __init__(self, directory: Path) -> None:
        self._out, self._errors = directory / "out", directory / "errors.txt"
        (directory / "tiny.toml").write_text(PLAN)
        command = [sys.executable, "-m", "braid.cli", "experiment", "run", str(directory / "tiny.toml")]
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*command, "--out", str(self._out)],
                cwd=Path(__file__).parents[2],
                stdout=subprocess.DEVNULL,
                stderr=errors,
                process_group=0,
            )
        self.started: list[int] = []  # by it and by those that it has started

    def wait_until_measuring(self) -> None:
        until(self._is_measuring, 90.0)
        self.started = [child.pid for child in psutil.Process(self.process.pid).children(recursive=True)]

    def _is_measuring(self) -> bool:
        assert self.process.poll() is None, self.said
        own = psutil.Process(self.process.pid).children()
        return len(own) == OWN and len(list(self._out.glob("tiny/*/*/logs/*.log"))) >= 4

    @property
    def said(self) -> str:
        return self._errors.read_text()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pid in filter(is_alive, self.started):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    driver = Driver(tmp_path)
    yield driver
    driver.close()


def test_nothing_outlives_a_driver_that_is_interrupted(driver: Driver) -> None:
    driver.wait_until_measuring()
    assert len(driver.started) >= OWN + 4  # a slice of each layer
    assert all(map(is_alive, driver.started))
    os.killpg(driver.process.pid, signal.SIGINT)  # as Ctrl-C does
    assert driver.process.wait(60) == 1
    until(lambda: not any(map(is_alive, driver.started)), GONE_S)
    assert "interrupted; finished cells are kept in" in driver.said


def test_nothing_outlives_a_driver_that_is_killed(driver: Driver) -> None:
    driver.wait_until_measuring()
    assert all(map(is_alive, driver.started))
    driver.process.kill()
    driver.process.wait()
    until(lambda: not any(map(is_alive, driver.started)), GONE_S)
