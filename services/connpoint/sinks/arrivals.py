"""Notifications for topics are on disk before their receipts are sent.

One write at a time: numbers of entries have no gaps, whatever fails. A write that fails is tried again; meanwhile no
receipt is sent, not even one of a repetition: exit points wait, so publishers do in the end, and nothing is lost. What
waits here is no more than the windows of all origins hold.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from services.connpoint.sinks.outbox import SinkOutbox

_ENTRIES_AT_ONCE = 5_000


class Arrival(msgspec.Struct, eq=False):
    entries: list[tuple[str, bytes]]  # topics, and what waits for them
    batches: set[tuple[str, int]]  # with which they came
    receipt: Callable[[], None]


class Arrivals:
    def __init__(self, outbox: SinkOutbox, on_written: Callable[[set[str]], None]) -> None:
        self._outbox = outbox
        self._on_written = on_written  # told the topics
        self._waiting: deque[Arrival] = deque()
        self._writing: list[Arrival] = []

    def add(self, arrival: Arrival) -> None:
        if not arrival.entries and not self._waiting and not self._writing:
            arrival.receipt()
            return
        self._waiting.append(arrival)
        self.write()

    def write(self) -> None:
        """Does nothing while a write is under way; called again on each tick, in case the last one failed."""
        if self._writing or not self._waiting:
            return
        entries: list[tuple[str, bytes]] = []
        batches: set[tuple[str, int]] = set()
        while self._waiting and len(entries) < _ENTRIES_AT_ONCE:
            arrival = self._waiting.popleft()
            self._writing.append(arrival)
            entries += arrival.entries
            batches |= arrival.batches
        self._outbox.append(entries, batches, self._on_done)

    def _on_done(self, failure: Exception | None) -> None:
        arrivals, self._writing = self._writing, []
        if failure is not None:
            self._waiting.extendleft(reversed(arrivals))
            return
        self._on_written({topic for arrival in arrivals for topic, _ in arrival.entries})
        for arrival in arrivals:
            arrival.receipt()
        self.write()
