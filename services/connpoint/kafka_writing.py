"""Publications on their way into Kafka: whatever is ready for a partition is one write, one write after the other.

Invariants:
- What is queued for a partition is written in its order; `done` is told in that order.
- What waits is bounded by the window (`has_room`); how long it waits, by `ingress.write_s_max`.
- A write that fails, or takes longer, fails for all that wait for that partition: what comes behind it was sent later.
  What is not answered for so long leaves the window to others; there is one such write for each partition at most.
- A partition for which nobody answered is doubtful until it takes a write: for a while nothing is queued for it, then
  one batch at a time. So one without a leader does not fill the window again whenever a write to it is given up.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from braid import metrics
from braid.config import Ingress
from services.connpoint.ingress_topic import WRITE_BYTES_MAX, ToWrite, Unanswered, Unavailable
from services.connpoint.log import Done

log = structlog.get_logger()

_RECORDS_MAX = 1000  # of one write
_RECORD_OVERHEAD_BYTES = 64
_DOUBT_S = 5.0  # behind a write that nobody answered, until the next one is tried

Write = Callable[[int, list[ToWrite]], Awaitable[int]]  # partition, records; the offset of the last one


class _Waiting(msgspec.Struct, eq=False):
    record: ToWrite
    publications: int
    done: Done | None
    since_s: float
    is_counted: bool = True  # in the window


class _Line:
    """What waits for one partition."""

    def __init__(self) -> None:
        self.queued: list[_Waiting] = []
        self.writing: list[_Waiting] = []
        self.task: asyncio.Task[None] | None = None
        self.end = 0  # the offset behind the last one written
        self.doubtful_until_s = 0.0  # when it may be tried again; 0 when it took the last write


class KafkaWriting:
    def __init__(self, write: Write, settings: Ingress) -> None:
        self._write = write
        self._settings = settings
        self._lines: dict[int, _Line] = {}
        self.publications = 0  # queued or being written
        self.bytes = 0
        self.failures = 0
        self._answered_s = -math.inf  # when the last one was written

    def has_room(self, publications: int, size: int) -> bool:
        if self.publications == 0:
            return True
        return (
            self.publications + publications <= self._settings.window_publications_max
            and self.bytes + size <= self._settings.window_bytes_max
        )

    def queue(self, partition: int, record: ToWrite, publications: int, done: Done) -> None:
        line = self._lines.setdefault(partition, _Line())
        line.queued.append(_Waiting(record, publications, done, time.monotonic()))
        self.publications += publications
        self.bytes += len(record.value)
        if line.task is None:
            line.task = asyncio.get_running_loop().create_task(self._run(partition, line))

    def end_of(self, partition: int) -> int:
        """The offset behind the last record that was written from here."""
        line = self._lines.get(partition)
        return 0 if line is None else line.end

    def forget_end(self, partition: int) -> None:
        """It was the end of another log, or of one of which nobody knows any more how far it is confirmed."""
        if partition in self._lines:
            self._lines[partition].end = 0

    def waits_s(self, partition: int) -> float:
        """For how long the write to it is under way."""
        line = self._lines.get(partition)
        return time.monotonic() - line.writing[0].since_s if line is not None and line.writing else 0.0

    def is_doubtful(self, partition: int) -> bool:
        """Whether nobody answered for it when it was last tried, and it is not its turn to be tried again."""
        line = self._lines.get(partition)
        if line is None or not line.doubtful_until_s:
            return False
        return time.monotonic() < line.doubtful_until_s or bool(line.writing or line.queued)

    def silent_s(self) -> float:
        """For how long no write is answered, to whichever partition, while there is one."""
        longest_s = max(map(self.waits_s, self._lines), default=0.0)
        return min(longest_s, time.monotonic() - self._answered_s)

    def give_up(self, partition: int, reason: str) -> None:
        """Tells everybody who waits for it. What is being written may be written all the same; nothing else will."""
        line = self._lines.get(partition)
        if line is None:
            return
        failure = Unavailable(reason)
        queued, line.queued = line.queued, []
        self._forget([*line.writing, *queued])
        for waiting in (*line.writing, *queued):
            done, waiting.done = waiting.done, None
            if done is not None:
                done(failure)

    async def close(self) -> None:
        """Waits for what is under way, as long as publishers would."""
        tasks = [line.task for line in self._lines.values() if line.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=self._settings.write_s_max)
        for partition in self._lines:
            self.give_up(partition, "the connection point is stopping")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, partition: int, line: _Line) -> None:
        try:
            while line.queued:
                line.writing = self._take(line)
                failure: Exception | None = None
                began = time.monotonic()
                try:
                    offset = await self._write(partition, [waiting.record for waiting in line.writing])
                    line.end = offset + 1  # of a log that was made anew it is less than before
                    line.doubtful_until_s = 0.0
                    self._answered_s = time.monotonic()
                except Unavailable as error:
                    failure = error
                    if isinstance(error, Unanswered):
                        line.doubtful_until_s = time.monotonic() + _DOUBT_S
                    log.error("a write to Kafka failed", partition=partition, reason=str(error))
                except Exception as error:
                    # Our own mistake, or aiokafka's: whoever waits is told, and what comes next is tried.
                    failure = error
                    log.exception("a write to Kafka failed", partition=partition)
                metrics.INGRESS_WRITE_SECONDS.observe(time.monotonic() - began)
                written, line.writing = line.writing, []
                if failure is not None:
                    self.failures += 1
                    written, line.queued = [*written, *line.queued], []
                self._forget(written)
                for waiting in written:
                    if waiting.done is not None:
                        waiting.done(failure)
        finally:
            line.task = None

    def _take(self, line: _Line) -> list[_Waiting]:
        size = count = 0
        for waiting in line.queued[:_RECORDS_MAX]:
            size += len(waiting.record.value) + _RECORD_OVERHEAD_BYTES
            if count and size > WRITE_BYTES_MAX:
                break
            count += 1
        taken, line.queued = line.queued[:count], line.queued[count:]
        return taken

    def _forget(self, those: list[_Waiting]) -> None:
        for waiting in those:
            if waiting.is_counted:
                waiting.is_counted = False
                self.publications -= waiting.publications
                self.bytes -= len(waiting.record.value)
