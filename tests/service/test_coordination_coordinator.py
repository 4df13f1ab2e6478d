"""`python -m coordinator` against a real ZooKeeper."""

import asyncio
import os
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from braid.anchor_map import AnchorMap
from braid.coordination import ConfigurationChanged, Coordination, Event
from braid.scaling import Ask, Report, ScalingRecord, Step
from braid.topology import Configuration, Layer, Phase, Registration
from tests.service.waiting import TIMEOUT_S, until
from tests.service.zookeeper_fixture import ZooKeeperServer

pytestmark = pytest.mark.slow  # real coordinators, of which one is killed

FIRST = Configuration(1, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",))
LEARNED = AnchorMap(2, {7: 1})
LAYERS: tuple[Layer, ...] = ("accesspoint", "matcher", "exitpoint")


class Stage:
    def __init__(self, hosts: str, directory: Path) -> None:
        self.hosts = hosts
        self.cluster = f"test-{uuid.uuid4().hex[:12]}"
        self.events: list[Event] = []
        self._directory = directory
        self._slices: list[Coordination] = []
        self._processes: list[asyncio.subprocess.Process] = []

    async def start_slice(self, layer: Layer, number: int = 1) -> Coordination:
        on_event = self.events.append if not self._slices else lambda _event: None
        coordination = Coordination(self.hosts, self.cluster, 10.0, on_event)
        self._slices.append(coordination)
        await coordination.start()
        await coordination.register(Registration(f"{layer}-{number}", layer, "h:1", "h:2", os.getpid(), 1, "0"))
        return coordination

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

    def phases(self) -> list[str]:
        """Each once, in order, as the slices are told."""
        phases = [each.change.phase if each.change is not None else "none" for each in self.configurations()]
        return list(dict.fromkeys(phases))

    async def report(self, step: Step, *slices: str, **details: float) -> None:
        for slice in slices:
            await self._slices[0].report(Report("scaling-1", step, slice, 1, details))

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


async def start_cluster(stage: Stage) -> tuple[Coordination, asyncio.subprocess.Process]:
    """One slice of each layer, and a coordinator that leads. The slices live in this process."""
    slice = await stage.start_slice("accesspoint")
    await stage.start_slice("matcher")
    await stage.start_slice("exitpoint")
    coordinator = await stage.start_coordinator("first", BRAID_CLUSTER__SESSION_TIMEOUT_S="2")
    await until(lambda: stage.configurations() == [FIRST])
    return slice, coordinator


async def maps_there(slice: Coordination) -> list[str]:
    return await slice._session.children(slice._paths.maps)


async def running(slice: Coordination) -> ScalingRecord:
    record = await slice.read_scaling("scaling-1")
    assert record is not None
    return record


async def test_a_scaling_is_led_to_its_end_also_by_a_leader_that_comes_in_the_middle(stage: Stage) -> None:
    """To more matchers, another routing and a map, which each leader reads with the configuration."""
    slice, first = await start_cluster(stage)
    asked = Ask({"matcher": 2}, routing="anchored", map=LEARNED.version)
    await slice.ask_scaling(ScalingRecord("scaling-1", asked, 1.0), LEARNED)
    deadline = time.monotonic() + 20
    while (await running(slice)).wants != ("matcher-2",):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    await stage.start_slice("matcher", 2)
    await until(lambda: stage.phases() == ["none", "copying"])
    await stage.report("copied", "matcher-1", "matcher-2")
    await until(lambda: stage.phases()[-1] == "moving")
    await stage.report("change-ready", "matcher-1", "matcher-2", moved=3.0)
    await until(lambda: stage.phases()[-1] == "changing")

    first.kill()
    await first.wait()
    await stage.start_coordinator("second")
    await stage.report("done", "matcher-1", "matcher-2")
    await stage.report("exit-point-matcher-updated", "exitpoint-1")
    await until(lambda: stage.phases()[-1] == "flushing")
    await stage.report("scale-end", "accesspoint-1", held_s=0.5)
    await until(lambda: stage.phases()[-1] == "ending")
    await stage.report("drained", "matcher-1", "matcher-2")
    matchers = ("matcher-1", "matcher-2")
    target = Configuration(2, ("accesspoint-1",), matchers, ("exitpoint-1",), "anchored", LEARNED, epochs=2)
    await until(lambda: stage.configurations()[-1] == target)
    record = await running(slice)
    assert (record.state, record.epoch, record.moved, record.longest_pause_s) == ("done", 2, 6, 0.5)
    assert list(record.began_s) == ["gathering", "copying", "moving", "changing", "flushing", "ending", "done"]
    await until(lambda: "scaling done" in stage.log("second").read_text())
    assert await maps_there(slice) == [LEARNED.version]
    await slice.ask_scaling(ScalingRecord("scaling-2", Ask({"matcher": 2}), 2.0))  # the next one may come


@pytest.mark.parametrize("phase", ["copying", "moving"])
async def test_a_slice_that_dies_before_the_cut_ends_the_scaling(stage: Stage, phase: Phase) -> None:
    """And with it goes the map that it was to lead to."""
    slice, _ = await start_cluster(stage)
    spare = await stage.start_slice("matcher", 2)
    asked = Ask(replace=("matcher-1",), routing="anchored", map=LEARNED.version)
    await slice.ask_scaling(ScalingRecord("scaling-1", asked, 1.0), LEARNED)
    await until(lambda: stage.phases() == ["none", "copying"])
    if phase == "moving":
        await stage.report("copied", "matcher-1", "matcher-2")
        await until(lambda: stage.phases()[-1] == "moving")
    await spare.stop()
    await until(lambda: stage.configurations()[-1].epochs == 2)
    assert stage.configurations()[-1] == Configuration(
        1, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",), epochs=2
    )
    record = await running(slice)
    assert (record.state, record.reason) == ("aborted", "matcher-2 is gone")
    async with asyncio.timeout(TIMEOUT_S):
        while await maps_there(slice):
            await asyncio.sleep(0.02)


async def test_without_an_address_it_says_what_to_give() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "coordinator", stderr=asyncio.subprocess.PIPE)
    _, error = await process.communicate()
    assert process.returncode == 1
    assert b"--zookeeper host:port" in error
