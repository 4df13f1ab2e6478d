"""What the tests of matching share: short ways to write records and contents, and the model an index must equal."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from braid.content import DECODE_ERRORS, Content, encode_content
from braid.filters import Value, attributes_before, parse, print_filter
from braid.matching.index import MatchIndex
from braid.matching.meaning import accepts, read_publication
from braid.subscription import SubscriptionRecord
from braid.topics import canonical_topic, parse_pattern
from braid.zones import check_zone

NOW_S = 100.0

# What an index without subscriptions is made of: the key that every publication carries, and the beginning of the pool.
EMPTY = {
    "subscriptions": 0,
    "programs": 0,
    "keys": 1,
    "attributes": 0,
    "pool_bytes": 64,
    "topics_remembered": 0,
    "previous_bytes": 0,
}


def record(id: str, filter: str = "", *, zone: dict[str, Any] | None = None, **parts: Any) -> SubscriptionRecord:
    """As a connection point would write it: its filter and its zone are canonical."""
    text = print_filter(parse(filter)) if filter else ""
    if "topic" in parts:
        parts["topic"] = canonical_topic(parse_pattern(parts["topic"]))
    given = {"subscriber": "anna", "home": "connpoint-1", "created_s": 0.0, **parts}
    return SubscriptionRecord(id=id, filter=text, zone=None if zone is None else check_zone(zone), **given)


def content(attributes: Mapping[str, Value] | None = None, **parts: Any) -> bytes:
    """In the canonical form."""
    if "zone" in parts:
        parts["zone"] = check_zone(parts["zone"])
    return encode_content(msgspec.convert({"id": "p", "attributes": dict(attributes or {}), **parts}, Content))


def index_of(records: Iterable[SubscriptionRecord]) -> MatchIndex:
    index = MatchIndex()
    index.add_many(records)
    return index


def matched(index: MatchIndex, *contents: bytes, now_s: float = NOW_S) -> list[set[str]]:
    """What each content matches; no id may come twice."""
    found = index.match(contents, now_s).ids()
    assert [len(ids) for ids in found] == [len(set(ids)) for ids in found]
    return [set(ids) for ids in found]


class Model:
    """An index without an index: it looks at every subscription."""

    def __init__(self) -> None:
        self.records: dict[str, SubscriptionRecord] = {}
        self._previous: dict[str, Mapping[str, Value]] = {}

    def add(self, record: SubscriptionRecord) -> None:
        self.records[record.id] = record
        self._forget()

    def remove(self, id: str) -> SubscriptionRecord | None:
        removed = self.records.pop(id, None)
        self._forget()
        return removed

    def match(self, contents: Sequence[bytes], now_s: float) -> list[set[str]]:
        return [self._match(content, now_s) for content in contents]

    def ids_of(self, subscriber: str) -> set[str]:
        return {id for id, record in self.records.items() if record.subscriber == subscriber}

    def _match(self, content: bytes, now_s: float) -> set[str]:
        try:
            publication = read_publication(content)
        except DECODE_ERRORS:
            return set()
        previous = self._previous.get(publication.topic)
        found = {id for id, record in self.records.items() if accepts(record, publication, previous, now_s)}
        looked_back_to = self._looked_back_to()
        if publication.topic and looked_back_to:
            self._previous[publication.topic] = {
                name: value for name, value in publication.attributes.items() if name in looked_back_to
            }
        return found

    def _looked_back_to(self) -> set[str]:
        return {name for record in self.records.values() for name in looked_back_to(record.filter)}

    def _forget(self) -> None:
        """Attributes are remembered only while some subscription looks back to them."""
        if not self._looked_back_to():
            self._previous.clear()


@cache
def looked_back_to(filter: str) -> frozenset[str]:
    return attributes_before(parse(filter)) if filter else frozenset()


def remove_everything(index: MatchIndex) -> None:
    """And nothing is left behind."""
    for record in list(index):
        assert index.remove(record.id) == record
    statistics = index.statistics()
    assert {name: statistics[name] for name in EMPTY} == EMPTY
    assert (list(index), index.anchors()) == ([], [])


def assert_same(
    index: MatchIndex, wanted: Callable[[Any], set[str]], cases: Sequence[Any], contents: list[bytes]
) -> None:
    """Each case, written as the content at the same place, matches what is wanted for it."""
    for case, found in zip(cases, matched(index, *contents), strict=True):
        assert found == wanted(case), case
