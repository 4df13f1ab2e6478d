"""Topics of a real broker become publications: in every format, in order, and bad ones are dead letters."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import braid
from coordinator.kafka import KafkaServer
from tests.kafka.producing import headers_of, make_topics, producing, read_topic, unique
from tests.service.in_process import in_process_cluster
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
