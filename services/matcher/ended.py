"""Distinct subscriptions that have ended: what they were given is not given to their subscriber again for a while.

Bounded: each is remembered for a time, and beyond a number of all, those that ended first are forgotten first.
"""

from collections import OrderedDict
from collections.abc import Iterable

from msgspec.structs import replace

from braid.subscription import SubscriptionRecord

REMEMBERED_MAX = 100_000


class Ended:
    def __init__(self, remember_s: float) -> None:
        self._remember_s = remember_s
        self._records: OrderedDict[str, SubscriptionRecord] = OrderedDict()  # in the order in which they ended
        self._by_subscriber: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._records)

    def note(self, record: SubscriptionRecord, now_s: float) -> None:
        """It ends now, or its window was over before."""
        if record.distinct:
            until_s = now_s if record.until_s is None else min(record.until_s, now_s)
            self.add([replace(record, until_s=until_s)])

    def add(self, records: Iterable[SubscriptionRecord]) -> None:
        for record in records:
            self._records[record.id] = record
            self._by_subscriber.setdefault(record.subscriber, set()).add(record.id)
        while len(self._records) > REMEMBERED_MAX:
            self._forget(next(iter(self._records)))

    def of(self, subscriber: str) -> list[SubscriptionRecord]:
        """Those that ended first are first."""
        own = [self._records[id] for id in self._by_subscriber.get(subscriber, ())]
        return sorted(own, key=lambda record: (record.until_s or 0.0, record.id))

    def all(self) -> list[SubscriptionRecord]:
        return list(self._records.values())

    def on_second(self, now_s: float) -> None:
        while self._records:
            id, record = next(iter(self._records.items()))
            if record.until_s is not None and record.until_s + self._remember_s > now_s:
                return
            self._forget(id)

    def _forget(self, id: str) -> None:
        record = self._records.pop(id)
        own = self._by_subscriber[record.subscriber]
        own.discard(id)
        if not own:
            del self._by_subscriber[record.subscriber]
