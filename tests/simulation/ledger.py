"""Everything that was promised and everything that arrived; the checkers compare the two."""

import math
from collections.abc import Callable, Iterable

import msgspec

from braid.subscription import SubscriptionRecord

# So long a publication may take until it is matched, where somebody crashes: it is sent again after 2, 6 and 14 s. What
# counts for a window is the clock of the matcher by then.
MATCHED_WITHIN_S = 16.0


class PublicationEntry(msgspec.Struct):
    publisher: int
    sensor: int
    acknowledged_s: float
    published_s: float


class SubscriptionEntry(msgspec.Struct):
    subscriber: str
    sensor: int
    acknowledged_s: float | None
    from_s: float = math.inf  # earlier ones are not wanted, unless they are published when it is there
    until_s: float = math.inf  # what is published then or later is not wanted
    broken_s: float | None = None  # when its connection point crashed, if it did
    ending: bool = False  # somebody asked to end it
    ended: bool = False  # and was told that it is
    record: SubscriptionRecord | None = None  # as it was acknowledged last
    changing: bool = False  # somebody asked for another one, and was not answered


class Ledger:
    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.publications: dict[str, PublicationEntry] = {}  # in the order of acknowledgement
        self.subscriptions: dict[str, SubscriptionEntry] = {}
        self.delivered: dict[str, list[str]] = {}
        self.sent_again: set[str] = set()
        self.on_subscription_acknowledged: Callable[[str], None] = lambda _id: None

    def wants(self, entry: SubscriptionEntry, id: str, sensor: int) -> bool:
        """Whether a publication, acknowledged or not, is one that the subscription asks for."""
        publication = self.publications.get(id)
        return sensor == entry.sensor and (publication is None or publication.published_s < entry.until_s)

    def is_promised(self, entry: SubscriptionEntry, id: str) -> bool:
        """Of those that it asks for: it was published behind the acknowledgement, or lies in the past; and not so late
        that the window may be over when it is matched.
        """
        publication = self.publications[id]
        assert entry.acknowledged_s is not None
        if publication.published_s + MATCHED_WITHIN_S >= entry.until_s:
            return False
        return publication.acknowledged_s > entry.acknowledged_s or publication.published_s >= entry.from_s

    def on_acknowledged(self, publisher: int, ids: list[str], sensor: int, published_s: float) -> None:
        for id in ids:
            self.publications[id] = PublicationEntry(publisher, sensor, self.clock(), published_s)

    def on_sent_again(self, contents: Iterable[bytes]) -> None:
        self.sent_again.update(msgspec.json.decode(content)["id"] for content in contents)

    def on_subscribed(self, record: SubscriptionRecord) -> None:
        entry = self.subscriptions[record.id]
        entry.record, entry.changing = record, False
        if entry.acknowledged_s is None:
            entry.acknowledged_s = self.clock()
            self.on_subscription_acknowledged(record.id)

    def on_unsubscribing(self, id: str) -> None:
        self.subscriptions[id].ending = True

    def on_unsubscribed(self, id: str) -> None:
        self.subscriptions[id].ended = True

    def on_delivered(self, subscriber: str, id: str) -> None:
        self.delivered.setdefault(subscriber, []).append(id)

    def on_disconnected(self, subscribers: set[str]) -> None:
        for entry in self.subscriptions.values():
            if entry.subscriber in subscribers and entry.broken_s is None:
                entry.broken_s = self.clock()


def lost(ledger: Ledger) -> list[str]:
    """Acknowledged publications that a connected subscriber did not get: of those that were acknowledged after its
    subscription, or that lie in the past that it asked for.
    """
    missing = []
    broken = _broken(ledger)
    of_sensor: dict[int, list[tuple[str, PublicationEntry]]] = {}  # nobody wants those of another
    for id, publication in ledger.publications.items():
        of_sensor.setdefault(publication.sensor, []).append((id, publication))
    for entry in ledger.subscriptions.values():
        if entry.acknowledged_s is None or entry.subscriber in broken or entry.ending:
            continue
        got = set(ledger.delivered.get(entry.subscriber, ()))
        missing += [
            f"{id} for {entry.subscriber}"
            for id, publication in of_sensor.get(entry.sensor, ())
            if id not in got and ledger.wants(entry, id, publication.sensor) and ledger.is_promised(entry, id)
        ]
    return missing


def twice(ledger: Ledger) -> list[str]:
    """Of several subscriptions of one subscriber, which are distinct, one may begin later than another: what it gets
    live although it was published before is not known to have been given.
    """
    broken = _broken(ledger)
    several = {subscriber: entries for subscriber, entries in _entries(ledger).items() if len(entries) > 1}
    repeated = []
    for subscriber, ids in ledger.delivered.items():
        if subscriber in broken or len(ids) == len(set(ids)):
            continue
        since_s = max((entry.from_s for entry in several.get(subscriber, ())), default=-math.inf)
        repeated += [
            f"{id} to {subscriber}"
            for id in sorted({id for id in ids if ids.count(id) > 1})
            if id not in ledger.publications or ledger.publications[id].published_s >= since_s
        ]
    return repeated


def _broken(ledger: Ledger) -> set[str]:
    """Subscribers whose connection point crashed."""
    return {entry.subscriber for entry in ledger.subscriptions.values() if entry.broken_s is not None}


def _entries(ledger: Ledger) -> dict[str, list[SubscriptionEntry]]:
    by_subscriber: dict[str, list[SubscriptionEntry]] = {}
    for entry in ledger.subscriptions.values():
        by_subscriber.setdefault(entry.subscriber, []).append(entry)
    return by_subscriber


def wrong(ledger: Ledger, sensors: dict[str, int]) -> list[str]:
    """Delivered although it does not match. `sensors` are those of all publications, acknowledged or not."""
    entries = _entries(ledger)
    return [
        f"{id} to {subscriber}"
        for subscriber, ids in ledger.delivered.items()
        for id in ids
        if not any(ledger.wants(entry, id, sensors[id]) for entry in entries[subscriber])
    ]


def out_of_order(ledger: Ledger) -> list[str]:
    """Per publisher, ids carry the number in which they were published.

    What had to be sent again may come late to whoever asked for the past: it was not there when that was looked for.
    Several subscriptions of one subscriber are each in order, and not the one behind the other.
    """
    disorder = []
    with_past = {entry.subscriber for entry in ledger.subscriptions.values() if entry.from_s < math.inf}
    for subscriber, entries in _entries(ledger).items():
        ids = ledger.delivered.get(subscriber, []) if len(entries) == 1 else []
        last: dict[str, int] = {}
        for id in ids:
            publisher, _, number = id.rpartition("-")
            is_excused = subscriber in with_past and id in ledger.sent_again
            if last.get(publisher, -1) > int(number) and not is_excused:
                disorder.append(f"{id} after {publisher}-{last[publisher]} to {subscriber}")
            last[publisher] = max(last.get(publisher, -1), int(number))
    return disorder
