"""Samples into a topic of Kafka, each with the name of its slice as the key.

    away ──connected──▶ sending ──any error──▶ away

While Kafka is away samples wait, as many as the backlog holds. What was sent and not confirmed is sent again, so a
sample may be in the topic twice; readers know it by slice, incarnation and number.
"""

import asyncio
import contextlib
from typing import Any, NamedTuple

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, NoError, TopicAlreadyExistsError, for_code

from braid import metrics
from braid.kafka_clients import stop, text_of
from braid.telemetry.backlog import Backlog, Line

log = structlog.get_logger()

_SENT_AT_ONCE = 100
_SENDING_S_MAX = 10.0
_CLOSING_S_MAX = 2.0
_BACKOFF_S_MIN = 0.5
_BACKOFF_S_MAX = 10.0
_FAILURES = (KafkaError, OSError, TimeoutError)


class Topic(NamedTuple):
    name: str
    replication: int  # this and the next when it has to be made
    retention_s: float


class KafkaSink:
    def __init__(self, bootstrap: str, topic: Topic, slice: str, *, sending_s_max: float = _SENDING_S_MAX) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._key = slice.encode()
        self._sending_s_max = sending_s_max
        self._backlog = Backlog()
        self._news = asyncio.Event()
        self._producer: AIOKafkaProducer | None = None  # while it is connected
        self._running: asyncio.Task[None] | None = None
        self._fails = False

    async def open(self) -> None:
        self._running = asyncio.create_task(self._run())

    def put(self, line: Line) -> None:
        self._backlog.put(line)
        self._news.set()

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait((self._running,))
        with contextlib.suppress(*_FAILURES):
            async with asyncio.timeout(_CLOSING_S_MAX):
                await self._send_all()
        if self._backlog:
            log.warning("telemetry was not written to the end", samples=len(self._backlog))
        await self._disconnect()

    async def _run(self) -> None:
        pause_s = _BACKOFF_S_MIN
        while True:
            try:
                await self._connect()
                await self._send_all()
                pause_s = _BACKOFF_S_MIN
                await self._news.wait()
            except Exception as error:  # also a mistake of ours or of aiokafka: it begins anew
                self._note_failure(error)
                await self._disconnect()
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _BACKOFF_S_MAX)

    async def _connect(self) -> None:
        if self._producer is None:
            await self._make_topic()
            self._producer = AIOKafkaProducer(**self._client())
            await self._producer.start()

    async def _make_topic(self) -> None:
        """Unless it is there."""
        topic = self._topic
        admin = AIOKafkaAdminClient(**self._client())
        try:
            await admin.start()
            if topic.name not in await admin.list_topics():
                kept = {"retention.ms": str(int(1000 * topic.retention_s))}
                wanted = NewTopic(topic.name, 1, topic.replication, topic_configs=kept)
                made = await admin.create_topics([wanted])
                for name, code, reason in made.topic_errors:
                    if code not in (NoError.errno, TopicAlreadyExistsError.errno):  # another slice may have been faster
                        raise KafkaError(f"the topic {name} cannot be made: {reason or for_code(code).__name__}")
        finally:
            await stop(admin, _CLOSING_S_MAX)

    def _client(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self._bootstrap,
            "client_id": f"braid-{self._key.decode()}",
            "request_timeout_ms": int(1000 * self._sending_s_max),
        }

    async def _send_all(self) -> None:
        self._news.clear()
        while self._backlog and self._producer is not None:
            lines = self._backlog.take(_SENT_AT_ONCE)
            sends = [self._producer.send_and_wait(self._topic.name, line.text, key=self._key) for line in lines]
            try:
                async with asyncio.timeout(self._sending_s_max):
                    await asyncio.gather(*sends)
            except BaseException:
                self._backlog.put_back(lines)
                raise
            self._fails = False
            metrics.TELEMETRY_SAMPLES.labels("kafka").inc(len(lines))

    async def _disconnect(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await stop(producer, _CLOSING_S_MAX)

    def _note_failure(self, error: Exception) -> None:
        if not self._fails:
            log.warning("telemetry cannot be written", sink="kafka", error=text_of(error))
        self._fails = True
