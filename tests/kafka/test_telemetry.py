"""Samples into a real topic of Kafka, and from there through Spark's own source into windows."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from aiokafka import AIOKafkaConsumer
from msgspec.structs import replace

from braid import metrics
from braid.telemetry import kafka_sink
from braid.telemetry.backlog import Line
from braid.telemetry.kafka_sink import KafkaSink, Topic
from braid.telemetry.sample import Sample, decode_sample, encode_sample
from braid.telemetry.totals import total_of
from coordinator.kafka import KafkaServer
from tests.kafka.spark_source import FOLLOW_S_MAX, follow
from tests.service.in_process import client_of, in_process_cluster
from tests.service.waiting import until
from tests.service.zookeeper_fixture import ZooKeeperServer
from tests.spark.telemetry_cases import sample

pytestmark = pytest.mark.slow


def sink_to(kafka: KafkaServer, topic: str, slice: str = "matcher-1", sending_s_max: float = 10.0) -> KafkaSink:
    return KafkaSink(kafka.bootstrap, Topic(topic, 1, 3600.0), slice, sending_s_max=sending_s_max)


def line(one: Sample) -> Line:
    return Line(one.number, encode_sample(one))


def sent() -> int:
    return total_of(metrics.TELEMETRY_SAMPLES, sink="kafka")


async def read(kafka: KafkaServer, topic: str, several: int) -> list[Any]:
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest")
    async with consumer, asyncio.timeout(20):
        return [await consumer.getone() for _ in range(several)]


async def test_what_waits_while_kafka_is_away_is_bounded_and_sent_when_it_is_back(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_sink, "_BACKOFF_S_MAX", 0.5)
    kafka.start()
    dropped, written = total_of(metrics.TELEMETRY_DROPPED, reason="behind"), sent()
    sink = sink_to(kafka, "telemetry-away", sending_s_max=2.0)
    await sink.open()
    sink.put(line(sample("matcher-1", 1)))
    await until(lambda: sent() == written + 1)
    await asyncio.to_thread(kafka.kill)
    sink.put(line(sample("matcher-1", 2)))
    await until(lambda: sink._fails)
    for number in range(3, 703):
        sink.put(line(sample("matcher-1", number)))
    assert total_of(metrics.TELEMETRY_DROPPED, reason="behind") - dropped == 101
    await asyncio.to_thread(kafka.start)
    await until(lambda: sent() == written + 601)
    await sink.close()
    records = await read(kafka, "telemetry-away", 601)
    assert {record.key for record in records} == {b"matcher-1"}
    assert {decode_sample(record.value).number for record in records} == {1, *range(103, 703)}


async def test_a_sink_that_never_reached_kafka_is_closed_in_time(tmp_path: Path) -> None:
    sink = KafkaSink("127.0.0.1:9", Topic("telemetry-nowhere", 1, 3600.0), "matcher-1")
    await sink.open()
    sink.put(line(sample("matcher-1", 1)))
    await until(lambda: sink._fails)
    async with asyncio.timeout(5):
        await sink.close()


@pytest.mark.timeout(2 * FOLLOW_S_MAX + 60)
async def test_a_cluster_is_followed_through_kafka(
    running_kafka: KafkaServer, zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    """Slices → topic → Spark's source, in the process that `braid experiment follow` starts."""
    topic = "telemetry-followed"
    telemetry = {"sink": "kafka", "topic": topic, "interval_s": 0.1}
    sections: dict[str, Any] = {"telemetry": telemetry, "kafka": {"bootstrap": running_kafka.bootstrap}}
    async with in_process_cluster(zookeeper.hosts, tmp_path, **sections) as cluster, client_of(cluster) as http:
        for _ in range(5):
            batch = [{"attributes": {"n": number}} for number in range(20)]
            assert (await http.post("/v1/publications", json=batch)).status_code == 202
        await until(lambda: cluster.connpoint._log.unconfirmed == 0)
    # Some come again, as behind a lost confirmation; a late one closes all windows.
    there = (await read(running_kafka, topic, 4))[:2]
    last = replace(decode_sample(there[0].value), number=1_000_000, counts={})
    await send(running_kafka, topic, [there[0].value, there[1].value, encode_sample(later(last))])
    found = await asyncio.to_thread(follow, running_kafka, topic, tmp_path)
    layers = pq.read_table(tmp_path / "windows" / "layers").to_pylist()
    publications: Counter[str] = Counter()
    for row in layers:
        publications[row["layer"]] += row["publications"] or 0
    assert publications == {"connpoint": 100, "accesspoint": 100, "matcher": 100, "exitpoint": 0}
    assert {row["cluster"] for row in layers} == {cluster.settings.cluster.name}
    # A slice sends again what it has no answer for, so there may be more of these than the two of above.
    repeated = found["lines"] - len(
        {identity_of(record.value) for record in await read(running_kafka, topic, found["lines"])}
    )
    assert repeated >= 2
    assert (found["repeated"], found["unreadable"], found["late"]) == (repeated, 0, 0)


def identity_of(value: bytes) -> tuple[str, int, int]:
    one = decode_sample(value)
    return one.slice, one.incarnation, one.number


def later(one: Sample) -> Sample:
    return replace(one, time_ms=one.time_ms + 3_600_000)


async def send(kafka: KafkaServer, topic: str, values: Sequence[bytes]) -> None:
    sink, before = sink_to(kafka, topic, "somebody"), sent()
    await sink.open()
    for number, value in enumerate(values):
        sink.put(Line(number, value))
    await until(lambda: sent() == before + len(values))
    await sink.close()
