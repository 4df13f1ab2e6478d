"""One topic that subscriptions are delivered to: takes what waits for it, in its order, and writes it.

    idle ──something waits──▶ sending ──nothing waits──▶ idle
                               │   ▲
                     it failed ▼   │ after a pause
                              pausing

Nothing is forgotten before Kafka has it. After a failure nobody knows what Kafka has, so the writer is closed, and the
next one says where it stands.
"""

import asyncio
import contextlib
import time
from typing import Literal, Protocol

import structlog
from aiokafka.errors import KafkaError

from braid import metrics
from braid.kafka_clients import text_of
from services.connpoint.sinks.outbox import Page, SinkOutbox
from services.connpoint.sinks.writing import Refused, TooLarge

log = structlog.get_logger()

_PAUSE_S = 0.25  # after a failure; doubled each time up to the most
_PAUSE_S_MAX = 15.0
_PAGE_BLOCKS_MAX = 2_000  # that are written together
_PAGE_BYTES_MAX = 4 * 1024 * 1024
_ATTEMPT_S = 30.0  # to begin, or to write a page; then it has failed
_LAST_PAGE_S = 3.0  # for the page that is under way when it is closed


class Writer(Protocol):
    """What is needed of `writing.TopicWriter`."""

    async def open(self) -> int: ...
    async def close(self) -> None: ...
    async def write(self, page: Page, left_out: set[int]) -> None: ...


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
        self._is_closing = False  # no further page is begun
        self._between_pages = asyncio.Event()
        self._between_pages.set()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def wake(self) -> None:
        self._news.set()

    async def close(self) -> None:
        """What is under way is written, or found and written after the next start. It is waited for a little: without
        transactions nobody would know then that it was written, and it would be there twice.
        """
        self._is_closing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_PAGE_S):
                await self._between_pages.wait()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._until_something_waits()
            try:
                await self._open()
                while True:
                    await self._until_something_waits()
                    await self._write_page()
            except Refused as error:
                self._on_refused(error)
            except (KafkaError, OSError, TimeoutError) as error:
                self._on_failure(text_of(error))
            except Exception as error:
                # Our own mistake, or aiokafka's: it begins anew, as after any other failure.
                log.exception("writing to Kafka failed", topic=self.topic)
                self._on_failure(text_of(error))
            finally:
                await self._writer.close()
            await asyncio.sleep(max(0.0, self.next_attempt_s - time.time()))

    def _on_refused(self, error: Refused) -> None:
        """Each time less is written at once, or one is left out: it goes on at once, and comes to an end."""
        if isinstance(error, TooLarge):
            self._too_large.add(error.number)
            log.error(
                "a publication is too large for its topic, and is left out", topic=self.topic, number=error.number
            )
        else:
            log.info("fewer records are written at once", topic=self.topic, reason=str(error))

    def _on_failure(self, reason: str) -> None:
        pause_s = min(_PAUSE_S * 2.0 ** min(self.failures, 10), _PAUSE_S_MAX)
        self.failures += 1
        self.state, self.last_error, self.last_failure_s = "pausing", reason, time.time()
        self.next_attempt_s = self.last_failure_s + pause_s
        metrics.KAFKA_SINK_FAILURES.labels(self.topic).inc()
        log.warning("a topic cannot be written", topic=self.topic, reason=reason)

    async def _until_something_waits(self) -> None:
        while self._is_closing or not self._line.waiting:
            self.state = "idle"
            self._news.clear()
            await self._news.wait()
        self.state = "sending"

    async def _open(self) -> None:
        """What Kafka has already is forgotten here."""
        async with asyncio.timeout(_ATTEMPT_S):
            position = await self._writer.open()
        while self._line.waiting and self._line.first <= position:
            page = await self._next_page(blocks_max=1)
            if page.last > position:
                break
            self._outbox.forget(self.topic, page)

    async def _write_page(self) -> None:
        self._between_pages.clear()
        try:
            await self._write_next(await self._next_page(_PAGE_BLOCKS_MAX))
        finally:
            self._between_pages.set()

    async def _write_next(self, page: Page) -> None:
        left_out = {number for number in self._too_large if number <= page.last}
        async with asyncio.timeout(_ATTEMPT_S):
            await self._writer.write(page, left_out)
        self._outbox.forget(self.topic, page)
        self._too_large -= left_out
        self._on_written(page, len(left_out))

    async def _next_page(self, blocks_max: int) -> Page:
        page = await self._outbox.read(self.topic, blocks_max, _PAGE_BYTES_MAX)
        assert page.blocks, "what waits is not there"
        return page

    def _on_written(self, page: Page, left_out: int) -> None:
        written = page.count - left_out
        self.failures, self.last_error, self.last_success_s = 0, "", time.time()
        self.delivered += written
        metrics.KAFKA_SINK_RECORDS.labels(self.topic, "written").inc(written)
        metrics.KAFKA_SINK_RECORDS.labels(self.topic, "too large").inc(left_out)
        metrics.KAFKA_SINK_DELAY_SECONDS.observe(max(0.0, self.last_success_s - page.blocks[0][1].received_ms / 1000))
