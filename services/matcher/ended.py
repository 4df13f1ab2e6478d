"""Distinct subscriptions that have ended: what they were given is not given to their subscriber again for a while.

Bounded: each is remembered for a time, and beyond a number of all, those that ended first are forgotten first. Others
hand theirs over in any order, so a heap knows which those are.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from msgspec.structs import replace

from braid.subscription import SubscriptionRecord

REMEMBERED_MAX = 100_000


class Ended:
    def __init__(self, remember_s: float) -> None:
        self._remember_s = remember_s
        self._records: dict[str, SubscriptionRecord] = {}
        self._ends: list[tuple[float, str]] = []  # a heap; of one that has another end by now, an entry may be left
        self._by_subscriber: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._records)

    def note(self, record: SubscriptionRecord, now_s: float) -> list[SubscriptionRecord]:
        """It ends now, or its window was over before. What is remembered of it, if anything."""
        if not record.distinct:
            return []
        until_s = now_s if record.until_s is None else min(record.until_s, now_s)
        ended = replace(record, until_s=until_s)
        self.add([ended])
        return [ended]

    def add(self, records: Iterable[SubscriptionRecord]) -> None:
        for record in records:
            known = self._records.get(record.id)
            self._records[record.id] = record
            self._by_subscriber.setdefault(record.subscriber, set()).add(record.id)
            if known is None or _end_of(known) != _end_of(record):
                heappush(self._ends, (_end_of(record), record.id))
        while len(self._records) > REMEMBERED_MAX:
            self._forget_first()

    def of(self, subscriber: str) -> list[SubscriptionRecord]:
        """Those that ended first are first."""
        return sorted((self._records[id] for id in self._by_subscriber.get(subscriber, ())), key=_order)

    def all(self) -> list[SubscriptionRecord]:
        """In any order: to sort very many would be felt."""
        return list(self._records.values())

    def on_second(self, now_s: float) -> None:
        while self._ends and self._ends[0][0] + self._remember_s <= now_s:
            self._forget_first()

    def _forget_first(self) -> None:
        end_s, id = heappop(self._ends)
        record = self._records.get(id)
        if record is None or _end_of(record) != end_s:
            return
        del self._records[id]
        own = self._by_subscriber[record.subscriber]
        own.discard(id)
        if not own:
            del self._by_subscriber[record.subscriber]


def _end_of(record: SubscriptionRecord) -> float:
    return 0.0 if record.until_s is None else record.until_s


def _order(record: SubscriptionRecord) -> tuple[float, str]:
    return _end_of(record), record.id
