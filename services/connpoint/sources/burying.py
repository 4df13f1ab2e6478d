"""Dead letters on their way to their topics, each topic by itself: one that takes none delays only its own sources.

What cannot be written is kept and tried again, after pauses that grow. The partitions it is from are held meanwhile:
they are neither read nor noted, so no more is kept than was read between two notes.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

import structlog

from braid import metrics
from braid.kafka_clients import text_of
from services.connpoint.sources.letters import DeadLetter
from services.connpoint.sources.partitions import Partition

log = structlog.get_logger()

_WAIT_S = 1.0  # for a topic that took everything so far; others are not waited for
_PAUSE_S = 0.5  # after one was not taken; doubled each time up to the most
_PAUSE_S_MAX = 15.0

Write = Callable[[list[DeadLetter]], Awaitable[list[Exception | None]]]  # of each, why it is not written


class _Waiting(NamedTuple):
    partition: Partition
    letter: DeadLetter


class _Grave:
    """What waits for one topic."""

    def __init__(self) -> None:
        self.waiting: list[_Waiting] = []
        self.writing: asyncio.Task[None] | None = None
        self.pause_s = 0.0  # the last one; 0 when everything was taken
        self.due_s = 0.0


class Burying:
    def __init__(self, write: Write) -> None:
        self._write = write
        self._graves: dict[str, _Grave] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, partition: Partition, letters: Iterable[DeadLetter]) -> None:
        for letter in letters:
            self._graves.setdefault(letter.topic, _Grave()).waiting.append(_Waiting(partition, letter))

    @property
    def held(self) -> set[Partition]:
        """Partitions of which not all dead letters are written."""
        return {waiting.partition for grave in self._graves.values() for waiting in grave.waiting}

    async def settle(self) -> None:
        """Writes what is due. Returns when it is written or refused; not everything is waited for."""
        awaited = []
        for topic, grave in self._graves.items():
            if not grave.waiting or grave.writing is not None or time.monotonic() < grave.due_s:
                continue
            writing = grave.writing = asyncio.get_running_loop().create_task(self._run(topic, grave))
            self._tasks.add(writing)
            writing.add_done_callback(self._tasks.discard)
            if not grave.pause_s:
                awaited.append(writing)
        if awaited:
            await asyncio.wait(awaited, timeout=_WAIT_S)

    def forget(self) -> None:
        """Whoever reads these records next writes them again. What is under way may still be written."""
        self._graves = {}

    async def close(self) -> None:
        self.forget()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, topic: str, grave: _Grave) -> None:
        taken = list(grave.waiting)
        try:
            failures = await self._write([waiting.letter for waiting in taken])
        except Exception as error:
            failures = [error] * len(taken)
        finally:
            grave.writing = None
        left = [waiting for waiting, failure in zip(taken, failures, strict=True) if failure is not None]
        grave.waiting[: len(taken)] = left
        if not left:
            grave.pause_s = 0.0
            return
        grave.pause_s = min(2 * grave.pause_s, _PAUSE_S_MAX) or _PAUSE_S
        grave.due_s = time.monotonic() + grave.pause_s
        metrics.KAFKA_SOURCE_FAILURES.inc()
        reason = next(failure for failure in failures if failure is not None)
        log.warning("dead letters cannot be written", topic=topic, letters=len(left), reason=text_of(reason))
