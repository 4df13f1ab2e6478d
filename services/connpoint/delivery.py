"""Deliveries: notifications from exit points become payloads in the outboxes of subscribers, or for addresses.

Invariants:
- Every notification is answered with `Received`, also one that is delivered to nobody.
- The batches of one publisher are delivered in ascending order. What is not above the latest one was delivered before,
  or it matched nobody here when an exit point released it the first time: that exit point forgot it in a crash, and
  whoever it matches now subscribed after it was published.
- A subscriber's payloads are in the order in which its exit points sent them; those of a subscription that is being
  given its past wait behind it (`catching_up.py`).
"""

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

import msgspec

from braid.deliver import is_addressed
from braid.id_tables import IdMap, IdSet
from braid.messages import Kept, Match, Notifications, Received, Send
from services.connpoint.catching_up import CatchingUp, Part
from services.connpoint.past_order import Key
from services.connpoint.unconfirmed import Batch

_ORIGINS_MAX = 4096
_PRUNE_EVERY = 4096


class Latest:
    """The latest delivered sequence of each publisher of one origin; everything up to the watermark is delivered.

    An entry lives until the watermark passes it, so there are no more than the origin's window has batches, plus those
    that are not pruned yet.
    """

    def __init__(self) -> None:
        self.watermark = 0
        self._sequences: dict[int, int] = {}
        self._pruned_at = 0

    def __len__(self) -> int:
        return len(self._sequences)

    def take(self, publisher: int, sequence: int) -> bool:
        """Whether this one is to be delivered; then it is the latest."""
        if sequence <= self.watermark or sequence <= self._sequences.get(publisher, 0):
            return False
        self._sequences[publisher] = sequence
        return True

    def advance(self, watermark: int) -> None:
        """Pruning is put off until it pays, so that its cost per sequence is constant."""
        if watermark <= self.watermark:
            return
        self.watermark = watermark
        if watermark - self._pruned_at >= _PRUNE_EVERY or len(self._sequences) <= 16:
            self._pruned_at = watermark
            self._sequences = {key: sequence for key, sequence in self._sequences.items() if sequence > watermark}


class Addressed(msgspec.Struct, frozen=True, gc=False):
    """A notification for a subscription with an address; which need not be delivered from here."""

    id: str
    key: Key
    content: bytes


class Deliveries(NamedTuple):
    """Ordering duty: payloads are in the outboxes, and what has an address is on disk, before receipts are sent."""

    payloads: dict[str, list[bytes]]  # by subscriber
    addressed: list[Addressed]
    receipts: list[Send]


class DeliveryCore:
    def __init__(
        self, name: str, clock_ns: Callable[[], int], held_max: int = 50_000, held_bytes_max: int = 32 * 1024 * 1024
    ) -> None:
        self._name = name
        self._clock_ns = clock_ns  # only stamps the hops of traced publications
        self._latest: dict[str, Latest] = {}
        # Subscription id -> subscriber, of those that are delivered over connections here.
        self.subscribers: IdMap[str] = IdMap()
        self.addressed = IdSet()  # ids of those that are delivered from here to an address
        self.distinct = IdSet()  # those of them that are
        self.catching_up = CatchingUp(held_max, held_bytes_max)
        self.repeated = 0
        self.unclaimed = 0
        self.on_delivered: Callable[[Notifications], None] | None = None  # for telemetry; not of repetitions

    def __len__(self) -> int:
        """Of the subscriptions homed here."""
        return len(self.subscribers) + len(self.addressed)

    def __contains__(self, id: str) -> bool:
        return id in self.subscribers or id in self.addressed

    def on_notifications(self, exitpoint: str, batch: list[Notifications], arrived_ns: int) -> Deliveries:
        payloads: dict[str, list[bytes]] = {}
        addressed: list[Addressed] = []
        receipts: dict[str, Received] = {}
        for notification in batch:
            origin = notification.origin
            receipt = receipts.get(origin)
            if receipt is None:
                receipt = receipts[origin] = Received(notification.epoch, origin, [], [])
            latest = self._latest_of(origin)
            latest.advance(notification.watermark)
            receipt.sequences.append(notification.sequence)
            if not latest.take(notification.publisher, notification.sequence):
                self.repeated += 1
                continue
            matches = notification.matches
            if not self.catching_up.is_idle:
                matches = self._without_past(notification)
            self._address(notification, matches, payloads, addressed)
            if self.on_delivered is not None:
                self.on_delivered(notification)
            if notification.hops is not None:
                hops = [*notification.hops, (self._name, arrived_ns, self._clock_ns())]
                receipt.traces.append((notification.sequence, hops))
        return Deliveries(payloads, addressed, [Send(exitpoint, list(receipts.values()))])

    def _without_past(self, notification: Notifications) -> list[Match]:
        """Without the subscriptions that are being given their past, and those that were given this one with it."""
        origin, sequence = notification.origin, notification.sequence
        matches: list[Match] = []
        for place, ids, content in notification.matches:
            left = self.catching_up.left((origin, sequence, place), ids, content, self.subscribers, self.distinct)
            if left:
                matches.append((place, left, content))
        return matches

    def give_past(
        self, id: str, past: list[Kept], clock_s: Callable[[], float], before: Collection[Batch] = ()
    ) -> Iterator[Part]:
        """Payloads for its subscriber, or contents for its address: its past, then what came meanwhile.

        What comes from now on of the batches `before` it is left out. Ordering duty: each part is in the outbox before
        the next one is asked for. Raises `TooMuchHeldError`.
        """
        for part in self.catching_up.give(id, past, clock_s, before):
            if id in self.addressed:
                yield part
            else:
                yield Part(part.keys, [payload_of([id], content) for content in part.contents], part.of_past)

    def on_tick(self, now_s: float) -> None:
        self.catching_up.on_tick(self.watermark_of, now_s)

    def watermark_of(self, origin: str) -> int:
        latest = self._latest.get(origin)
        return 0 if latest is None else latest.watermark

    def _address(
        self,
        notification: Notifications,
        matches: list[Match],
        payloads: dict[str, list[bytes]],
        addressed: list[Addressed],
    ) -> None:
        subscribers = self.subscribers
        for place, ids, content in matches:
            if len(ids) == 1:
                subscriber = subscribers.get(ids[0])
                if subscriber is None:
                    self._set_aside(ids[0], notification, place, content, addressed)
                elif subscriber in payloads:
                    payloads[subscriber].append(payload_of(ids, content))
                else:
                    payloads[subscriber] = [payload_of(ids, content)]
                continue
            by_subscriber: dict[str, list[str]] = {}
            for id in ids:
                subscriber = subscribers.get(id)
                if subscriber is None:
                    self._set_aside(id, notification, place, content, addressed)
                else:
                    by_subscriber.setdefault(subscriber, []).append(id)
            for subscriber, own in by_subscriber.items():
                payloads.setdefault(subscriber, []).append(payload_of(own, content))

    def _set_aside(
        self, id: str, notification: Notifications, place: int, content: bytes, addressed: list[Addressed]
    ) -> None:
        """It is for no connection. One with an address may be delivered elsewhere by now (`strays.py`)."""
        if is_addressed(id):
            key = notification.origin, notification.sequence, place
            addressed.append(Addressed(id, key, content))
        else:
            self.unclaimed += 1

    def _latest_of(self, origin: str) -> Latest:
        latest = self._latest.pop(origin, None)
        if latest is None:
            while len(self._latest) >= _ORIGINS_MAX:
                # Each restart of a connection point makes a new origin; the one that was silent longest is gone.
                del self._latest[next(iter(self._latest))]
            latest = Latest()
        self._latest[origin] = latest
        return latest


def payload_of(ids: list[str], content: bytes) -> bytes:
    """Ids are made by connection points from letters, digits and dashes, so they need no escaping."""
    return b'{"subscriptions":["%b"],"publication":%b}' % ('","'.join(ids).encode(), content)
