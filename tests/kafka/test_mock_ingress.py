"""The ingress log before a mock cluster, without slices around it: written, read, sent, confirmed, committed."""

import contextlib
import time
from collections.abc import AsyncIterator

import msgspec
import pytest

from braid.config import Settings
from braid.content import Content
from braid.messages import Confirmed, Publications, Send
from braid.topology import Configuration
from services.connpoint.ingress_topic import IngressTopic
from services.connpoint.kafka_log import KafkaLog
from services.connpoint.publishing import Publishing
from tests.kafka.conftest import MockCluster
from tests.kafka.producing import unique
from tests.service.ticking import ticked
from tests.service.waiting import until

pytestmark = pytest.mark.slow  # the mock cluster takes a moment to make topics

CONFIGURATION = Configuration(1, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",))


class Point:
    """The publishing side of a connection point, with what it sent."""

    def __init__(self, bootstrap: str, topic: str, **ingress: object) -> None:
        settings = Settings.model_validate(
            {
                "kafka": {"bootstrap": bootstrap},
                "ingress": {"log": "kafka", "topic": topic, "commit_s": 0.05, **ingress},
            }
        )
        self.sent: list[Publications] = []
        self.log = KafkaLog("connpoint-1", settings, IngressTopic("connpoint-1", settings), self._perform)
        self.publishing = Publishing("connpoint-1", 0xA, self.log, settings)
        self.log.on_configuration(CONFIGURATION)

    def _perform(self, sends: list[Send]) -> None:
        self.sent += [message for send in sends for message in send.messages]

    async def publish(self, publisher: str, *ids: str, wait: bool = True) -> None:
        await self.publishing.publish(publisher, [Content(id=id) for id in ids], wait=wait, trace=False)

    def confirm(self, *messages: Publications) -> None:
        for message in messages:
            self.publishing.on_confirmed(Confirmed(1, message.origin, [message.sequence]), "exitpoint-1")

    def ids(self) -> list[str]:
        return [msgspec.json.decode(content)["id"] for message in self.sent for content in message.contents]


@contextlib.asynccontextmanager
async def point(bootstrap: str, topic: str, **ingress: object) -> AsyncIterator[Point]:
    made = Point(bootstrap, topic, **ingress)
    await made.log.open()
    await made.log.prepare()
    made.log.on_connpoints(["connpoint-1"])
    try:
        async with ticked(made.publishing.on_tick, time.monotonic):
            yield made
    finally:
        await made.log.close()


async def test_what_is_accepted_is_read_sent_and_after_a_restart_only_what_was_not_confirmed(
    mock_kafka: MockCluster,
) -> None:
    topic = unique("ingress")
    mock_kafka.make_topics(topic)
    async with point(mock_kafka.bootstrap, topic) as here:
        for n in range(3):
            await here.publish("p", f"{n}")
        await until(lambda: here.ids() == ["0", "1", "2"])
        assert [message.sequence for message in here.sent] == [1, 2, 3]
        here.confirm(here.sent[0], here.sent[2])
    async with point(mock_kafka.bootstrap, topic) as again:
        await until(lambda: again.ids() == ["1"])
        assert (again.sent[0].origin, again.sent[0].sequence) == (here.sent[1].origin, 2)
        await again.publish("p", "3")
        await until(lambda: again.ids() == ["1", "3"])


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_what_is_compressed_in_a_topic_is_read(mock_kafka: MockCluster, codec: str) -> None:
    """By its producer, or by a broker that is told to: `compression.type` is not for us to choose."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    name = unique("ingress")
    mock_kafka.make_topics(name)
    producer = confluent_kafka.Producer({"bootstrap.servers": mock_kafka.bootstrap, "compression.type": codec})
    producer.produce(name, b"x" * 1000, partition=1)
    producer.flush(10)
    settings = {"kafka": {"bootstrap": mock_kafka.bootstrap}, "ingress": {"log": "kafka", "topic": name}}
    topic = IngressTopic("connpoint-1", Settings.model_validate(settings))
    await topic.open()
    try:
        topic.assign({1: 0})
        found = await topic.read(10, 10.0)
        assert [record.value for record in found[1]] == [b"x" * 1000]
    finally:
        await topic.close()
