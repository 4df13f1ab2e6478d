"""One topic that subscriptions are delivered to: takes what waits for it, in its order, and writes it.

    closed ──something waits──▶ sending ──nothing waits──▶ idle ──something waits──▶ sending
                                   │ ▲
                                   ▼ │ after a pause
                                 pausing (it failed)

Nothing is forgotten before Kafka has it. After a failure nobody knows what Kafka has, so the writer is closed, and the
next one is told where it stands.
"""

import asyncio
import time
from typing import Literal, Protocol

import structlog
from aiokafka.errors import KafkaError

from braid import metrics
from services.connpoint.kafka_clients import text_of
from services.connpoint.sinks.entries import Entry, decode_entry
from services.connpoint.sinks.outbox import SinkOutbox
from services.connpoint.sinks.writing import TooLarge

log = structlog.get_logger()

_PAUSE_S = 0.25  # after a failure; doubled each time up to the most
_PAUSE_S_MAX = 15.0
_PAGE_MAX = 2_000  # entries that are written together
_PAGE_BYTES_MAX = 4 * 1024 * 1024


class Writer(Protocol):
    """What is needed of `writing.TopicWriter`."""

    async def open(self) -> int: ...
    async def close(self) -> None: ...
    async def write(self, entries: list[tuple[int, Entry]]) -> None: ...


class Lane:
    def __init__(self, topic: str, outbox: SinkOutbox, writer: Writer) -> None:
        self.topic = topic
        self.state: Literal["idle", "sending", "pausing"] = "idle"
        self.failures = 0  # since the last success
        self.delivered = 0
        self.last_success_s = self.last_failure_s = self.next_attempt_s = 0.0
        self.last_error = ""
        self._line = outbox.line(topic)
        self._outbox = outbox
        self._writer = writer
        self._too_large: set[int] = set()
        self._news = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def wake(self) -> None:
        self._news.set()

    async def close(self) -> None:
        """What is under way is written, or found and written after the next start."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._until_something_waits()
            self.state = "sending"
            try:
                await self._open()
                while True:
                    await self._write_page()
                    self.state = "idle"
                    await self._until_something_waits()
                    self.state = "sending"
            except (KafkaError, OSError, TimeoutError, TooLarge) as error:
                self._on_failure(text_of(error))
            except Exception as error:
                # Our own mistake, or aiokafka's: it begins anew, as after any other failure.
                log.exception("writing to Kafka failed", topic=self.topic)
                self._on_failure(text_of(error))
            finally:
                await self._writer.close()
            await asyncio.sleep(max(0.0, self.next_attempt_s - time.time()))

    def _on_failure(self, reason: str) -> None:
        pause_s = min(_PAUSE_S * 2.0 ** min(self.failures, 10), _PAUSE_S_MAX)
        self.failures += 1
        self.state, self.last_error, self.last_failure_s = "pausing", reason, time.time()
        self.next_attempt_s = self.last_failure_s + pause_s
        metrics.KAFKA_SINK_FAILURES.labels(self.topic).inc()
        log.warning("a topic cannot be written", topic=self.topic, reason=reason)

    async def _until_something_waits(self) -> None:
        while not self._line.waiting:
            self._news.clear()
            await self._news.wait()

    async def _open(self) -> None:
        """What Kafka has already is forgotten here."""
        position = await self._writer.open()
        while self._line.waiting and self._line.first <= position:
            page = await self._outbox.read(self.topic, _PAGE_MAX, _PAGE_BYTES_MAX)
            self._outbox.forget(self.topic, {number: len(encoded) for number, encoded in page if number <= position})

    async def _write_page(self) -> None:
        page = await self._outbox.read(self.topic, _PAGE_MAX, _PAGE_BYTES_MAX)
        entries = [(number, decode_entry(encoded)) for number, encoded in page if number not in self._too_large]
        if entries:
            await self._write(entries)
        self._outbox.forget(self.topic, {number: len(encoded) for number, encoded in page})
        self._too_large.difference_update([number for number, _ in page])

    async def _write(self, entries: list[tuple[int, Entry]]) -> None:
        try:
            await self._writer.write(entries)
        except TooLarge as error:
            self._too_large.add(error.number)
            metrics.KAFKA_SINK_RECORDS.labels(self.topic, "too large").inc()
            log.error("a publication is too large for its topic, and is left out", topic=self.topic, detail=str(error))
            raise
        self.failures, self.last_error, self.last_success_s = 0, "", time.time()
        self.delivered += len(entries)
        metrics.KAFKA_SINK_RECORDS.labels(self.topic, "written").inc(len(entries))
        metrics.KAFKA_SINK_DELAY_SECONDS.observe(max(0.0, self.last_success_s - entries[0][1].received_ms / 1000))
