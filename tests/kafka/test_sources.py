"""Topics of a real broker become publications: in every format, in order, and bad ones are dead letters."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

import braid
from braid.config import load
from coordinator.kafka import KafkaServer
from tests.kafka.producing import headers_of, make_topics, producing, read_topic, unique
from tests.kafka.test_mock_sources import reading
from tests.service.in_process import in_process_cluster
from tests.service.waiting import until
from tests.service.zookeeper_fixture import ZooKeeperServer

pytestmark = [pytest.mark.slow]


async def collect(stream: Any, count: int, timeout_s: float = 20.0) -> list[Any]:
    found: list[Any] = []
    async with asyncio.timeout(timeout_s):
        async for notification in stream:
            found.append(notification.publication)
            if len(found) == count:
                break
    return found


async def test_records_are_published_in_order_and_bad_ones_are_dead_letters(
    running_kafka: KafkaServer, zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    topic, bootstrap = unique("air"), running_kafka.bootstrap
    await make_topics(bootstrap, topic)
    sources = [{"topic": topic, "publication_topic": "air/madrid"}]
    kafka = {"bootstrap": bootstrap, "sources": sources}
    async with in_process_cluster(zookeeper.hosts, tmp_path, kafka=kafka) as cluster:
        async with braid.Client(cluster.api) as client, producing(bootstrap) as producer:
            async with client.subscribe("value >= 0", topic="air") as stream:
                for n in range(1000):
                    value = b"{" if n == 500 else json.dumps({"attributes": {"value": n}}).encode()
                    await producer.send(topic, value, key=b"station-4", headers=[("trace", b"%d" % n)])
                await producer.flush()
                found = await collect(stream, 999)
                assert [one.attributes["value"] for one in found] == [n for n in range(1000) if n != 500]
                assert found[3].attributes == {"key": "station-4", "trace": "3", "value": 3}
                assert found[3].id == f"{topic}-0-3"
    (letter,) = await read_topic(bootstrap, f"{topic}.dead-letter", 1)
    assert (letter.key, letter.value) == (b"station-4", b"{")
    assert b"not valid JSON" in headers_of(letter)["braid-reason"]
    assert headers_of(letter)["braid-offset"] == b"500"


async def test_a_bad_record_that_is_too_large_for_the_dead_letters_does_not_stop_the_others(
    running_kafka: KafkaServer, zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    topic, bootstrap = unique("air"), running_kafka.bootstrap
    await make_topics(bootstrap, topic, configs={"max.message.bytes": "4000000"})
    large = b"{" + b"x" * 2_000_000
    sizes = {"max_request_size": 4_000_000, "max_batch_size": 4_000_000}
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **sizes) as producer:
        together = producer.create_batch()  # so that they are read together, too
        for value in (b"{", large, b"{", b'{"id": "good"}'):
            assert together.append(key=None, value=value, timestamp=None)
        await (await producer.send_batch(together, topic, partition=0))
    kafka = {"bootstrap": bootstrap, "sources": [{"topic": topic}]}
    async with in_process_cluster(zookeeper.hosts, tmp_path, kafka=kafka) as cluster:
        async with braid.Client(cluster.api) as client, client.subscribe("", from_="-1m") as stream:
            assert [one.id for one in await collect(stream, 1)] == ["good"]
    letters = await read_topic(bootstrap, f"{topic}.dead-letter", 3, timeout_s=3.0)
    by_offset = {headers_of(letter)["braid-offset"]: letter for letter in letters}
    assert by_offset.keys() == {b"0", b"1", b"2"}
    assert headers_of(by_offset[b"1"])["braid-value-bytes"] == b"%d" % len(large)


async def test_one_that_is_told_to_stop_leaves_its_partitions_to_others_at_once(running_kafka: KafkaServer) -> None:
    topic, bootstrap = unique("air"), running_kafka.bootstrap
    await make_topics(bootstrap, topic)
    kafka = {"bootstrap": bootstrap, "group": topic, "sources": [{"topic": topic}], "session_s": 30}
    settings = load(overrides={"kafka": kafka}).settings
    async with reading("connpoint-1", settings) as one:
        async with producing(bootstrap) as producer:
            await producer.send_and_wait(topic, b'{"id":"a"}')
            await until(lambda: len(one.contents) == 1)
            one.confirm()
            await one.sources.leave()
            await producer.send_and_wait(topic, b'{"id":"b"}')
        async with reading("connpoint-2", settings) as other:
            await until(lambda: other.contents, timeout_s=15)  # half of the session
            assert [content["id"] for content in other.contents] == ["b"]
