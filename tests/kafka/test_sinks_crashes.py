"""Sinks under crashes: of Kafka, and of the connection point that delivers. In the topic everything is there once.

One cluster of real processes with two connection points. Publishers are at the first one, which is never touched; the
subscription is delivered by the second one.
"""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from benchmarks.local_cluster import LocalCluster, local_cluster
from coordinator.kafka import KafkaServer
from tests.cluster.traffic import Traffic
from tests.kafka.killing import kill_kafka
from tests.kafka.producing import make_topics, read_topic, unique

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PARTITIONS = 3
SLICES = "connpoint=2,accesspoint=1,matcher=1,exitpoint=1"
VICTIM = "connpoint-2"


class Sunk(NamedTuple):
    cluster: LocalCluster
    bootstrap: str

    async def subscribe(self) -> tuple[str, str]:
        """A new topic, and the id of a subscription to everything that it is delivered to by the second one."""
        topic = unique("out")
        await make_topics(self.bootstrap, topic, partitions=PARTITIONS)
        given = {"filter": "sensor >= 0", "deliver": {"kafka": {"topic": topic, "key": "sensor"}}}
        async with httpx.AsyncClient(base_url=self.cluster.api[1], trust_env=False, timeout=20) as client:
            made = (await client.post("/v1/subscriptions", json=given)).json()
        assert made["connpoint"] == VICTIM
        return topic, made["id"]

    async def end(self, id: str) -> None:
        async with httpx.AsyncClient(base_url=self.cluster.api[0], trust_env=False, timeout=20) as client:
            assert (await client.delete(f"/v1/subscriptions/{id}")).status_code == 204

    async def delivery_of(self, id: str) -> dict[str, Any]:
        async with httpx.AsyncClient(base_url=self.cluster.api[0], trust_env=False, timeout=20) as client:
            delivery: dict[str, Any] = (await client.get(f"/v1/subscriptions/{id}")).json()["delivery"]
        return delivery


@pytest.fixture(scope="module")
def sunk(kafka: KafkaServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sunk]:
    kafka.start()
    settings = {
        "BRAID_CLUSTER__NAME": unique("t"),
        "BRAID_CLUSTER__SESSION_TIMEOUT_S": "2.0",
        "BRAID_KAFKA__BOOTSTRAP": kafka.bootstrap,
        "BRAID_KAFKA__SINK_TOPICS": json.dumps(["out-*"]),
    }
    with local_cluster(tmp_path_factory.mktemp("cluster"), SLICES, settings) as cluster:
        yield Sunk(cluster, kafka.bootstrap)


async def test_kafka_is_killed_and_started_again(kafka: KafkaServer, sunk: Sunk) -> None:
    kafka.start()
    topic, id = await sunk.subscribe()
    traffic = Traffic(publishers=4, subscribers=0)
    async with traffic.flowing([sunk.cluster.api[0]], [], pause_s=0.005):
        for _ in range(2):
            await _until_acknowledged(traffic, traffic.acknowledged + 1000)
            await kill_kafka(kafka, sunk.cluster.slice_pids()[VICTIM])
            await _until_acknowledged(traffic, traffic.acknowledged + 500)  # nobody waits for Kafka
            await asyncio.to_thread(kafka.start)
        await _until_acknowledged(traffic, traffic.acknowledged + 1000)
    records = await _settled(sunk, topic, id, traffic)
    _check(records, traffic)
    _check_order(records)


async def test_the_connection_point_is_killed(running_kafka: KafkaServer, sunk: Sunk) -> None:
    topic, id = await sunk.subscribe()
    traffic = Traffic(publishers=4, subscribers=0)
    async with traffic.flowing([sunk.cluster.api[0]], [], pause_s=0.005):
        for _ in range(3):
            await _until_acknowledged(traffic, traffic.acknowledged + 700)
            before = sunk.cluster.slice_pids()[VICTIM]
            os.kill(before, signal.SIGKILL)
            async with asyncio.timeout(30):
                while sunk.cluster.slice_pids().get(VICTIM, before) == before:
                    await asyncio.sleep(0.05)
        await _until_acknowledged(traffic, traffic.acknowledged + 700)
    records = await _settled(sunk, topic, id, traffic)
    _check(records, traffic)
    _check_order(records)


async def test_both_are_killed(kafka: KafkaServer, sunk: Sunk) -> None:
    """While Kafka is away, the connection point is killed with what waits for it."""
    kafka.start()
    topic, id = await sunk.subscribe()
    traffic = Traffic(publishers=4, subscribers=0)
    async with traffic.flowing([sunk.cluster.api[0]], [], pause_s=0.005):
        await _until_acknowledged(traffic, 500)
        await kill_kafka(kafka, sunk.cluster.slice_pids()[VICTIM])
        await _until_acknowledged(traffic, traffic.acknowledged + 500)
        os.kill(sunk.cluster.slice_pids()[VICTIM], signal.SIGKILL)
        await _until_acknowledged(traffic, traffic.acknowledged + 500)
        await asyncio.to_thread(kafka.start)
        await _until_acknowledged(traffic, traffic.acknowledged + 500)
    records = await _settled(sunk, topic, id, traffic)
    _check(records, traffic)
    _check_order(records)


async def _until_acknowledged(traffic: Traffic, count: int) -> None:
    async with asyncio.timeout(60):
        while traffic.acknowledged < count:
            await asyncio.sleep(0.02)


async def _settled(sunk: Sunk, topic: str, id: str, traffic: Traffic) -> list[Any]:
    """What is committed in the topic when nothing waits any more; the subscription is over then."""
    records: list[Any] = []
    async with asyncio.timeout(90):
        while len(records) < traffic.acknowledged:
            records = await read_topic(sunk.bootstrap, topic, 10**9, timeout_s=1.0)
        while (await sunk.delivery_of(id)).get("waiting") != 0:
            await asyncio.sleep(0.1)
    await sunk.end(id)
    return await read_topic(sunk.bootstrap, topic, 10**9, timeout_s=1.0)


def _check(records: list[Any], traffic: Traffic) -> None:
    """Everything that was acknowledged, once, and nothing else."""
    found = Counter(json.loads(record.value)["id"] for record in records)
    acknowledged = {id: sensor for publisher in traffic.publishers for id, sensor in publisher.acknowledged.items()}
    unanswered = {id for publisher in traffic.publishers for id in publisher.unanswered}
    assert [id for id in acknowledged if id not in found] == [], "lost"
    assert [id for id, times in found.items() if times > 1] == [], "twice"
    assert found.keys() <= acknowledged.keys() | unanswered, "never published"
    for record in records:
        assert record.key == b"%d" % json.loads(record.value)["attributes"]["sensor"]


def _check_order(records: list[Any]) -> None:
    """Of each publisher, in each partition."""
    latest: dict[tuple[int, str], str] = {}
    for record in records:
        id = json.loads(record.value)["id"]
        place = record.partition, id.rpartition("-")[0]
        assert latest.get(place, "") < id, f"{id} after {latest[place]}"
        latest[place] = id
