"""`python -m coordinator` against a real ZooKeeper."""

import asyncio
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from braid.coordination import ConfigurationChanged, Coordination, Event
from braid.topology import Configuration, Layer, Registration
from tests.service.waiting import TIMEOUT_S, until
from tests.service.zookeeper_fixture import ZooKeeperServer

FIRST = Configuration(1, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",))
LAYERS: tuple[Layer, ...] = ("accesspoint", "matcher", "exitpoint")


class Stage:
    def __init__(self, hosts: str, directory: Path) -> None:
        self.hosts = hosts
        self.cluster = f"test-{uuid.uuid4().hex[:12]}"
        self.events: list[Event] = []
        self._directory = directory
        self._slices: list[Coordination] = []
        self._processes: list[asyncio.subprocess.Process] = []

    async def start_slice(self, layer: Layer) -> None:
        on_event = self.events.append if not self._slices else lambda _event: None
        coordination = Coordination(self.hosts, self.cluster, 10.0, on_event)
        self._slices.append(coordination)
        await coordination.start()
        await coordination.register(Registration(f"{layer}-1", layer, "h:1", "h:2", os.getpid(), 1, "0"))

    async def start_coordinator(self, name: str, **environment: str) -> asyncio.subprocess.Process:
        with self.log(name).open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "coordinator", "--zookeeper", self.hosts),
                env={**os.environ, "BRAID_CLUSTER__NAME": self.cluster, **environment},
                stderr=log,
            )
        self._processes.append(process)
        return process

    def log(self, name: str) -> Path:
        return self._directory / name

    def configurations(self) -> list[Configuration]:
        changes = [event for event in self.events if isinstance(event, ConfigurationChanged)]
        return [change.configuration for change in changes if change.configuration is not None]

    async def close(self) -> None:
        for process in self._processes:
            if process.returncode is None:
                process.kill()
            await process.wait()
        for coordination in self._slices:
            await coordination.stop()


@pytest.fixture
async def stage(zookeeper: ZooKeeperServer, tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(zookeeper.hosts, tmp_path)
    yield stage
    await stage.close()


async def test_the_first_configuration_waits_for_all_slices_and_the_next_leader_keeps_it(stage: Stage) -> None:
    first = await stage.start_coordinator("first")
    await stage.start_slice("accesspoint")
    await stage.start_slice("matcher")
    await until(lambda: "waiting for slices" in stage.log("first").read_text())
    assert stage.configurations() == []
    await stage.start_slice("exitpoint")
    await until(lambda: stage.configurations() == [FIRST])

    # The second one was told to want more; it keeps what is in force and says so.
    await stage.start_coordinator("second", BRAID_SLICES__MATCHER="3")
    first.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(first.wait(), TIMEOUT_S) == 0
    await until(lambda: "configuration in force" in stage.log("second").read_text())
    await until(lambda: "the stored configuration stays in force" in stage.log("second").read_text())
    assert stage.configurations() == [FIRST]


async def test_without_an_address_it_says_what_to_give() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "coordinator", stderr=asyncio.subprocess.PIPE)
    _, error = await process.communicate()
    assert process.returncode == 1
    assert b"--zookeeper host:port" in error
