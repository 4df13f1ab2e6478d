"""Notifications for topics are on disk before their receipts are sent.

One write at a time: numbers of entries follow one another, whatever fails. A write that fails is tried again; meanwhile
no receipt is sent, not even one of a repetition: exit points wait, so publishers do in the end, and nothing is lost.
What waits here is no more than the windows of all origins hold.
"""

from collections import deque
from collections.abc import Callable, Collection

import msgspec

from services.connpoint.delivery import Addressed
from services.connpoint.sinks.entries import Entry
from services.connpoint.sinks.outbox import SinkOutbox
from services.connpoint.unconfirmed import Batch

_ENTRIES_AT_ONCE = 5_000


class Arrival(msgspec.Struct, eq=False):
    entries: dict[str, list[Entry]]  # what is for each topic
    batches: Collection[Batch]  # with which they came
    given: Collection[Addressed]  # with a past, and may come again
    receipt: Callable[[], None]


class Arrivals:
    def __init__(self, outbox: SinkOutbox, on_written: Callable[[Collection[str]], None]) -> None:
        self._outbox = outbox
        self._on_written = on_written  # told the topics
        self._waiting: deque[Arrival] = deque()
        self._writing: list[Arrival] = []

    def add(self, arrival: Arrival) -> None:
        if not arrival.batches and not arrival.entries and not self._waiting and not self._writing:
            arrival.receipt()
            return
        self._waiting.append(arrival)
        self.write()

    def write(self) -> None:
        """Does nothing while a write is under way; called again on each tick, in case the last one failed."""
        if self._writing or not self._waiting:
            return
        entries: dict[str, list[Entry]] = {}
        batches: set[Batch] = set()
        given: list[Addressed] = []
        left = _ENTRIES_AT_ONCE
        while self._waiting and left > 0:
            arrival = self._waiting.popleft()
            self._writing.append(arrival)
            for topic, of_topic in arrival.entries.items():
                entries.setdefault(topic, []).extend(of_topic)
                left -= len(of_topic)
            batches.update(arrival.batches)
            given += arrival.given
        self._outbox.append(entries, batches, given, self._on_done)

    def _on_done(self, failure: Exception | None) -> None:
        arrivals, self._writing = self._writing, []
        if failure is not None:
            self._waiting.extendleft(reversed(arrivals))
            return
        self._on_written({topic for arrival in arrivals for topic in arrival.entries})
        for arrival in arrivals:
            arrival.receipt()
        self.write()
