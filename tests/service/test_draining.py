"""Slices that are told to stop: others take over first, while there is time."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from braid.coordination_events import CoordinationUnavailable, ScalingUnderWay
from braid.draining import ASKS_MAX, Draining
from braid.leaving import Known
from braid.scaling import Ask, ScalingRecord
from braid.topology import Configuration
from coordinator.__main__ import Shell
from tests.cluster.clients import socket
from tests.core.test_leaving import KNOWN
from tests.service.in_process import InProcessCluster, client_of, in_process_cluster
from tests.service.waiting import until
from tests.service.zookeeper_fixture import ZooKeeperServer


class FakeAsking:
    """One scaling at a time, which lasts until a test ends it."""

    def __init__(self, running: str = "", *, aborts: bool = False) -> None:
        self.running = running
        self.asked: list[Ask] = []
        self._aborts = aborts

    async def ask_scaling(self, record: ScalingRecord) -> None:
        if self.running:
            raise ScalingUnderWay(self.running)
        self.asked.append(record.asked)
        self.running = "" if self._aborts else record.id


class NoAnswer:
    async def ask_scaling(self, record: ScalingRecord) -> None:
        raise CoordinationUnavailable("no answer")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braid.draining.LOOK_EVERY_S", 0.0)


@pytest.mark.usefixtures("at_once")
async def test_it_waits_for_the_scaling_of_another_and_until_it_is_out() -> None:
    asking, known = FakeAsking("scaling-1"), [KNOWN]
    draining = asyncio.create_task(Draining("matcher-2", "matcher", asking, lambda: known[0]).run())
    await asyncio.sleep(0.01)
    assert asking.asked == []
    asking.running = ""
    await until(lambda: asking.asked)
    await asyncio.sleep(0.01)
    assert asking.asked == [Ask({"matcher": 1}, replace=("matcher-2",))]
    assert not draining.done()
    known[0] = Known(Configuration(5, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",)), KNOWN.slices)
    assert await draining == "it takes no part"


@pytest.mark.usefixtures("at_once")
async def test_scalings_that_are_aborted_again_and_again_are_given_up() -> None:
    asking = FakeAsking(aborts=True)
    why = await Draining("matcher-2", "matcher", asking, lambda: KNOWN).run()
    assert "3 scalings" in why
    assert len(asking.asked) == ASKS_MAX


async def test_without_an_answer_of_zookeeper_it_stops() -> None:
    assert await Draining("matcher-2", "matcher", NoAnswer(), lambda: KNOWN).run() == "ZooKeeper cannot be reached"


async def test_the_only_one_of_its_layer_asks_for_nothing() -> None:
    asking = FakeAsking()
    slices = {name: each for name, each in KNOWN.slices.items() if name != "matcher-1"}
    known = Known(Configuration(5, ("accesspoint-1",), ("matcher-2",), ("exitpoint-1",)), slices)
    assert "only one" in await Draining("matcher-2", "matcher", asking, lambda: known).run()
    assert asking.asked == []


@contextlib.asynccontextmanager
async def coordinated(cluster: InProcessCluster) -> AsyncIterator[None]:
    stop = asyncio.Event()
    running = asyncio.create_task(Shell(cluster.settings).run(stop))
    try:
        yield
    finally:
        stop.set()
        await running


def of(cluster: InProcessCluster) -> Configuration:
    configuration = cluster.connpoint.configuration()
    assert configuration is not None
    return configuration


async def told_to_stop(cluster: InProcessCluster, name: str) -> int:
    cluster.slices[name].on_signal()
    return await cluster._running.pop(name)


async def test_a_matcher_that_is_told_to_stop_gives_its_share_away_first(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    async with (
        in_process_cluster(zookeeper.hosts, tmp_path, cluster={"drain_s": 20.0}) as cluster,
        client_of(cluster) as http,
        coordinated(cluster),
    ):
        await http.post("/v1/cluster/scale", json={"layer": "matcher", "to": 2})
        cluster.start("matcher-2")
        await until(lambda: of(cluster).epoch == 2 and of(cluster).change is None)
        wanted = {f"value = {number}" for number in range(20)}
        for filter in sorted(wanted):
            await http.post("/v1/subscriptions", json={"filter": filter, "subscriber": "dashboard"})
        assert await told_to_stop(cluster, "matcher-1") == 0
        assert (of(cluster).matchers, of(cluster).change) == (("matcher-2",), None)
        found = (await http.get("/v1/subscriptions?subscriber=dashboard")).json()["subscriptions"]
        assert {each["filter"] for each in found} == wanted
        # Now there is an idle one, so that the last one of its layer is replaced by it.
        cluster.start("matcher-1")
        await until(lambda: "matcher-1" in {each.name for each in cluster.slices["matcher-2"].slices()})
        assert await told_to_stop(cluster, "matcher-2") == 0
        assert of(cluster).matchers == ("matcher-1",)
        found = (await http.get("/v1/subscriptions?subscriber=dashboard")).json()["subscriptions"]
        assert {each["filter"] for each in found} == wanted


async def test_what_nobody_can_take_over_is_not_waited_for_and_a_second_signal_ends_the_waiting(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    async with in_process_cluster(zookeeper.hosts, tmp_path, cluster={"drain_s": 60.0}) as cluster:
        async with asyncio.timeout(15):
            assert await told_to_stop(cluster, "exitpoint-1") == 0
            accesspoint = cluster.slices["accesspoint-1"]
            cluster.start("accesspoint-2")  # it could take over, but nobody leads the way there
            await until(lambda: any(each.name == "accesspoint-2" for each in accesspoint.slices()))
            accesspoint.on_signal()
            await asyncio.sleep(0.3)
            assert accesspoint.is_draining
            assert await told_to_stop(cluster, "accesspoint-1") == 0


async def test_it_stops_when_the_time_is_over(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    async with in_process_cluster(zookeeper.hosts, tmp_path, cluster={"drain_s": 0.3}) as cluster:
        cluster.start("matcher-2")
        await until(lambda: any(each.name == "matcher-2" for each in cluster.slices["matcher-1"].slices()))
        with capture_logs() as logs:
            assert await told_to_stop(cluster, "matcher-1") == 0
        assert [entry["log_level"] for entry in logs if "cluster.drain_s is over" in entry["event"]] == ["warning"]


async def test_a_connection_point_finishes_what_it_has_accepted(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    async def read_all(connection: Any) -> list[str]:
        received: list[str] = []
        async for text in connection:  # ends with 1001, going away
            received += [each["publication"]["id"] for each in json.loads(text)["notifications"]]
        assert connection.close_code == 1001
        return received

    async with in_process_cluster(zookeeper.hosts, tmp_path, cluster={"drain_s": 20.0}) as cluster:
        async with client_of(cluster) as http, socket(cluster.api, subscriber="dashboard") as connection:
            await connection.send(json.dumps({"op": "subscribe", "ref": 1, "subscription": {}}))
            await connection.recv()
            await cluster.stop("exitpoint-1")  # nothing is confirmed from here on
            assert (await http.post("/v1/publications", json={"id": "accepted"})).status_code == 202
            connpoint, api = cluster.connpoint, cluster.api
            running = cluster._running.pop("connpoint-1")
            connpoint.on_signal()
            await asyncio.sleep(0.3)
            for call in (http.post("/v1/publications", json={"id": "late"}), http.get("/readyz")):
                refused = await call
                assert refused.status_code == 503
                assert "stopping" in refused.text
            with pytest.raises(Exception, match="503"):
                async with socket(api, subscriber="late"):
                    pass
            assert not running.done()
            cluster.start("exitpoint-1")
            assert await read_all(connection) == ["accepted"]
            assert await running == 0
