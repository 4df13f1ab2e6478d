"""Settles what the engine leaves open: zones that may meet, and subscriptions that must be evaluated."""

from typing import Any

import msgspec
import numpy as np

from braid.filters import Filter, evaluate, parse, uses_previous
from braid.matching.engine.memory import ZONES, Memory
from braid.matching.engine.programs import CHECKED, MEMBER_SHIFT
from braid.matching.meaning import PREDICATES_MAX, Publication, read_publication, topic_accepts, zone_accepts
from braid.matching.previous import attributes_of
from braid.subscription import SubscriptionRecord
from braid.zones import PreparedZone, ZoneArray, ZoneStore, intersect_pairs, prepare

Integers = np.ndarray[Any, np.dtype[np.int64]]


class CheckedSubscription(msgspec.Struct):
    """One that the engine only finds candidates for."""

    record: SubscriptionRecord
    filter: Filter | None
    looks_back: bool

    @classmethod
    def of(cls, record: SubscriptionRecord) -> "CheckedSubscription":
        parsed = (
            parse(record.filter, max_predicates=PREDICATES_MAX, max_alternatives=PREDICATES_MAX)
            if record.filter
            else None
        )
        return cls(record, parsed, parsed is not None and uses_previous(parsed))

    def accepts(self, publication: Publication, before: bytes | None) -> bool:
        """Words and windows are never left open."""
        if self.filter is not None:
            previous = attributes_of(before) if self.looks_back else None
            if not evaluate(self.filter, publication.attributes, previous):
                return False
        return topic_accepts(self.record, publication) and zone_accepts(self.record, publication)


class Checks:
    def __init__(self, memory: Memory) -> None:
        self._checked: dict[int, CheckedSubscription] = {}
        self._zones = ZoneStore(memory.buffer(ZONES))
        self.looking_back = 0  # subscriptions whose filter uses `prev`

    def add(self, number: int, record: SubscriptionRecord, flags: int) -> None:
        """Keeps what is needed of a subscription to settle what the engine leaves open of it."""
        if flags & CHECKED:
            checked = self._checked[number] = CheckedSubscription.of(record)
            self.looking_back += checked.looks_back
        elif record.zone is not None:
            self._zones.put(number, record.zone)

    def remove(self, number: int) -> None:
        checked = self._checked.pop(number, None)
        if checked is not None:
            self.looking_back -= checked.looks_back
        self._zones.remove(number)

    def settle(
        self, events: Integers, members: Integers, contents: list[bytes], before: list[bytes | None] | None
    ) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which of these pairs of a publication and a member match. `before` holds what `prev` looks back to."""
        publications = {event: read_publication(contents[event]) for event in np.unique(events).tolist()}
        numbers = members >> MEMBER_SHIFT
        settled = np.zeros(len(events), dtype=np.bool_)
        is_checked = members & CHECKED != 0
        for i in np.flatnonzero(is_checked).tolist():
            event = int(events[i])
            previous = None if before is None else before[event]
            settled[i] = self._checked[int(numbers[i])].accepts(publications[event], previous)
        zoned = np.flatnonzero(~is_checked)
        if zoned.size:
            owners, places = np.unique(events[zoned], return_inverse=True)
            theirs = ZoneArray.of([_zone_of(publications[event]) for event in owners.tolist()])
            settled[zoned] = intersect_pairs(self._zones, theirs, numbers[zoned], places)
        return settled


def _zone_of(publication: Publication) -> PreparedZone:
    if publication.zone is None:
        raise ValueError("only what has a zone carries tiles")
    return prepare(publication.zone)
