"""Settles what the engine leaves open: zones that may meet, and subscriptions that must be evaluated."""

from collections import Counter
from typing import Any

import msgspec
import numpy as np

from braid.filters import Filter, attributes_before, evaluate, parse
from braid.matching.chains import Attributes
from braid.matching.engine.memory import ZONES, Memory
from braid.matching.engine.programs import CHECKED, MEMBER_SHIFT
from braid.matching.meaning import PREDICATES_MAX, Publication, read_publication, zone_accepts
from braid.matching.relations import Relation, Relations
from braid.subscription import SubscriptionRecord
from braid.topics import matches, parse_pattern, parse_topic
from braid.zones import PreparedZone, ZoneArray, ZoneStore, intersect_pairs, prepare

Integers = np.ndarray[Any, np.dtype[np.int64]]


class CheckedSubscription(msgspec.Struct):
    """One that the engine only finds candidates for."""

    record: SubscriptionRecord
    filter: Filter | None
    pattern: tuple[str, ...]  # of its topic
    looks_back_to: frozenset[str]  # attributes
    relations: frozenset[Relation]  # that it is found by

    @classmethod
    def of(cls, record: SubscriptionRecord, relations: frozenset[Relation] = frozenset()) -> "CheckedSubscription":
        filter = None
        if record.filter:
            filter = parse(record.filter, max_predicates=PREDICATES_MAX, max_alternatives=PREDICATES_MAX)
        return cls(
            record,
            filter,
            parse_pattern(record.topic) if record.topic else (),
            frozenset() if filter is None else attributes_before(filter),
            relations,
        )

    def accepts(self, seen: "Seen") -> bool:
        """Words and windows are never left open."""
        record = self.record
        return (
            (self.filter is None or seen.passes(record.filter, self.filter))
            and (not self.pattern or bool(seen.topic and matches(self.pattern, record.topic_scope, seen.topic)))
            and (record.zone is None or zone_accepts(record, seen.publication))
        )


class Seen:
    """A publication that subscriptions are held against. What several of them ask is answered once."""

    def __init__(self, publication: Publication, before: Attributes | None) -> None:
        """`before` holds the attributes of the publication before it on its topic."""
        self.publication = publication
        self.topic = parse_topic(publication.topic) if publication.topic else ()
        self._before = before
        self._verdicts: dict[str, bool] = {}  # by filter

    def passes(self, text: str, filter: Filter) -> bool:
        verdict = self._verdicts.get(text)
        if verdict is None:
            verdict = self._verdicts[text] = evaluate(filter, self.publication.attributes, self._before)
        return verdict


class Checks:
    def __init__(self, memory: Memory, relations: Relations) -> None:
        self._relations = relations
        self._checked: dict[int, CheckedSubscription] = {}
        self._zones = ZoneStore(memory.buffer(ZONES))
        self.looked_back_to: Counter[str] = Counter()  # attributes that filters say `prev` of, with how many do

    def add(self, number: int, record: SubscriptionRecord, flags: int, relations: frozenset[Relation]) -> None:
        """Keeps what is needed of a subscription to settle what the engine leaves open of it."""
        if flags & CHECKED:
            checked = self._checked[number] = CheckedSubscription.of(record, relations)
            self.looked_back_to.update(checked.looks_back_to)
            if relations:
                self._relations.add(relations)
        elif record.zone is not None:
            self._zones.put(number, record.zone)

    def remove(self, number: int) -> None:
        checked = self._checked.pop(number, None)
        if checked is not None:
            for attribute in checked.looks_back_to:
                self.looked_back_to[attribute] -= 1
                if not self.looked_back_to[attribute]:
                    del self.looked_back_to[attribute]
            if checked.relations:
                self._relations.remove(checked.relations)
        self._zones.remove(number)

    def settle(
        self, events: Integers, members: Integers, contents: list[bytes], before: list[Attributes | None] | None
    ) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which of these pairs of a publication and a member match. `before` holds what `prev` looks back to."""
        seen = {
            event: Seen(read_publication(contents[event]), None if before is None else before[event])
            for event in np.unique(events).tolist()
        }
        numbers = members >> MEMBER_SHIFT
        settled = np.zeros(len(events), dtype=np.bool_)
        is_checked = members & CHECKED != 0
        checked = np.flatnonzero(is_checked)
        settled[checked] = [
            self._checked[number].accepts(seen[event])
            for event, number in zip(events[checked].tolist(), numbers[checked].tolist(), strict=True)
        ]
        zoned = np.flatnonzero(~is_checked)
        if zoned.size:
            owners, places = np.unique(events[zoned], return_inverse=True)
            theirs = ZoneArray.of([_zone_of(seen[event].publication) for event in owners.tolist()])
            settled[zoned] = intersect_pairs(self._zones, theirs, numbers[zoned], places)
        return settled


def _zone_of(publication: Publication) -> PreparedZone:
    if publication.zone is None:
        raise ValueError("only what has a zone carries tiles")
    return prepare(publication.zone)
