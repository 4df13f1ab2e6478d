"""Deliveries: notifications from exit points become payloads in the outboxes of subscribers.

Invariants: every notification is answered with `Received`, also one that was seen before, which is delivered to
nobody; a subscriber's payloads are in the order in which its exit points sent them.
"""

from collections.abc import Callable

from braid.messages import Match, Notifications, Received, Send
from braid.seen import SeenSequences

_ORIGINS_MAX = 4096


class DeliveryCore:
    def __init__(self, name: str, clock_ns: Callable[[], int]) -> None:
        self._name = name
        self._clock_ns = clock_ns  # only stamps the hops of traced publications
        self._seen: dict[str, SeenSequences] = {}
        self.subscribers: dict[str, str] = {}  # subscription id -> subscriber, of all subscriptions homed here
        self.repeated = 0
        self.unclaimed = 0

    def on_notifications(
        self, exitpoint: str, batch: list[Notifications], arrived_ns: int
    ) -> tuple[dict[str, list[bytes]], list[Send]]:
        """Payloads by subscriber, and the receipt. Ordering duty: payloads are in the outboxes before it is sent."""
        payloads: dict[str, list[bytes]] = {}
        receipts: dict[str, Received] = {}
        for notification in batch:
            origin = notification.origin
            receipt = receipts.get(origin)
            if receipt is None:
                receipt = receipts[origin] = Received(notification.epoch, origin, [], [])
            seen = self._seen_of(origin)
            seen.advance(notification.watermark)
            receipt.sequences.append(notification.sequence)
            if notification.sequence in seen:
                self.repeated += 1
                continue
            seen.add(notification.sequence)
            self._address(notification.matches, payloads)
            if notification.hops is not None:
                hops = [*notification.hops, (self._name, arrived_ns, self._clock_ns())]
                receipt.traces.append((notification.sequence, hops))
        return payloads, [Send(exitpoint, list(receipts.values()))]

    def _address(self, matches: list[Match], payloads: dict[str, list[bytes]]) -> None:
        subscribers = self.subscribers
        for _, ids, content in matches:
            if len(ids) == 1:
                subscriber = subscribers.get(ids[0])
                if subscriber is None:
                    self.unclaimed += 1
                elif subscriber in payloads:
                    payloads[subscriber].append(_payload(ids, content))
                else:
                    payloads[subscriber] = [_payload(ids, content)]
                continue
            by_subscriber: dict[str, list[str]] = {}
            for id in ids:
                subscriber = subscribers.get(id)
                if subscriber is None:
                    self.unclaimed += 1
                else:
                    by_subscriber.setdefault(subscriber, []).append(id)
            for subscriber, own in by_subscriber.items():
                payloads.setdefault(subscriber, []).append(_payload(own, content))

    def _seen_of(self, origin: str) -> SeenSequences:
        seen = self._seen.get(origin)
        if seen is None:
            while len(self._seen) >= _ORIGINS_MAX:
                # Each restart of a connection point makes a new origin; the oldest one has long been confirmed.
                del self._seen[next(iter(self._seen))]
            seen = self._seen[origin] = SeenSequences()
        return seen


def _payload(ids: list[str], content: bytes) -> bytes:
    """Ids are made by connection points from letters, digits and dashes, so they need no escaping."""
    return b'{"subscriptions":["%b"],"publication":%b}' % ('","'.join(ids).encode(), content)
