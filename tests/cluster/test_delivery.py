"""Real processes, real ZooKeeper, real LevelDB: everything that was acknowledged arrives, once, in order."""

import asyncio
import json
import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from benchmarks.local_cluster import LocalCluster, local_cluster
from tests.cluster.traffic import Traffic
from tests.service.cli_runner import braid

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ONE_OF_EACH = "connpoint=1,accesspoint=1,matcher=1,exitpoint=1"
TWO_OF_EACH = "connpoint=2,accesspoint=2,matcher=2,exitpoint=2"
FLOWING_S_MAX = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, quick: bool) -> Iterator[LocalCluster]:
    """A quick run does with four processes instead of eight; the slow tests need two of each."""
    with local_cluster(tmp_path_factory.mktemp("cluster"), ONE_OF_EACH if quick else TWO_OF_EACH) as running:
        yield running


async def test_everything_arrives_once_and_in_order(cluster: LocalCluster) -> None:
    traffic = Traffic(publishers=4, subscribers=8)
    async with traffic.flowing(cluster.api, cluster.api, pause_s=0.0):
        async with asyncio.timeout(FLOWING_S_MAX):
            while traffic.acknowledged <= 1000:
                await asyncio.sleep(0.05)
    traffic.check()


async def test_the_cluster_is_measured(cluster: LocalCluster) -> None:
    done = await braid(cluster.api[0], "bench", "--subscriptions", "50", "--seconds", "0.5", "--rate", "400", "--json")
    found = json.loads(done.stdout)
    assert (found["lost"], found["twice"], found["out_of_order"]) == (0, 0, 0)
    assert 0 < found["published"] <= 200
    assert (done.exit_code, found["subscriptions"]) == (0, 50)


async def test_a_measurement_that_the_cluster_refuses_says_why(cluster: LocalCluster) -> None:
    done = await braid(cluster.api[0], "bench", "--subscriptions", "10001", "--seconds", "0.5")
    assert done.exit_code == 1
    assert "limits.subscriptions_per_connection_max" in done.stderr


@pytest.mark.parametrize("victim", ["accesspoint-1", "matcher-1", "exitpoint-1", "connpoint-2"])
async def test_a_killed_slice_loses_nothing(cluster: LocalCluster, victim: str) -> None:
    """Subscribers stay at connpoint-1; publishers use both connection points, so one of them may be the victim."""
    traffic = Traffic(publishers=4, subscribers=8)
    for publisher in traffic.publishers[1::2]:  # one that starts again listens before it is registered
        publisher.may_be_refused = victim == "connpoint-2"
    before = cluster.slice_pids()[victim]
    async with traffic.flowing(cluster.api, cluster.api[:1]):
        await asyncio.sleep(1.5)
        os.kill(before, signal.SIGKILL)
        await _until_replaced(cluster, victim, before)
        acknowledged = traffic.acknowledged
        await asyncio.sleep(2)
        assert traffic.acknowledged > acknowledged, "publishing did not go on"
    traffic.check()


async def test_a_killed_coordinator_is_not_noticed(cluster: LocalCluster) -> None:
    traffic = Traffic(publishers=2, subscribers=4)
    async with traffic.flowing(cluster.api, cluster.api):
        await asyncio.sleep(0.5)
        (coordinator,) = [
            child
            for child in psutil.Process(cluster.process.pid).children()
            if child.cmdline()[1:] == ["-m", "coordinator"]
        ]
        coordinator.kill()
        await asyncio.sleep(1.5)
    traffic.check()


async def _until_replaced(cluster: LocalCluster, victim: str, before: int) -> None:
    async with asyncio.timeout(30):
        while True:
            await asyncio.sleep(0.1)
            slices = await asyncio.to_thread(_slices, cluster.api[0])
            if slices.get(victim, before) != before:
                return


def _slices(api: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{api}/v1/cluster", timeout=5) as response:
        return {entry["name"]: entry["pid"] for entry in json.load(response)["slices"]}


def test_a_second_start_finds_its_data(tmp_path: Path) -> None:
    body = json.dumps({"filter": "value > 40", "subscriber": "dashboard"}).encode()
    with local_cluster(tmp_path) as first:
        request = urllib.request.Request(f"{first.api[0]}/v1/subscriptions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as response:
            subscription = json.load(response)["id"]
    with local_cluster(tmp_path) as second:
        with urllib.request.urlopen(f"{second.api[0]}/v1/subscriptions/{subscription}", timeout=10) as response:
            assert json.load(response)["filter"] == "value > 40"
        with urllib.request.urlopen(f"{second.api[0]}/v1/stream?subscriber=dashboard", timeout=10) as stream:
            publication = json.dumps({"id": "reading-1", "attributes": {"value": 41}}).encode()
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{second.api[0]}/v1/publications", publication, headers)
            urllib.request.urlopen(request, timeout=10).close()
            for line in stream:
                if line.startswith(b"data:") and b"reading-1" in line:
                    break
