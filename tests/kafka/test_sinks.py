"""Subscriptions that are delivered to topics of a real broker: keyed, in order, their past before what is live."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiokafka.partitioner import DefaultPartitioner

from coordinator.kafka import KafkaServer
from tests.cluster.clients import socket
from tests.kafka.producing import headers_of, make_topics, read_topic, unique
from tests.service.in_process import InProcessCluster, client_of, in_process_cluster
from tests.service.zookeeper_fixture import ZooKeeperServer

pytestmark = [pytest.mark.slow]

PARTITIONS = 3


async def subscribe(client: httpx.AsyncClient, topic: str, filter: str, key: str = "", **parts: Any) -> dict[str, Any]:
    place = {"topic": topic, "key": key} if key else {"topic": topic}
    given = {"filter": filter, "deliver": {"kafka": place}, **parts}
    response = await client.post("/v1/subscriptions", json=given)
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    assert made["deliver"] == {"kafka": place}
    return made


async def publish(client: httpx.AsyncClient, first: int, count: int, data: str = "") -> None:
    publications = [
        {"id": f"p{n}", "attributes": {"n": n, "city": f"city-{n % 7}"}, "data": data}
        for n in range(first, first + count)
    ]
    response = await client.post("/v1/publications", json=publications)
    assert response.status_code == 202, response.text


async def until_delivered(client: httpx.AsyncClient, id: str, count: int) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while True:
            delivery: dict[str, Any] = (await client.get(f"/v1/subscriptions/{id}")).json()["delivery"]
            if delivery["delivered"] >= count:
                return delivery
            await asyncio.sleep(0.05)


def numbers(records: list[Any]) -> list[int]:
    return [json.loads(record.value)["attributes"]["n"] for record in records]


@pytest.mark.parametrize("way", ["transactional", "idempotent"])
async def test_notifications_are_in_the_topic_keyed_and_in_order(
    running_kafka: KafkaServer, zookeeper: ZooKeeperServer, tmp_path: Path, way: str
) -> None:
    topic, bootstrap = unique("out"), running_kafka.bootstrap
    await make_topics(bootstrap, topic, partitions=PARTITIONS)
    kafka = {"bootstrap": bootstrap, "sink_topics": ["out-*"], "sink": way}
    async with in_process_cluster(zookeeper.hosts, tmp_path, kafka=kafka) as cluster, client_of(cluster) as client:
        made = await subscribe(client, topic, "n >= 0 and n != 500", "city")
        for first in range(0, 1000, 50):
            await publish(client, first, 50)
        delivery = await until_delivered(client, made["id"], 999)
        assert (delivery["state"], delivery["waiting"], delivery["failures"]) == ("idle", 0, 0)
        records = await read_topic(bootstrap, topic, 999, timeout_s=3.0)
    assert sorted(numbers(records)) == [n for n in range(1000) if n != 500]
    partitioner = DefaultPartitioner()
    for key in {record.key for record in records}:
        of_key = [record for record in records if record.key == key]
        assert numbers(of_key) == sorted(numbers(of_key))
        expected = partitioner(key, list(range(PARTITIONS)), list(range(PARTITIONS)))
        assert {record.partition for record in of_key} == {expected}
    assert {json.loads(record.value)["attributes"]["city"].encode() == record.key for record in records} == {True}
    assert {headers_of(record)["braid-subscription"] for record in records} == {made["id"].encode()}
    assert len({headers_of(record)["braid-number"] for record in records}) == 999


async def test_the_past_comes_first_then_what_is_live(
    running_kafka: KafkaServer, zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    topic, bootstrap = unique("out"), running_kafka.bootstrap
    await make_topics(bootstrap, topic)
    kafka = {"bootstrap": bootstrap, "sink_topics": ["out-*"]}
    async with in_process_cluster(zookeeper.hosts, tmp_path, kafka=kafka) as cluster, client_of(cluster) as client:
        await publish(client, 0, 200)
        publishing = asyncio.create_task(_publish_on(client, 200, 1000))
        made = await subscribe(client, topic, "n >= 0", **{"from": "-1h"})
        assert made["past"]["publications"] >= 200
        await publishing
        await until_delivered(client, made["id"], 1000)
        records = await read_topic(bootstrap, topic, 1000, timeout_s=2.0)
    assert numbers(records) == list(range(1000)), "nothing is missing, twice or out of order"


async def _publish_on(client: httpx.AsyncClient, first: int, last: int) -> None:
    for number in range(first, last, 10):
        await publish(client, number, 10)


async def test_a_subscription_moves_to_another_topic_and_ends(
    running_kafka: KafkaServer, zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    first, second, bootstrap = unique("out"), unique("out"), running_kafka.bootstrap
    await make_topics(bootstrap, first, second)
    kafka = {"bootstrap": bootstrap, "sink_topics": ["out-*"]}
    async with in_process_cluster(zookeeper.hosts, tmp_path, kafka=kafka) as cluster, client_of(cluster) as client:
        made = await subscribe(client, first, "n >= 0")
        await publish(client, 0, 10)
        await until_delivered(client, made["id"], 10)
        changed = await client.patch(f"/v1/subscriptions/{made['id']}", json={"deliver": {"kafka": {"topic": second}}})
        assert changed.json()["deliver"] == {"kafka": {"topic": second}}
        await publish(client, 10, 10)
        await until_delivered(client, made["id"], 10)
        witness = await subscribe(client, second, "n >= 1000")
        assert (await client.delete(f"/v1/subscriptions/{made['id']}")).status_code == 204
        await publish(client, 20, 10)
        await publish(client, 1000, 1)
        await until_delivered(client, witness["id"], 11)  # a topic counts what it was sent through all subscriptions
        assert (await client.get(f"/v1/subscriptions/{made['id']}")).status_code == 404
    assert numbers(await read_topic(bootstrap, first, 11, timeout_s=1.0)) == list(range(10))
    assert numbers(await read_topic(bootstrap, second, 12, timeout_s=1.0)) == [*range(10, 20), 1000]


async def test_topics_that_may_not_be_written_are_refused(
    running_kafka: KafkaServer, zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    source, bootstrap = unique("out"), running_kafka.bootstrap
    await make_topics(bootstrap, source)
    kafka = {"bootstrap": bootstrap, "sink_topics": ["out-*"], "sources": [{"topic": source}]}
    async with in_process_cluster(zookeeper.hosts, tmp_path, kafka=kafka) as cluster, client_of(cluster) as client:
        for topic, reason in (("elsewhere", "kafka.sink_topics"), (source, "source"), ("no topic", "letters, digits")):
            given = {"filter": "n >= 0", "deliver": {"kafka": {"topic": topic}}}
            response = await client.post("/v1/subscriptions", json=given)
            assert response.status_code == 422
            assert response.json()["field"] == "$.deliver.kafka.topic"
            assert reason in response.json()["detail"]
        both = {"webhook": {"url": "https://example.com"}, "kafka": {"topic": "out-1"}}
        response = await client.post("/v1/subscriptions", json={"deliver": both})
        assert (response.status_code, response.json()["field"]) == (422, "$.deliver")
        assert (await client.get("/v1/subscriptions")).json()["subscriptions"] == []
        await _is_refused_over_websocket(cluster)


async def _is_refused_over_websocket(cluster: InProcessCluster) -> None:
    wanted = {"filter": "n >= 0", "deliver": {"kafka": {"topic": "out-1"}}}
    async with socket(cluster.api) as connection:
        await connection.send(json.dumps({"op": "subscribe", "ref": 1, "subscription": wanted}))
        answer = json.loads(await connection.recv())
    assert (answer["op"], answer["problem"]["field"]) == ("error", "$.subscription.deliver")


async def test_a_topic_that_is_missing_says_so_and_is_written_when_it_is_there(
    running_kafka: KafkaServer, zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    topic, bootstrap = unique("out"), running_kafka.bootstrap
    kafka = {"bootstrap": bootstrap, "sink_topics": ["out-*"]}
    async with in_process_cluster(zookeeper.hosts, tmp_path, kafka=kafka) as cluster, client_of(cluster) as client:
        made = await subscribe(client, topic, "n >= 0")
        await publish(client, 0, 10)
        async with asyncio.timeout(30):
            while True:
                delivery = (await client.get(f"/v1/subscriptions/{made['id']}")).json()["delivery"]
                if delivery["state"] == "pausing":
                    break
                await asyncio.sleep(0.05)
        assert delivery["waiting"] == 10
        assert "UnknownTopic" in delivery["last_error"]
        await make_topics(bootstrap, topic)
        await until_delivered(client, made["id"], 10)
    assert numbers(await read_topic(bootstrap, topic, 11, timeout_s=1.0)) == list(range(10))


async def test_what_a_topic_does_not_take_for_its_size_is_left_out(
    running_kafka: KafkaServer, zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    topic, bootstrap = unique("out"), running_kafka.bootstrap
    await make_topics(bootstrap, topic, configs={"max.message.bytes": "20000"})
    kafka = {"bootstrap": bootstrap, "sink_topics": ["out-*"]}
    async with in_process_cluster(zookeeper.hosts, tmp_path, kafka=kafka) as cluster, client_of(cluster) as client:
        made = await subscribe(client, topic, "n >= 0")
        await publish(client, 0, 10, data="x" * 4_000)  # together they are too large, each is not
        await publish(client, 10, 1, data="x" * 30_000)
        await publish(client, 11, 10)
        await until_delivered(client, made["id"], 20)
    assert numbers(await read_topic(bootstrap, topic, 21, timeout_s=1.0)) == [*range(10), *range(11, 21)]
