"""Topics that are filled before anything is measured."""

import time

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

PARTITIONS = 4
SENSORS = 1_000  # as many subscriptions as there are keys

_FILL_BATCH_BYTES = 256 * 1024


async def make_topic(bootstrap: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    finally:
        await admin.close()


async def fill(bootstrap: str, topic: str, records: int) -> None:
    """The same number for each partition, each sensor in one of them."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, max_batch_size=_FILL_BATCH_BYTES)
    async with producer:
        for partition in range(PARTITIONS):
            batch = producer.create_batch()
            for number in range(partition, records, PARTITIONS):
                sensor = f"s{number % SENSORS}"
                value = b'{"attributes":{"sensor":"%b","value":%d,"at":%f}}' % (sensor.encode(), number, time.time())
                while not batch.append(key=sensor.encode(), value=value, timestamp=None):
                    await producer.send_batch(batch, topic, partition=partition)
                    batch = producer.create_batch()
            await (await producer.send_batch(batch, topic, partition=partition))
