"""Finds the subscriptions a publication matches.

A subscription that demands `attribute = value` is kept under that pair, so a publication looks at only those whose
pair it carries; all others are looked at for every publication.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from braid.filters import EqualityKey, Value, compile_filter, equality_key, parse, required_equalities
from braid.subscription import SubscriptionRecord

# The connection point has held the filter against its limit already; a matcher takes what was accepted.
_PREDICATES_MAX = 1_000_000


class Entry(NamedTuple):
    record: SubscriptionRecord
    accepts: Callable[[Mapping[str, Value]], bool]
    always: bool  # it has no window
    anchor: EqualityKey | None  # the pair it is kept under, None when it is looked at for every publication


class SubscriptionIndex:
    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._anchored: dict[EqualityKey, dict[str, Entry]] = {}
        self._unanchored: dict[str, Entry] = {}
        self._by_subscriber: dict[str, set[str]] = {}
        self._anchor_attributes: dict[str, int] = {}  # attribute -> number of subscriptions anchored on it

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[SubscriptionRecord]:
        return (entry.record for entry in self._entries.values())

    def get(self, id: str) -> SubscriptionRecord | None:
        entry = self._entries.get(id)
        return None if entry is None else entry.record

    def ids_of(self, subscriber: str) -> Iterable[str]:
        return self._by_subscriber.get(subscriber, ())

    def add(self, record: SubscriptionRecord) -> None:
        """Adds a subscription, or replaces the one of the same id."""
        self.remove(record.id)
        always = record.from_s is None and record.until_s is None
        if not record.filter:
            entry = Entry(record, _accept_all, always, None)
        else:
            parsed = parse(record.filter, max_predicates=_PREDICATES_MAX)
            pairs = [equality_key(name, value) for name, value in required_equalities(parsed)]
            # The pair with the fewest subscriptions under it is the most selective one known.
            anchor = min(pairs, key=lambda pair: len(self._anchored.get(pair, ())), default=None)
            entry = Entry(record, compile_filter(parsed), always, anchor)
        self._entries[record.id] = entry
        self._by_subscriber.setdefault(record.subscriber, set()).add(record.id)
        if entry.anchor is None:
            self._unanchored[record.id] = entry
        else:
            self._anchored.setdefault(entry.anchor, {})[record.id] = entry
            attribute = entry.anchor[0]
            self._anchor_attributes[attribute] = self._anchor_attributes.get(attribute, 0) + 1

    def remove(self, id: str) -> SubscriptionRecord | None:
        entry = self._entries.pop(id, None)
        if entry is None:
            return None
        of_subscriber = self._by_subscriber[entry.record.subscriber]
        of_subscriber.discard(id)
        if not of_subscriber:
            del self._by_subscriber[entry.record.subscriber]
        if entry.anchor is None:
            del self._unanchored[id]
        else:
            under = self._anchored[entry.anchor]
            del under[id]
            if not under:
                del self._anchored[entry.anchor]
            attribute = entry.anchor[0]
            self._anchor_attributes[attribute] -= 1
            if not self._anchor_attributes[attribute]:
                del self._anchor_attributes[attribute]
        return entry.record

    def match(self, attributes: Mapping[str, Value], now_s: float) -> list[SubscriptionRecord]:
        """The subscriptions whose filter accepts these attributes and whose window is open."""
        matched = []
        anchor_attributes = self._anchor_attributes
        for attribute, value in attributes.items():
            if attribute in anchor_attributes:
                under = self._anchored.get(equality_key(attribute, value))
                if under is not None:
                    matched += [
                        e.record
                        for e in under.values()
                        if e.accepts(attributes) and (e.always or _is_open(e.record, now_s))
                    ]
        if self._unanchored:
            others = self._unanchored.values()
            matched += [e.record for e in others if e.accepts(attributes) and (e.always or _is_open(e.record, now_s))]
        return matched


def _accept_all(_attributes: Mapping[str, Value]) -> bool:
    return True


def _is_open(record: SubscriptionRecord, now_s: float) -> bool:
    return (record.from_s is None or record.from_s <= now_s) and (record.until_s is None or now_s < record.until_s)
