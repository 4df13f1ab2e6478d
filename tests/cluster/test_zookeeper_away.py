"""ZooKeeper goes away under traffic: for seconds, for longer than sessions last, and for good with all that it knew."""

import asyncio
import json
import shutil
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.local_cluster import LocalCluster, launched_cluster, local_cluster
from braid.kept_configuration import REFUSED
from braid.topology import CONFIGURED_LAYERS, PHASES, Phase
from coordinator import zookeeper as embedded
from tests.cluster.holding import hold
from tests.cluster.scaled_cluster import ScaledCluster, scaled, until
from tests.cluster.traffic import Traffic
from tests.service.zookeeper_fixture import ZooKeeperServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PAUSE_S = 0.03
SUBSCRIPTIONS = 60
AWAY_S = 4.0
SAYS_SO_WITHIN_S = 20.0  # an interpreter is loaded, ZooKeeper is asked, and no slice is started


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    server = ZooKeeperServer(embedded.prepare(tmp_path / "zookeeper"))
    server.start()
    yield server
    server.stop()


def settings(server: ZooKeeperServer, session_timeout_s: float) -> dict[str, str]:
    timeout = {"BRAID_CLUSTER__SESSION_TIMEOUT_S": str(session_timeout_s)}
    return {"BRAID_CLUSTER__ZOOKEEPER": server.hosts, **timeout}


async def some_more(traffic: Traffic) -> None:
    """Published, and delivered."""
    published, delivered = traffic.acknowledged, traffic.delivered
    await until(lambda: traffic.acknowledged > published + 200 and traffic.delivered > delivered + 200)


async def test_for_some_seconds_nobody_notices(tmp_path: Path, server: ZooKeeperServer) -> None:
    with local_cluster(tmp_path / "data", "connpoint=2,matcher=2", settings(server, 20.0)) as cluster:
        traffic = Traffic(publishers=4, subscribers=8, newcomers=2, name=uuid.uuid4().hex)
        async with traffic.flowing(cluster.api, cluster.api, PAUSE_S):
            await some_more(traffic)
            await asyncio.to_thread(server.stop)
            subscribed = traffic.subscribed
            for _ in range(5):
                await some_more(traffic)
                await asyncio.sleep(1.0)
            assert traffic.subscribed > subscribed
            await asyncio.to_thread(server.start)
            await some_more(traffic)
        traffic.check()


async def test_for_longer_than_sessions_last(tmp_path: Path, server: ZooKeeperServer) -> None:
    """Meanwhile everything goes on. When it is back, all register again, and subscribers are told of a gap."""
    with local_cluster(tmp_path / "data", "connpoint=2,matcher=2", settings(server, 2.0)) as cluster:
        traffic = Traffic(publishers=4, subscribers=8, name=uuid.uuid4().hex)
        for publisher in traffic.publishers:
            publisher.may_be_refused = True
        for subscriber in traffic.subscribers:
            subscriber.may_break = True
        async with traffic.flowing(cluster.api, cluster.api, PAUSE_S):
            await some_more(traffic)
            await asyncio.to_thread(server.stop)
            for _ in range(6):
                await some_more(traffic)
                await asyncio.sleep(1.0)
            assert not any(subscriber.earlier for subscriber in traffic.subscribers)
            await asyncio.to_thread(server.start)
            with scaled(cluster) as running:
                await running.ready()
            await some_more(traffic)
        traffic.check()


async def test_for_some_seconds_in_each_phase_of_a_scaling(tmp_path: Path, server: ZooKeeperServer) -> None:
    """When it is back, the scaling goes on from where it stood; where somebody died meanwhile, the phase decides."""
    two_of_each = "connpoint=2,accesspoint=2,matcher=2,exitpoint=2"
    with local_cluster(tmp_path / "data", two_of_each, settings(server, 20.0)) as cluster, scaled(cluster) as running:
        traffic = Traffic(publishers=4, subscribers=8, newcomers=1, name=uuid.uuid4().hex)
        async with traffic.flowing(cluster.api, cluster.api, PAUSE_S):
            for phase in PHASES:
                assert await away_in(running, server, traffic, phase) == "done", phase
            assert await away_in(running, server, traffic, "moving", kill=True) == "aborted"
            assert (await running.scale(layer="matcher", to=1))["state"] == "done"
            await running.ready()
            await some_more(traffic)
        traffic.check()


async def away_in(
    running: ScaledCluster, server: ZooKeeperServer, traffic: Traffic, phase: Phase, *, kill: bool = False
) -> str:
    """How the scaling ended. Whoever holds the phase goes on while nobody can be told of it."""
    await some_more(traffic)
    held = await hold(running, phase, CONFIGURED_LAYERS)
    await asyncio.to_thread(server.stop)
    if kill:
        running.kill(held.coming["matcher"])  # which has not reported in `moving`, so its death is noticed for sure
    running.resume_all()
    await asyncio.sleep(AWAY_S)
    await asyncio.to_thread(server.start)
    await until(lambda: running.ended(held.id))
    await running.ready()
    ended = await asyncio.to_thread(running.ended, held.id)
    assert ended is not None
    return ended.state


async def scale_away_from_the_first_names(cluster: LocalCluster) -> None:
    """Two matchers, none of which a first configuration would name; each has some of the subscriptions."""
    with scaled(cluster) as running:
        ended = await running.scale(layers={"matcher": 2}, replace=["matcher-1"])
        assert ended["state"] == "done"
        await running.ready()
        assert "matcher-1" not in running.configuration().matchers
        for number in range(SUBSCRIPTIONS):
            wanted = {"filter": f"value = {number}", "subscriber": "dashboard"}
            assert "id" in await running.call("/v1/subscriptions", wanted)
        matchers = running.configuration().matchers
        await until(lambda: all(running.subscriptions_at(name) for name in matchers))  # they tell it now and then


async def every_subscription_is_found(cluster: LocalCluster) -> None:
    """Each by its filter: one publication for each, and each is delivered."""

    def call(path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(cluster.api[0] + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as response:
            return json.load(response)

    def receive() -> set[str]:
        found: set[str] = set()
        with urllib.request.urlopen(f"{cluster.api[0]}/v1/stream?subscriber=dashboard", timeout=30) as stream:
            call("/v1/publications", [{"attributes": {"value": number}} for number in range(SUBSCRIPTIONS)])
            for line in stream:
                if line.startswith(b"data:"):
                    found |= set(json.loads(line[5:]).get("subscriptions", ()))
                if len(found) == SUBSCRIPTIONS:
                    return found
        return found

    listed = await asyncio.to_thread(call, "/v1/subscriptions?subscriber=dashboard&limit=1000")
    ids = {each["id"] for each in listed["subscriptions"]}
    assert len(ids) == SUBSCRIPTIONS
    assert await asyncio.to_thread(receive) == ids


async def test_the_embedded_one_has_lost_its_data(tmp_path: Path) -> None:
    """The next start puts back what the matchers keep."""
    with local_cluster(tmp_path) as cluster:
        await scale_away_from_the_first_names(cluster)
    shutil.rmtree(tmp_path / "zookeeper")
    with local_cluster(tmp_path) as cluster:
        await every_subscription_is_found(cluster)
        with scaled(cluster) as running:
            assert len(running.configuration().matchers) == 2
            assert (await running.scale(layer="matcher", to=1))["state"] == "done"
        await every_subscription_is_found(cluster)


async def test_one_of_its_own_has_lost_its_data_while_the_cluster_runs(tmp_path: Path, server: ZooKeeperServer) -> None:
    """Slices that run go on and do not take the new one for theirs. What is started refuses a configuration from
    nothing, loudly, until the one that was in force is put back.
    """
    data, environment = tmp_path / "data", settings(server, 4.0)
    with local_cluster(data, "", environment) as cluster:
        await scale_away_from_the_first_names(cluster)
        server.stop()
        shutil.rmtree(tmp_path / "zookeeper" / "data" / "version-2", ignore_errors=False)
        server.start()
        await asyncio.sleep(6.0)
        await every_subscription_is_found(cluster)
    # Somebody starts slices by hand, without their directories: a first configuration comes to be.
    with local_cluster(tmp_path / "others", "", environment):
        pass
    says = tmp_path / "says"
    with launched_cluster(data, "", environment, says) as refused:
        await until(lambda: refused.process.poll() is not None, SAYS_SO_WITHIN_S)
    assert refused.process.returncode == 1
    for name in ("matcher-1", "matcher-2", "matcher-3"):
        assert f"{name}: it has epoch 1, and epoch 2 was in force already" in says.read_text()
    advice = f"python -m coordinator.restoring --data {data} --zookeeper {server.hosts}"
    assert advice in says.read_text()
    matcher = await asyncio.to_thread(start_matcher, data, server)
    assert matcher.returncode == REFUSED
    assert "the configuration in ZooKeeper is refused" in matcher.stderr
    restored = restore(data, server)
    assert "restored: epoch 2: matcher-2, matcher-3; routing broadcast" in restored
    with local_cluster(data, "", environment) as cluster:
        await every_subscription_is_found(cluster)
    assert "nothing to do" in restore(data, server)


def start_matcher(data: Path, server: ZooKeeperServer) -> "subprocess.CompletedProcess[str]":
    """As somebody would who has no launcher; until it ends."""
    command = [sys.executable, "-m", "services.matcher", "--name", "matcher-2"]
    command += ["--data", str(data), "--zookeeper", server.hosts]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def restore(data: Path, server: ZooKeeperServer) -> str:
    command = [sys.executable, "-m", "coordinator.restoring", "--data", str(data), "--zookeeper", server.hosts]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout
