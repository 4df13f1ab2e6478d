"""The broker that the other tests of this directory stand on."""

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
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
