"""Subscriptions that are added together: how many come at once."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice

from braid.matching.changes import ADDED_AT_ONCE
from braid.matching.room import CHARACTERS_AT_ONCE
from braid.subscription import SubscriptionRecord


def batches(records: Iterable[SubscriptionRecord]) -> Iterator[list[SubscriptionRecord]]:
    """In their order. Each batch is of distinct ids, because the last one of an id replaces those before it; and of a
    bounded size, but for one record that is larger alone.
    """
    coming = iter(records)
    waiting: list[SubscriptionRecord] = []
    while waiting := waiting + list(islice(coming, ADDED_AT_ONCE - len(waiting))):
        end = min(_fitting(waiting), _distinct([record.id for record in waiting]))
        yield waiting[:end]
        waiting = waiting[end:]


def _fitting(records: list[SubscriptionRecord]) -> int:
    sizes = [len(record.filter) + (sum(map(len, record.words)) if record.words else 0) for record in records]
    return max(1, bisect_right(list(accumulate(sizes)), CHARACTERS_AT_ONCE))


def _distinct(ids: list[str]) -> int:
    """How many there are before the first that comes again."""
    if len(set(ids)) == len(ids):
        return len(ids)
    seen: set[str] = set()
    for place, id in enumerate(ids):
        if id in seen:
            return place
        seen.add(id)
    return len(ids)
