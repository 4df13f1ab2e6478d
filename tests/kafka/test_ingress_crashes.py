"""The ingress log in a real Kafka under crashes: of a connection point for good, of its session, of Kafka.

The launcher runs a cluster with one connection point, which is never touched: subscribers are there. A second one,
where publishers are, is started here, so that nobody starts it again when it is killed.
"""

import asyncio
import contextlib
import os
import signal
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from benchmarks.local_cluster import LocalCluster, local_cluster
from braid import znodes
from coordinator.kafka import KafkaServer
from tests.cluster.traffic import Traffic
from tests.kafka.producing import unique

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SESSION_S = 2.0
SURVIVOR, VICTIM = "connpoint-1", "connpoint-2"


class Ingress:
    """A cluster whose ingress log is in Kafka."""

    def __init__(self, cluster: LocalCluster, settings: dict[str, str], zookeeper: KazooClient) -> None:
        self.cluster = cluster
        self._settings = settings
        self._zookeeper = zookeeper
        self._paths = znodes.Paths(settings["BRAID_CLUSTER__NAME"])

    @property
    def survivor(self) -> str:
        return self.cluster.api[0]

    def registered(self, name: str) -> str:
        """Where its interface is; empty when it is not registered."""
        try:
            found, _ = self._zookeeper.get(self._paths.registration("connpoint", name))
        except NoNodeError:
            return ""
        return "http://" + znodes.decode_registration(found).http

    @contextlib.asynccontextmanager
    async def another(self) -> AsyncIterator[tuple[int, str]]:
        """A second connection point: its process id, and where its interface is."""
        given = ("--name", VICTIM, "--zookeeper", self.cluster.zookeeper, "--data", str(self.cluster.directory))
        with (self.cluster.directory / "logs" / f"{VICTIM}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "services.connpoint", *given, env={**os.environ, **self._settings}, stderr=log
            )
        try:
            await until(lambda: self.registered(VICTIM))
            api = self.registered(VICTIM)
            await until(lambda: _is_ready(api))
            yield process.pid, api
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        await until(lambda: not self.registered(VICTIM))

    def metric(self, api: str, name: str) -> float:
        with urllib.request.urlopen(f"{api}/metrics", timeout=5) as response:
            lines = response.read().decode().splitlines()
        return float(next(line.rpartition(" ")[2] for line in lines if line.startswith(f"{name} ")))


@pytest.fixture(scope="module")
def ingress(kafka: KafkaServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ingress]:
    kafka.start()
    settings = {
        "BRAID_CLUSTER__NAME": unique("t"),
        "BRAID_CLUSTER__SESSION_TIMEOUT_S": str(SESSION_S),
        "BRAID_INGRESS__LOG": "kafka",
        "BRAID_INGRESS__PARTITIONS": "8",
        "BRAID_KAFKA__BOOTSTRAP": kafka.bootstrap,
        "BRAID_LOGS__FORMAT": "json",
    }
    with local_cluster(tmp_path_factory.mktemp("cluster"), "connpoint=1", settings) as cluster:
        zookeeper = KazooClient(cluster.zookeeper)
        zookeeper.start()
        try:
            yield Ingress(cluster, settings, zookeeper)
        finally:
            zookeeper.stop()
            zookeeper.close()


async def test_a_connection_point_dies_for_good(running_kafka: KafkaServer, ingress: Ingress) -> None:
    """What it had acknowledged and not delivered comes from the one that is left."""
    traffic = Traffic(publishers=4, subscribers=4)
    async with ingress.another() as (pid, api):
        await until(lambda: 0 < ingress.metric(api, "braid_ingress_partitions") < 8)
        seen_to = ingress.metric(api, "braid_ingress_partitions")
        is_gone = False
        async with traffic.flowing([lambda: ingress.survivor if is_gone else api], [ingress.survivor], pause_s=0.0):
            await _until_acknowledged(traffic, 1000)
            os.kill(pid, signal.SIGKILL)
            is_gone = True
            await until(lambda: ingress.metric(ingress.survivor, "braid_ingress_partitions") == 8)
            await _until_acknowledged(traffic, traffic.acknowledged + 500)
    traffic.check()
    assert ingress.metric(ingress.survivor, "braid_ingress_taken_over") >= seen_to
    await until(lambda: ingress.metric(ingress.survivor, "braid_window_publications") == 0)


async def test_kafka_is_killed_and_started_again(kafka: KafkaServer, ingress: Ingress) -> None:
    """Publishers wait for it. On a busy machine it may be away for longer than `ingress.write_s_max`: then they are
    refused, and try again.
    """
    kafka.start()
    traffic = Traffic(publishers=4, subscribers=4)
    for publisher in traffic.publishers:
        publisher.may_be_refused = True
    async with traffic.flowing([ingress.survivor], [ingress.survivor], pause_s=0.002):
        await _until_acknowledged(traffic, 1000)
        await asyncio.to_thread(kafka.kill)
        await asyncio.to_thread(kafka.start)
        await _until_acknowledged(traffic, traffic.acknowledged + 1000)
    traffic.check()
    in_its_way = [one for one in traffic.publishers if one.longest_wait_s > 0.5 or one.connections > 1]
    assert in_its_way


async def test_one_that_was_taken_for_dead_comes_back(running_kafka: KafkaServer, ingress: Ingress) -> None:
    """Frozen for longer than its session: the other sees to its partitions when it goes on where it was."""
    traffic = Traffic(publishers=4, subscribers=4)
    for publisher in traffic.publishers:
        publisher.may_be_refused = True
    async with ingress.another() as (pid, api):
        async with traffic.flowing([api], [ingress.survivor], pause_s=0.0):
            await _until_acknowledged(traffic, 1000)
            os.kill(pid, signal.SIGSTOP)
            await until(lambda: not ingress.registered(VICTIM))
            await until(lambda: ingress.metric(ingress.survivor, "braid_ingress_partitions") == 8)
            os.kill(pid, signal.SIGCONT)
            await until(lambda: ingress.registered(VICTIM))
            await until(lambda: 0 < ingress.metric(ingress.survivor, "braid_ingress_partitions") < 8)
            await _until_acknowledged(traffic, traffic.acknowledged + 500)
    traffic.check()


async def until(condition: Callable[[], object], timeout_s: float = 30.0) -> None:
    """The condition asks others, so it is tried on a thread while traffic flows."""
    async with asyncio.timeout(timeout_s):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.02)


async def _until_acknowledged(traffic: Traffic, count: int) -> None:
    async with asyncio.timeout(30):
        while traffic.acknowledged < count:
            await asyncio.sleep(0.02)


def _is_ready(api: str) -> bool:
    try:
        with urllib.request.urlopen(f"{api}/readyz", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False
