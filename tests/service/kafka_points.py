"""Connection points whose log is a topic in memory, and what tests do with them."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from braid.config import Settings
from braid.content import Content
from braid.messages import Confirmed, Publications, Send
from braid.topology import Configuration
from services.connpoint.kafka_log import KafkaLog
from services.connpoint.publishing import Publishing
from tests.service.fake_topic import FakeTopic, Logs
from tests.service.ticking import ticked
from tests.service.waiting import TIMEOUT_S

PARTITIONS = 8
ONE, OTHER = "connpoint-1", "connpoint-2"
CONFIGURATION = Configuration(1, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",))


class Point:
    """The publishing side of a connection point, with what it sent."""

    def __init__(self, name: str, logs: Logs, settings: Settings) -> None:
        self.sent: list[Publications] = []
        self.topic = FakeTopic(logs)
        self.log = KafkaLog(name, settings, self.topic, self.perform)
        self.publishing = Publishing(name, 0xA, self.log, settings)
        self.log.on_configuration(CONFIGURATION)

    def perform(self, sends: list[Send]) -> None:
        self.sent += [message for send in sends for message in send.messages]

    async def publish(self, publisher: str, *ids: str, wait: bool = True, trace: bool = False) -> list[str]:
        contents = [Content(id=id) for id in ids]
        return await self.publishing.publish(publisher, contents, wait=wait, trace=trace)

    def confirm(self, *messages: Publications) -> None:
        for message in messages:
            self.publishing.on_confirmed(Confirmed(1, message.origin, [message.sequence]), "exitpoint-1")

    def ids(self) -> list[str]:
        return [msgspec.json.decode(content)["id"] for message in self.sent for content in message.contents]

    async def until_sent(self, *ids: str) -> None:
        await until(lambda: sorted(self.ids()) == sorted(ids), lambda: f"sent {self.ids()}")


async def until(condition: Callable[[], bool], told: Callable[[], str] = str) -> None:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                await asyncio.sleep(0.001)
    except TimeoutError:
        pytest.fail(told())


@asynccontextmanager
async def point(
    logs: Logs, name: str = ONE, connpoints: tuple[str, ...] = (ONE,), **ingress: Any
) -> AsyncIterator[Point]:
    kafka = {"bootstrap": "kafka:9092"}
    settings = Settings.model_validate({"ingress": {"log": "kafka", "commit_s": 0.001, **ingress}, "kafka": kafka})
    made = Point(name, logs, settings)
    await made.log.open()
    await made.log.prepare()
    made.log.on_connpoints(connpoints)
    try:
        async with ticked(made.publishing.on_tick, time.monotonic):
            yield made
    finally:
        await made.log.close()
