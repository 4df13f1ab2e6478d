"""The broker that the other tests of this directory stand on."""

import asyncio
import uuid
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from coordinator.kafka import KafkaServer

pytestmark = pytest.mark.slow


async def test_what_was_written_in_a_transaction_is_read_after_a_restart(kafka: KafkaServer) -> None:
    kafka.start()
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic("broker-kept", num_partitions=1, replication_factor=1)])
    await admin.close()
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id="broker-kept") as producer:
        async with producer.transaction():
            await producer.send_and_wait("broker-kept", b"before")
        await producer.begin_transaction()
        await producer.send_and_wait("broker-kept", b"aborted")
        await producer.abort_transaction()
    await _wait_for_markers(kafka.bootstrap, "broker-kept", end=4)
    kafka.kill()
    kafka.start()
    consumer = AIOKafkaConsumer(
        "broker-kept",
        bootstrap_servers=kafka.bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    async with consumer, AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        await producer.send_and_wait("broker-kept", b"after")
        assert [(await consumer.getone()).value for _ in range(2)] == [b"before", b"after"]


async def _wait_for_markers(bootstrap: str, topic: str, end: int) -> None:
    """Kafka answers before it has written that a transaction is over, and one killed meanwhile may never write it."""
    place = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        async with asyncio.timeout(10):
            while (await consumer.end_offsets([place]))[place] < end:
                await asyncio.sleep(0.02)


def test_the_id_of_its_cluster_may_begin_with_a_dash(
    kafka: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.kafka.uuid.uuid4", lambda: uuid.UUID(bytes=b"\xf8" + bytes(15)))
    KafkaServer(tmp_path / "kafka")
    assert "cluster.id=-AAAA" in (tmp_path / "kafka" / "data" / "meta.properties").read_text()
