"""Sources before a mock cluster, without slices around them: polled, noted, sent, confirmed, committed."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from braid.config import Settings, load
from braid.messages import Confirmed, Publications, Send
from braid.topology import Configuration
from services.connpoint.sources.notes import Note, read_note
from services.connpoint.sources.partitions import Partition
from services.connpoint.sources.reading import Sources
from tests.kafka.conftest import MockCluster
from tests.kafka.producing import headers_of, producing, read_topic, unique
from tests.service.waiting import until

pytestmark = pytest.mark.slow  # the mock cluster takes three seconds to let a member join its group

CONFIGURATION = Configuration(1, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",))


class Reader:
    """The sources of one connection point; what they send is kept."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.batches: list[Publications] = []
        self.sources = Sources(name, settings, self._perform)

    def _perform(self, sends: list[Send]) -> None:
        self.batches += [message for send in sends for message in send.messages]

    @property
    def contents(self) -> list[Any]:
        return [json.loads(content) for batch in self.batches for content in batch.contents]

    def confirm(self) -> None:
        for batch in self.batches:
            self.sources.on_confirmed(Confirmed(1, batch.origin, [batch.sequence]), "exitpoint-1")


@contextlib.asynccontextmanager
async def reading(name: str, settings: Settings) -> AsyncIterator[Reader]:
    reader = Reader(name, settings)
    reader.sources.on_configuration(CONFIGURATION)
    reader.sources.start()
    reader.sources.on_registration(True)
    try:
        yield reader
    finally:
        await reader.sources.close()


def settings_of(mock_kafka: MockCluster, topic: str) -> Settings:
    kafka = {"bootstrap": mock_kafka.bootstrap, "group": topic, "sources": [{"topic": topic}], "commit_s": 0.05}
    return load(overrides={"kafka": kafka}).settings


async def write(mock_kafka: MockCluster, topic: str, *values: bytes) -> None:
    async with producing(mock_kafka.bootstrap) as producer:
        for value in values:
            await producer.send_and_wait(topic, value, partition=0)


async def test_records_are_sent_and_committed_when_they_are_confirmed(mock_kafka: MockCluster) -> None:
    topic = unique("air")
    mock_kafka.make_topics(topic, f"{topic}.dead-letter")
    settings = settings_of(mock_kafka, topic)
    async with reading("connpoint-1", settings) as reader:
        await write(mock_kafka, topic, b'{"id":"a"}', b"{", b'{"id":"b"}')
        await until(lambda: len(reader.contents) == 2)
        assert [one["id"] for one in reader.contents] == ["a", "b"]
        (letter,) = await read_topic(mock_kafka.bootstrap, f"{topic}.dead-letter", 1)
        assert headers_of(letter)["braid-offset"] == b"1"
        reader.confirm()
        note = await committed(settings, Partition(topic, 0), 3)
        assert note.cuts == ()


async def committed(settings: Settings, partition: Partition, offset: int) -> Note:
    """What is committed, when it has come that far."""
    place = TopicPartition(*partition)
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap)
    await admin.start()
    try:
        async with asyncio.timeout(10):
            while True:
                found = await admin.list_consumer_group_offsets(settings.kafka.group, partitions=[place])
                if found[place].offset == offset:
                    return read_note(offset, found[place].metadata)
                await asyncio.sleep(0.02)
    finally:
        await admin.close()
