"""Sending until it is confirmed: what is logged is sent, and sent again, until an exit point says that it arrived.

Where it is logged, and who numbers it, is the business of `ingress.py` (a log of its own) and `partitions.py` (Kafka).

Invariants:
- Sequences of an origin are contiguous; the watermark is the largest number below which all are confirmed.
- `previous` of a batch is the latest unconfirmed one of its publisher before it, so an exit point never waits for a
  batch that nobody sends any more.
- The number and the bytes of unconfirmed publications are bounded; beyond the bound nothing is taken in.
"""

from math import inf

import msgspec

from braid.config import Ingress
from braid.messages import Confirmed, ConfirmedElsewhere, Hop, Publications, Send
from braid.selector import Selector, selector_of
from braid.topology import Configuration

# A slice that was started again gets this long to be linked, and what one that left has sent on to be confirmed, before
# anything is sent again.
_SETTLE_S = 0.3


class Batch(msgspec.Struct, eq=False):
    """Publications of one publisher that were accepted together."""

    origin: str
    sequence: int
    publisher: int
    contents: list[bytes]
    size: int
    accepted_s: float
    previous: int = 0  # the latest unconfirmed batch of the publisher before this one, or 0
    following: int = 0  # the earliest unconfirmed batch of the publisher after this one, or 0
    due_s: float = inf  # when to send it again; infinite until it is logged
    attempts: int = 0
    first_attempt: int = 0  # above those of a process before this one
    through: str = ""  # the access point that it was sent to last
    hops: list[Hop] | None = None
    behind: list[int] = []  # batches after this one that were confirmed before it, while exit points change


class Origin:
    """The unconfirmed batches of one row of numbers."""

    def __init__(self, name: str, first: int = 1, *, is_open: bool = False) -> None:
        self.name = name
        self.pending: dict[int, Batch] = {}
        self.latest: dict[int, int] = {}  # publisher -> its latest unconfirmed sequence
        self.next_sequence = first
        self.watermark = first - 1
        self.is_open = is_open  # more may come

    def advance(self) -> None:
        watermark, pending, last = self.watermark, self.pending, self.next_sequence - 1
        while watermark < last and watermark + 1 not in pending:
            watermark += 1
        self.watermark = watermark


class RetryLoop:
    def __init__(self, settings: Ingress) -> None:
        self._settings = settings
        self._origins: dict[str, Origin] = {}
        self._selector: Selector | None = None
        self._accesspoints: list[str] = []  # that take publications
        self._change = ""  # the scaling that this was said of
        self._left: set[str] = set()  # those that do not any more, until what went to them is brought forward
        self._exitpoints_changing: list[str] = []  # old and new ones, while a publisher may be between two of them
        self._exitpoints_changed_at: dict[str, int] | None = None  # by origin, its first sequence behind the change
        self.window_publications = 0
        self.window_bytes = 0
        self.sent_again = 0

    @property
    def is_drained(self) -> bool:
        return self.window_publications == 0

    def on_configuration(self, configuration: Configuration) -> None:
        """What is under way under an old epoch is answered under it: nothing has to be sent again for a scaling, but
        for what came to an access point that had left when this connection point did not know it yet.
        """
        self._selector = selector_of(configuration.in_force())
        before, self._accesspoints = self._accesspoints, configuration.taking()
        self._left |= {name for name in before if name not in self._accesspoints}
        change = "" if configuration.change is None else configuration.change.id
        if change != self._change:
            # One that is taken in again may have left with a scaling whose end was not heard of here.
            self._left |= {name for name in before if name not in configuration.accesspoints}
            self._change = change
        target = configuration.target()
        if target is not None and target.exitpoints != configuration.exitpoints:
            self._exitpoints_changing = configuration.union("exitpoint")
            self._exitpoints_changed_at = None
        elif self._exitpoints_changing and self._exitpoints_changed_at is None:
            self._exitpoints_changed_at = {name: origin.next_sequence for name, origin in self._origins.items()}

    def confirmed_elsewhere(self, confirmed: list[Batch], exitpoint: str) -> list[Send]:
        """While publishers move from one exit point to another: tells the others what they need not wait for.

        A batch that is confirmed before an earlier one of its publisher is told with that one: where both went the
        same way their order is kept, but what follows on another way would overtake the earlier one.
        """
        if not self._exitpoints_changing:
            return []
        others = [other for other in self._exitpoints_changing if other != exitpoint]
        if self._is_all_behind_the_change():
            self._exitpoints_changing = []
        sequences: dict[str, list[int]] = {}
        for batch in confirmed:
            if batch.following and not batch.previous:
                sequences.setdefault(batch.origin, []).extend((batch.sequence, *batch.behind))
        epoch = 0 if self._selector is None else self._selector.epoch
        messages = [ConfirmedElsewhere(epoch, origin, numbers) for origin, numbers in sequences.items()]
        return [Send(other, messages) for other in others] if messages else []

    def _is_all_behind_the_change(self) -> bool:
        """Whether everything that is under way now was sent behind the cut."""
        if self._exitpoints_changed_at is None:
            return False
        return all(
            origin.watermark >= self._exitpoints_changed_at.get(name, 0) - 1 for name, origin in self._origins.items()
        )

    def has_room(self, publications: int, size: int) -> bool:
        """A batch larger than the whole window may enter when the window is empty."""
        if self.window_publications == 0:
            return True
        return (
            self.window_publications + publications <= self._settings.window_publications_max
            and self.window_bytes + size <= self._settings.window_bytes_max
        )

    def on_confirmed(self, message: Confirmed) -> list[Batch]:
        """The batches that are done with and may leave the log."""
        origin = self._origins.get(message.origin)
        if origin is None:
            return []
        dropped = [self._drop(origin, sequence) for sequence in message.sequences]
        origin.advance()
        if not origin.pending and not origin.is_open:
            del self._origins[origin.name]
        return [batch for batch in dropped if batch is not None]

    def accepted_s(self, origin: str, sequence: int) -> float | None:
        """When a batch was accepted, while it is sent from here and not confirmed."""
        known = self._origins.get(origin)
        batch = None if known is None else known.pending.get(sequence)
        return None if batch is None else batch.accepted_s

    def on_slice_returned(self, now_s: float) -> None:
        """A slice of the path was started again: what it may have lost is sent again soon, not at the next retry."""
        for origin in self._origins.values():
            for batch in origin.pending.values():
                if batch.due_s != inf:
                    batch.due_s = min(batch.due_s, now_s + _SETTLE_S)

    def _bring_forward(self, now_s: float) -> None:
        """What came to an access point behind its last word was dropped; what came before is confirmed in a moment."""
        left, self._left = self._left, set()
        for origin in self._origins.values() if left else ():
            for batch in origin.pending.values():
                if batch.due_s != inf and batch.through in left:
                    batch.due_s = min(batch.due_s, now_s + _SETTLE_S)

    def on_tick(self, now_s: float) -> list[Send]:
        """Batches that are unconfirmed for too long, in their order, a bounded number of them."""
        selector = self._selector
        if selector is None:
            return []
        self._bring_forward(now_s)
        left = self._settings.retry_batch_max
        sends = []
        for origin in self._origins.values():
            for batch in origin.pending.values():
                if left <= 0 or batch.due_s == inf:
                    break  # behind one that is not logged yet, none is
                if batch.due_s <= now_s:
                    left -= len(batch.contents)
                    batch.attempts += 1
                    pause_s = self._settings.retry_s * 2 ** min(batch.attempts, 10)
                    batch.due_s = now_s + min(pause_s, self._settings.retry_s_max)
                    self.sent_again += len(batch.contents)
                    sends.append(self._send(origin, batch, selector))
        return sends

    def _send_logged(self, origin: Origin, batch: Batch, now_s: float, now_ns: int) -> list[Send]:
        """The batch is safe: it goes to its access point."""
        selector = self._selector
        if batch.hops is not None:
            name, arrived_ns, _ = batch.hops[0]
            batch.hops = [(name, arrived_ns, now_ns)]
        if selector is None:
            batch.due_s = now_s
            return []
        batch.due_s = now_s + self._settings.retry_s
        return [self._send(origin, batch, selector)]

    def _send(self, origin: Origin, batch: Batch, selector: Selector) -> Send:
        message = Publications(
            selector.epoch,
            origin.name,
            batch.sequence,
            batch.previous,
            origin.watermark,
            batch.publisher,
            batch.accepted_s,
            batch.contents,
            batch.hops,
            batch.first_attempt + batch.attempts,
        )
        batch.through = selector.accesspoint_of(batch.publisher)
        return Send(batch.through, [message])

    def _take(self, origin: Origin, batch: Batch) -> None:
        batch.previous = origin.latest.get(batch.publisher, 0)
        if batch.previous:
            origin.pending[batch.previous].following = batch.sequence
        origin.pending[batch.sequence] = batch
        origin.latest[batch.publisher] = batch.sequence
        origin.next_sequence = batch.sequence + 1
        self.window_publications += len(batch.contents)
        self.window_bytes += batch.size

    def _drop(self, origin: Origin, sequence: int) -> Batch | None:
        """Its neighbours among the publisher's unconfirmed batches become each other's."""
        batch = origin.pending.pop(sequence, None)
        if batch is None:
            return None
        self.window_publications -= len(batch.contents)
        self.window_bytes -= batch.size
        if batch.previous:
            before = origin.pending[batch.previous]
            before.following = batch.following
            if self._exitpoints_changing:
                before.behind = [*before.behind, batch.sequence, *batch.behind]
        if batch.following:
            origin.pending[batch.following].previous = batch.previous
        elif batch.previous:
            origin.latest[batch.publisher] = batch.previous
        else:
            del origin.latest[batch.publisher]
        return batch
