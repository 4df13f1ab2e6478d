"""The retry loop: a connection point owns every batch it accepted until an exit point confirms it.

A batch's way here:

    accepted ──logged──▶ sent ──confirmed──▶ forgotten
                          │ ▲
                          └─┘ unconfirmed for too long: sent again, same (origin, sequence), current epoch

Invariants:
- A batch is sent only after it was logged, and acknowledged to its publisher only then.
- Sequences of an origin are contiguous; the watermark is the largest number below which all are confirmed.
- `previous` of a batch is the latest unconfirmed one of its publisher before it, so an exit point never waits for a
  batch that this connection point has forgotten.
- The number and the bytes of unconfirmed publications are bounded; beyond the bound nothing is accepted.
"""

from collections.abc import Iterable
from math import inf

import msgspec

from braid.config import Ingress
from braid.messages import Confirmed, ConfirmedElsewhere, Hop, Publications, Send
from braid.selector import Selector, selector_of
from braid.topology import Configuration

_SETTLE_S = 0.3  # a slice that was started again gets this long to be linked before everything is sent again


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
    hops: list[Hop] | None = None
    behind: list[int] = []  # batches after this one that were confirmed before it, while exit points change


class Origin:
    """The unconfirmed batches of one incarnation: the running one, or one whose log was found at start."""

    def __init__(self, name: str, first: int = 1) -> None:
        self.name = name
        self.pending: dict[int, Batch] = {}
        self.latest: dict[int, int] = {}  # publisher -> its latest unconfirmed sequence
        self.next_sequence = first
        self.watermark = first - 1

    def advance(self) -> None:
        watermark, pending, last = self.watermark, self.pending, self.next_sequence - 1
        while watermark < last and watermark + 1 not in pending:
            watermark += 1
        self.watermark = watermark


class IngressCore:
    def __init__(self, origin: str, settings: Ingress) -> None:
        self._settings = settings
        self._current = Origin(origin)
        self._origins: dict[str, Origin] = {origin: self._current}
        self._selector: Selector | None = None
        self._exitpoints_changing: list[str] = []  # old and new ones, while a publisher may be between two of them
        self._exitpoints_changed_at: int | None = None  # the first sequence that was accepted behind the change
        self.window_publications = 0
        self.window_bytes = 0
        self.sent_again = 0

    @property
    def origin(self) -> str:
        return self._current.name

    @property
    def is_drained(self) -> bool:
        return self.window_publications == 0

    def on_configuration(self, configuration: Configuration) -> None:
        """What is under way under an old epoch is answered under it: nothing has to be sent again for a scaling."""
        self._selector = selector_of(configuration.in_force())
        target = configuration.target()
        if target is not None and target.exitpoints != configuration.exitpoints:
            self._exitpoints_changing = configuration.union("exitpoint")
            self._exitpoints_changed_at = None
        elif self._exitpoints_changing and self._exitpoints_changed_at is None:
            self._exitpoints_changed_at = self._current.next_sequence

    def confirmed_elsewhere(self, confirmed: list[Batch], exitpoint: str) -> list[Send]:
        """While publishers move from one exit point to another: tells the others what they need not wait for.

        A batch that is confirmed before an earlier one of its publisher is told with that one: where both went the
        same way their order is kept, but what follows on another way would overtake the earlier one.
        """
        if not self._exitpoints_changing:
            return []
        if self._exitpoints_changed_at is not None and self._current.watermark >= self._exitpoints_changed_at:
            self._exitpoints_changing = []  # whatever is under way now was sent behind the cut
            return []
        sequences: dict[str, list[int]] = {}
        for batch in confirmed:
            if batch.following and not batch.previous:
                sequences.setdefault(batch.origin, []).extend((batch.sequence, *batch.behind))
        epoch = 0 if self._selector is None else self._selector.epoch
        messages = [ConfirmedElsewhere(epoch, origin, numbers) for origin, numbers in sequences.items()]
        return [Send(other, messages) for other in self._exitpoints_changing if other != exitpoint] if messages else []

    def has_room(self, publications: int, size: int) -> bool:
        """A batch larger than the whole window may enter when the window is empty."""
        if self.window_publications == 0:
            return True
        return (
            self.window_publications + publications <= self._settings.window_publications_max
            and self.window_bytes + size <= self._settings.window_bytes_max
        )

    def accept(self, publisher: int, contents: list[bytes], now_s: float, hops: list[Hop] | None = None) -> Batch:
        """Takes a batch into the window. The caller has asked `has_room` and logs the batch next."""
        origin = self._current
        size = sum(map(len, contents))
        batch = Batch(origin.name, origin.next_sequence, publisher, contents, size, now_s, hops=hops)
        self._take(origin, batch)
        return batch

    def on_recovered(self, batches: Iterable[tuple[str, int, int, list[bytes], float]], now_s: float) -> None:
        """What the log held, in the order of its keys: origin, sequence, publisher, contents, when accepted."""
        for name, sequence, publisher, contents, accepted_s in batches:
            origin = self._origins.get(name)
            if origin is None:
                origin = self._origins[name] = Origin(name, sequence)
            origin.next_sequence = sequence
            size = sum(map(len, contents))
            batch = Batch(name, sequence, publisher, contents, size, accepted_s, due_s=now_s, first_attempt=int(now_s))
            self._take(origin, batch)

    def on_logged(self, batch: Batch, now_s: float, now_ns: int) -> list[Send]:
        """The batch is safe: it goes to its access point."""
        selector = self._selector
        if batch.hops is not None:
            name, arrived_ns, _ = batch.hops[0]
            batch.hops = [(name, arrived_ns, now_ns)]
        if selector is None:
            batch.due_s = now_s
            return []
        batch.due_s = now_s + self._settings.retry_s
        return [self._send(self._current, batch, selector)]

    def on_log_failed(self, batch: Batch) -> None:
        """Nothing of it was acknowledged, and nothing of it will be sent."""
        origin = self._origins[batch.origin]
        self._drop(origin, batch.sequence)
        origin.advance()

    def on_confirmed(self, message: Confirmed) -> list[Batch]:
        """The batches that are done with and may leave the log."""
        origin = self._origins.get(message.origin)
        if origin is None:
            return []
        dropped = [self._drop(origin, sequence) for sequence in message.sequences]
        origin.advance()
        if not origin.pending and origin is not self._current:
            del self._origins[origin.name]
        return [batch for batch in dropped if batch is not None]

    def accepted_s(self, origin: str, sequence: int) -> float | None:
        """When a batch was accepted here, while it is not confirmed."""
        known = self._origins.get(origin)
        batch = None if known is None else known.pending.get(sequence)
        return None if batch is None else batch.accepted_s

    def on_slice_returned(self, now_s: float) -> None:
        """A slice of the path was started again: what it may have lost is sent again soon, not at the next retry."""
        for origin in self._origins.values():
            for batch in origin.pending.values():
                if batch.due_s != inf:
                    batch.due_s = min(batch.due_s, now_s + _SETTLE_S)

    def on_tick(self, now_s: float) -> list[Send]:
        """Batches that are unconfirmed for too long, in their order, a bounded number of them."""
        selector = self._selector
        if selector is None:
            return []
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
        return Send(selector.accesspoint_of(batch.publisher), [message])

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
