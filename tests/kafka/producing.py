"""Topics, and records in them."""

import contextlib
import uuid
from collections.abc import AsyncIterator, Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic


async def make_topics(bootstrap: str, *topics: str, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=configs or {}) for topic in topics])
    finally:
        await admin.close()


def unique(name: str) -> str:
    """Tests share a broker: names that nobody else has."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


@contextlib.asynccontextmanager
async def producing(bootstrap: str) -> AsyncIterator[AIOKafkaProducer]:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
        yield producer


async def read_topic(bootstrap: str, topic: str, count: int, timeout_s: float = 20.0, **arguments: Any) -> list[Any]:
    """The first records of a topic, committed ones only; fewer when there are no more in that time."""
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed", **arguments
    )
    found: list[Any] = []
    async with consumer:
        while len(found) < count:
            polled = await consumer.getmany(timeout_ms=int(timeout_s * 1000))
            if not polled:
                break
            found += [record for records in polled.values() for record in records]
    return found


def headers_of(record: Any) -> dict[str, bytes]:
    headers: Iterable[tuple[str, bytes]] = record.headers
    return dict(headers)
