"""The ingress topic in a real Kafka: made, written, read, committed, shortened, taken away."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.structs import TopicPartition

from braid.config import Settings
from coordinator.kafka import KafkaServer
from services.connpoint.committed import NOTE_LENGTH_MAX, Committed
from services.connpoint.ingress_topic import IngressTopic, LogLost, ToWrite, Unavailable
from services.connpoint.partitions import Record
from tests.kafka.producing import unique
from tests.kafka.test_mock_ingress import point
from tests.service.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]


def settings_for(bootstrap: str, topic: str, partitions: int = 4) -> Settings:
    ingress = {"log": "kafka", "topic": topic, "partitions": partitions}
    return Settings.model_validate({"kafka": {"bootstrap": bootstrap}, "ingress": ingress})


@contextlib.asynccontextmanager
async def opened(kafka: KafkaServer, topic: str, partitions: int = 4) -> AsyncIterator[IngressTopic]:
    """The first one makes four partitions, whatever others want."""
    made = IngressTopic("connpoint-1", settings_for(kafka.bootstrap, topic, partitions))
    async with asyncio.timeout(20):
        assert await made.open() == 4
        while True:  # the first consumer group of a Kafka that has just begun takes a moment
            try:
                await made.committed()
                break
            except Unavailable:
                await asyncio.sleep(0.1)
    try:
        yield made
    finally:
        await made.close()


def to_write(*values: bytes) -> list[ToWrite]:
    return [ToWrite(b"publisher", value, 1000 + n) for n, value in enumerate(values)]


async def read(topic: IngressTopic, count: int) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    async with asyncio.timeout(20):
        while sum(map(len, found.values())) < count:
            for partition, records in (await topic.read(100, 0.5)).items():
                found.setdefault(partition, []).extend(records)
    return found


async def test_what_is_written_is_read_in_its_order(running_kafka: KafkaServer) -> None:
    name = unique("ingress")
    async with opened(running_kafka, name) as one, opened(running_kafka, name, partitions=9) as other:
        assert await one.write(2, to_write(b"a", b"b")) == 1
        assert await other.write(2, to_write(b"c")) == 2
        assert await one.write(3, to_write(b"d")) == 0
        assert await one.bounds([1, 2]) == {1: (0, 0), 2: (0, 3)}
        assert [await one.first_written_ms(partition) for partition in (1, 2)] == [None, 1000]
        one.assign({2: 1, 3: 0, 0: 0})
        assert await read(one, 3) == {
            2: [Record(1, 1001, b"b"), Record(2, 1000, b"c")],
            3: [Record(0, 1000, b"d")],
        }
        one.assign({2: 0})
        assert [record.value for record in (await read(one, 3))[2]] == [b"a", b"b", b"c"]


async def test_a_record_may_be_as_large_as_a_batch(running_kafka: KafkaServer) -> None:
    async with opened(running_kafka, unique("ingress")) as topic:
        large = b"x" * 2_000_000
        await topic.write(0, to_write(large))
        topic.assign({0: 0})
        assert (await read(topic, 1))[0][0].value == large
        with pytest.raises(Unavailable, match="MessageSizeTooLarge"):
            await topic.write(0, to_write(b"x" * 5_000_000))
        assert await topic.write(0, to_write(b"next")) == 1


async def test_what_is_committed_is_found_by_another_one(running_kafka: KafkaServer) -> None:
    name = unique("ingress")
    committed = {1: Committed(7, 0x19A, ((9, 12), (15, 15))), 3: Committed(2, 0x19B)}
    async with opened(running_kafka, name) as one, opened(running_kafka, name) as other:
        one.assign({1: 0, 3: 0})
        await one.commit(committed)
        assert await other.committed() == committed
        many = Committed(10**9, 0x19A1B2C3D4E, tuple((10**9 + 3 * n, 10**9 + 3 * n + 1) for n in range(2000)))
        await one.commit({1: many})  # the longest note that there is
        found = (await other.committed())[1]
        assert found.confirmed == many.confirmed[: len(found.confirmed)]
        assert len(found.confirmed) > NOTE_LENGTH_MAX // 20


async def test_what_is_gone_is_told(running_kafka: KafkaServer) -> None:
    name = unique("ingress")
    async with opened(running_kafka, name) as topic:
        await topic.write(0, to_write(b"a", b"b", b"c"))
        admin = AIOKafkaAdminClient(bootstrap_servers=running_kafka.bootstrap)
        await admin.start()
        await admin.delete_records({TopicPartition(name, 0): RecordsToDelete(before_offset=2)})
        await admin.close()
        for position in (0, 5):
            topic.assign({0: position})
            with pytest.raises(LogLost) as raised:
                await read(topic, 1)
            assert raised.value.partitions == [0]
        assert await topic.bounds([0, 99]) == {0: (2, 3)}, "of those that are there"
        assert await topic.first_written_ms(0) == 1002
        topic.assign({0: 2})
        assert [record.value for record in (await read(topic, 1))[0]] == [b"c"]


async def test_a_write_waits_for_kafka_and_is_written_once(kafka: KafkaServer) -> None:
    kafka.start()
    async with opened(kafka, unique("ingress")) as topic:
        await topic.write(0, to_write(b"a"))
        kafka.kill()
        writing = asyncio.create_task(topic.write(0, to_write(b"b")))
        await asyncio.sleep(0.2)
        with pytest.raises(Unavailable):
            await topic.committed()
        assert not writing.done()
        await asyncio.to_thread(kafka.start)
        async with asyncio.timeout(20):
            assert await writing == 1
        assert await topic.write(0, to_write(b"c")) == 2
        topic.assign({0: 0})
        assert [record.value for record in (await read(topic, 3))[0]] == [b"a", b"b", b"c"]


async def test_a_topic_that_is_deleted_and_made_anew_is_written_and_read_on(running_kafka: KafkaServer) -> None:
    """More was in it than may wait in one partition; of the new one nothing is confirmed yet."""
    name = unique("ingress")
    async with point(running_kafka.bootstrap, name, partitions=1, backlog_batches_max=3, write_s_max=30) as here:
        for n in range(6):
            await here.publish("p", f"{n}")
            await until(lambda n=n: len(here.sent) == n + 1)  # type: ignore[misc]
            here.confirm(here.sent[-1])
        await until(lambda: 0 in here.log._committed)
        admin = AIOKafkaAdminClient(bootstrap_servers=running_kafka.bootstrap)
        await admin.start()
        await admin.delete_topics([name])
        await asyncio.sleep(1)
        await admin.create_topics([NewTopic(name, 1, 1)])
        await admin.close()
        for n in range(6, 12):
            await here.publish("p", f"{n}")
            await until(lambda n=n: here.ids()[-1] == f"{n}")  # type: ignore[misc]
            here.confirm(here.sent[-1])
        assert here.ids() == [f"{n}" for n in range(12)]
        assert here.sent[-1].origin != here.sent[0].origin
        assert [message.sequence for message in here.sent[6:]] == [1, 2, 3, 4, 5, 6]


async def test_without_kafka() -> None:
    topic = IngressTopic("connpoint-1", settings_for("127.0.0.1:1", "ingress"))
    began = time.monotonic()
    with pytest.raises(Unavailable, match="127"):
        await topic.open()
    assert time.monotonic() - began < 5
