"""Notifications for addresses are on disk before their receipts are sent.

One write is under way at a time, of all that has come until then, so they are on disk in the order in which they came.
A write that fails is tried again, and meanwhile no receipt is sent, not even one of a repetition: exit points wait, so
publishers do in the end, and nothing is lost. What waits here is no more than the windows of all origins hold.
"""

from collections.abc import Callable
from functools import partial

import msgspec

from services.connpoint.delivery import Addressed
from services.connpoint.webhooks.outbox import WebhookOutbox


class Arrival(msgspec.Struct, frozen=True, eq=False):
    addressed: list[Addressed]
    received_s: float
    receipt: Callable[[], None]


class Arrivals:
    def __init__(self, outbox: WebhookOutbox, on_arrived: Callable[[str], None]) -> None:
        self._outbox = outbox
        self._on_arrived = on_arrived  # of each endpoint for which something was written
        self._unwritten: list[Arrival] = []
        self._is_writing = False
        self._has_failed = False  # the last write

    def write(self, addressed: list[Addressed], received_s: float, receipt: Callable[[], None]) -> None:
        """`receipt` is called when these, and all before them, are on disk."""
        if not addressed and not self._unwritten:
            receipt()
            return
        self._unwritten.append(Arrival(addressed, received_s, receipt))
        if not self._has_failed:
            self._go_on()

    def on_tick(self) -> None:
        self._go_on()

    def _go_on(self) -> None:
        if self._unwritten and not self._is_writing:
            together, self._is_writing = list(self._unwritten), True
            came = [(arrival.addressed, arrival.received_s) for arrival in together]
            self._outbox.append(came, partial(self._on_written, together))

    def _on_written(self, together: list[Arrival], failure: Exception | None) -> None:
        self._is_writing, self._has_failed = False, failure is not None
        if failure is not None:
            return
        del self._unwritten[: len(together)]
        self._go_on()
        for id in dict.fromkeys(one.id for arrival in together for one in arrival.addressed):
            self._on_arrived(id)
        for arrival in together:
            arrival.receipt()
