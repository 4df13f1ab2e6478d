"""Clients of Kafka that do not end by themselves, and whoever waits for them; with clients in memory."""

import asyncio
from typing import Any, ClassVar

import pytest
from aiokafka.errors import KafkaConnectionError

from braid import kafka_clients
from braid.config import Settings
from braid.kafka_clients import stop
from braid.telemetry import kafka_sink
from braid.telemetry.backlog import Line
from braid.telemetry.kafka_sink import KafkaSink, Topic
from services.connpoint import ingress_topic
from services.connpoint.ingress_topic import IngressTopic, ToWrite, Unavailable
from tests.service.waiting import until


class Connections:
    def __init__(self) -> None:
        self.are_open = True

    async def close(self) -> None:
        self.are_open = False


class Sender:
    def __init__(self) -> None:
        self.sender_task = asyncio.ensure_future(asyncio.Event().wait())


class FakeProducer:
    """Partition 0 fails, of the others nothing is heard. It does not stop while something is under way."""

    made: ClassVar["list[FakeProducer]"] = []

    def __init__(self, **_: Any) -> None:
        self.client = Connections()
        self._sender = Sender()
        self._under_way: list[asyncio.Future[Any]] = []
        self.fails: Exception | None = None
        FakeProducer.made.append(self)

    async def start(self) -> None:
        """It is there."""

    async def stop(self) -> None:
        await asyncio.Event().wait() if self._under_way else await self.client.close()

    def create_batch(self) -> "FakeProducer":
        return self

    def append(self, **_: Any) -> bool:
        return True

    async def send_batch(self, _batch: Any, _topic: str, *, partition: int) -> "asyncio.Future[Any]":
        if partition == 0:
            raise KafkaConnectionError("refused")
        self._under_way.append(asyncio.get_running_loop().create_future())
        return self._under_way[-1]

    async def send_and_wait(self, _topic: str, _value: bytes, key: bytes) -> None:
        if self.fails is not None:
            self._under_way.append(asyncio.get_running_loop().create_future())
            raise self.fails


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_clients, "_STOP_S", 0.01)
    monkeypatch.setattr(kafka_sink, "_CLOSING_S_MAX", 0.01)
    monkeypatch.setattr(kafka_sink, "_BACKOFF_S_MIN", 0.01)
    monkeypatch.setattr(FakeProducer, "made", [])


async def test_a_client_that_does_not_stop_loses_its_connections() -> None:
    producer = FakeProducer()
    await producer.send_batch(None, "out", partition=1)
    await stop(producer, 0.01)
    assert not producer.client.are_open
    await until(producer._sender.sender_task.cancelled)


async def test_one_that_fails_to_stop_is_stopped_all_the_same() -> None:
    """Whoever stops it is about to begin anew, and must not end instead."""

    class Broken:
        async def close(self) -> None:
            raise AssertionError("a mistake of aiokafka's")

    await stop(Broken(), 1.0)


async def test_a_write_does_not_wait_for_a_producer_that_was_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or publishers would be refused for ever, because a write was under way for so long."""
    monkeypatch.setattr(ingress_topic, "AIOKafkaProducer", FakeProducer)
    topic = IngressTopic("connpoint-1", Settings.model_validate({"kafka": {"bootstrap": "nowhere:9"}}))
    record = ToWrite(b"publisher", b"value", 1000)
    waiting = asyncio.create_task(topic.write(1, [record]))
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="refused"):
        await topic.write(0, [record])
    async with asyncio.timeout(5):
        with pytest.raises(Unavailable, match="another write failed"):
            await waiting


async def test_a_topic_that_was_just_made_is_waited_for() -> None:
    class Admin:
        """The broker that is asked has not heard of it at first."""

        answers: ClassVar[list[list[int]]] = [[], [], [0, 1]]

        async def list_topics(self) -> list[str]:
            return [topic.name]

        async def describe_topics(self, _: list[str]) -> list[dict[str, list[int]]]:
            return [{"partitions": self.answers.pop(0)}]

    settings = {"kafka": {"bootstrap": "nowhere:9"}, "ingress": {"partitions": 2}}
    topic = IngressTopic("connpoint-1", Settings.model_validate(settings))
    topic._admin = Admin()
    assert await topic._ensure_topic() == 2


async def test_telemetry_begins_anew_after_any_failure_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def there(_: KafkaSink) -> None:
        """The topic."""

    monkeypatch.setattr(kafka_sink, "AIOKafkaProducer", FakeProducer)
    monkeypatch.setattr(KafkaSink, "_make_topic", there)
    sink = KafkaSink("nowhere:9", Topic("telemetry", 1, 3600.0), "matcher-1")
    await sink.open()
    for failure in (KafkaConnectionError("away"), AssertionError("a mistake of aiokafka's")):
        await until(lambda: sink._producer is not None)
        producer = FakeProducer.made[-1]
        producer.fails = failure
        sink.put(Line(1, b"{}"))
        await until(lambda before=producer: FakeProducer.made[-1] is not before)  # type: ignore[misc]
        assert not producer.client.are_open
    await until(lambda: not sink._backlog)
    await sink.close()
