"""One topic that subscriptions are delivered to: takes what waits for it, in its order, and writes it.

    closed ──something waits──▶ opening ──position known──▶ writing ──nothing waits──▶ idle ──something waits──▶ writing
       ▲                          │                            │
       └────── after a pause ◀────┴───────── it failed ────────┘

Nothing is forgotten before Kafka has it. After a failure nobody knows what Kafka has, so it is closed, and asked.
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
_PAGE_MAX = 2_000  # entries of one transaction
_PAGE_BYTES_MAX = 4 * 1024 * 1024

State = Literal["closed", "idle", "writing", "pausing"]


class Writer(Protocol):
    """What is needed of `writing.TopicWriter`."""

    async def open(self) -> int: ...
    async def close(self) -> None: ...
    async def write(self, entries: list[tuple[int, Entry]]) -> None: ...


class Lane:
    def __init__(self, topic: str, outbox: SinkOutbox, writer: Writer) -> None:
        self.topic = topic
        self.state: State = "closed"
        self.last_error = ""
        self._outbox = outbox
        self._writer = writer
        self._news = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def wake(self) -> None:
        self._news.set()

    async def close(self) -> None:
        """What is under way is written, or found and written after the next start."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        pause_s = _PAUSE_S
        while True:
            await self._until_something_waits()
            try:
                await self._open()
                while True:
                    self.state = "writing"
                    await self._write_page()
                    pause_s, self.last_error = _PAUSE_S, ""
                    self.state = "idle"
                    await self._until_something_waits()
            except (KafkaError, OSError, TimeoutError) as error:
                self._on_failure(text_of(error))
            except Exception as error:
                # Our own mistake, or aiokafka's: it begins anew, as after any other failure.
                log.exception("writing to Kafka failed", topic=self.topic)
                self._on_failure(text_of(error))
            finally:
                await self._writer.close()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)

    def _on_failure(self, reason: str) -> None:
        self.state, self.last_error = "pausing", reason
        metrics.KAFKA_SINK_FAILURES.labels(self.topic).inc()
        log.warning("a topic cannot be written", topic=self.topic, reason=reason)

    async def _until_something_waits(self) -> None:
        while not self._outbox.lines[self.topic].waiting:
            self._news.clear()
            await self._news.wait()

    async def _open(self) -> None:
        """What Kafka has already is forgotten here."""
        position = await self._writer.open()
        line = self._outbox.lines[self.topic]
        while line.waiting and line.first <= position:
            page = await self._outbox.read(self.topic, _PAGE_MAX, _PAGE_BYTES_MAX)
            known = {number: len(encoded) for number, encoded in page if number <= position}
            self._outbox.forget(self.topic, known)

    async def _write_page(self) -> None:
        page = await self._outbox.read(self.topic, _PAGE_MAX, _PAGE_BYTES_MAX)
        if not page:
            return
        entries = [(number, decode_entry(encoded)) for number, encoded in page]
        sizes = {number: len(encoded) for number, encoded in page}
        try:
            await self._writer.write(entries)
        except TooLarge as error:
            ...
            raise
        metrics.KAFKA_SINK_RECORDS.labels(self.topic, "written").inc(len(entries))
        metrics.KAFKA_SINK_DELAY_SECONDS.observe(max(0.0, time.time() - entries[0][1].received_ms / 1000))
        self._outbox.forget(self.topic, sizes)
