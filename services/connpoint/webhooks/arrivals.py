"""Notifications for addresses are on disk before their receipts are sent.

A write that fails is tried again, and meanwhile no receipt is sent, not even one of a repetition: exit points wait, so
publishers do in the end, and nothing is lost. What waits here is no more than the windows of all origins hold.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

import msgspec

from services.connpoint.delivery import Addressed
from services.connpoint.webhooks.outbox import WebhookOutbox


class _Arrival(msgspec.Struct, eq=False):
    addressed: list[Addressed]
    received_s: float
    receipt: Callable[[], None]
    state: str = "queued"  # "written", "failed"


class Arrivals:
    def __init__(self, outbox: WebhookOutbox, on_arrived: Callable[[str], None]) -> None:
        self._outbox = outbox
        self._on_arrived = on_arrived  # of each endpoint for which something was written
        self._unwritten: deque[_Arrival] = deque()

    def write(self, addressed: list[Addressed], received_s: float, receipt: Callable[[], None]) -> None:
        """`receipt` is called when these, and all before them, are on disk."""
        if not addressed and not self._unwritten:
            receipt()
            return
        arrival = _Arrival(addressed, received_s, receipt)
        self._unwritten.append(arrival)
        self._queue(arrival)

    def on_tick(self) -> None:
        for arrival in self._unwritten:
            if arrival.state == "failed":
                self._queue(arrival)

    def _queue(self, arrival: _Arrival) -> None:
        arrival.state = "queued"
        self._outbox.append(arrival.addressed, arrival.received_s, partial(self._on_written, arrival))

    def _on_written(self, arrival: _Arrival, failure: Exception | None) -> None:
        if failure is not None:
            arrival.state = "failed"
            return
        arrival.state = "written"
        for id in dict.fromkeys(one.id for one in arrival.addressed):
            self._on_arrived(id)
        while self._unwritten and self._unwritten[0].state == "written":
            self._unwritten.popleft().receipt()
