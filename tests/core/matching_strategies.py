"""Whole subscriptions and whole publications, drawn so that they often meet."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from braid.filters import FilterError, Value, parse, print_filter
from braid.instants import format_instant
from braid.subscription import SubscriptionRecord
from braid.topics import SCOPES, canonical_topic, parse_pattern, parse_topic
from tests.core.matching_cases import NOW_S
from tests.core.matching_populations import (
    NAMES,
    NUMBERS,
    PATTERNS,
    TEXTS,
    TOPICS,
    WINDOWS,
    WORDS,
    canonically,
    literal,
)
from tests.core.test_filter_properties import filters
from tests.core.test_zones_properties import boxes, circles, points, polygons

# The first ones are drawn most, so that they meet.
names = st.sampled_from(NAMES[:3]) | st.sampled_from(NAMES)
texts = st.sampled_from(TEXTS[:4]) | st.sampled_from(TEXTS)
numbers = st.sampled_from(NUMBERS[:4]) | st.sampled_from(NUMBERS)
values: st.SearchStrategy[Value] = st.one_of(texts, numbers, st.booleans())
trees = filters(names, texts, numbers)


def _canonical(text: str) -> str:
    return print_filter(parse(text))


def _is_accepted(text: str) -> bool:
    """A filter of too many alternatives is not."""
    try:
        parse(text)
    except FilterError:
        return False
    return True


@st.composite
def plain_predicates(draw: st.DrawFn) -> str:
    """One as the engine can read it itself, or nearly so."""
    name = "`" + draw(names) + "`"
    kind = draw(st.integers(0, 7))
    if kind < 3:
        return f"{name} = {literal(draw(values))}"
    if kind == 3:
        return f"{name} {draw(st.sampled_from(['!=', '<', '<=', '>', '>=']))} {literal(draw(numbers))}"
    if kind == 4:
        return f"{name} between {literal(draw(numbers))} and {literal(draw(numbers))}"
    if kind == 5:
        several = draw(st.lists(values, min_size=1, max_size=4))
        return f"{name} in ({', '.join(map(literal, several))})"
    if kind == 6:
        return f"{name} {draw(st.sampled_from(['prefix', 'suffix', 'contains']))} {literal(draw(texts))}"
    return draw(st.sampled_from([f"exists {name}", f"{name} != {literal(draw(values))}"]))


plain_filters = st.lists(plain_predicates(), min_size=1, max_size=4).map(" and ".join).map(_canonical)
any_filters = trees.map(print_filter).filter(_is_accepted)
subscribed_zones = st.one_of(circles(), boxes(), polygons)
published_zones = st.one_of(points(), points(), circles(), boxes(), polygons)


def _sometimes(draw: st.DrawFn, one_in: int) -> bool:
    return draw(st.integers(1, one_in)) == one_in


@st.composite
def subscriptions(draw: st.DrawFn, ids: st.SearchStrategy[str]) -> SubscriptionRecord:
    parts: dict[str, Any] = {}
    if _sometimes(draw, 5):
        parts["words"] = tuple(draw(st.lists(st.sampled_from(WORDS[:-1]), min_size=1, max_size=3)))
    if _sometimes(draw, 5):
        parts["topic"] = canonical_topic(parse_pattern(draw(st.sampled_from(PATTERNS))))
        parts["topic_scope"] = draw(st.sampled_from(SCOPES))
    if _sometimes(draw, 5):
        parts["zone"] = draw(subscribed_zones)
    if _sometimes(draw, 4):
        parts["from_s"], parts["until_s"] = draw(st.sampled_from(WINDOWS))
    filter = draw(st.one_of(plain_filters, plain_filters, any_filters, st.just("")))
    owner = draw(st.sampled_from(["anna", "bert"]))
    home = draw(st.sampled_from(["connpoint-1", "connpoint-2"]))
    return SubscriptionRecord(draw(ids), owner, home, filter, 0.0, **parts)


attributes: st.SearchStrategy[dict[str, Value]] = st.dictionaries(names, values, max_size=5)


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    parts = {"id": "p", "attributes": draw(attributes)}
    if draw(st.booleans()):
        parts["topic"] = canonical_topic(parse_topic(draw(st.sampled_from(TOPICS))))
    if draw(st.booleans()):
        parts["text"] = " ".join(draw(st.lists(st.sampled_from(WORDS), max_size=5)))
    if draw(st.booleans()):
        parts["zone"] = draw(published_zones)
    if _sometimes(draw, 8):
        parts["expires"] = format_instant(NOW_S + draw(st.sampled_from([-1, 0, 0.001])))
    if _sometimes(draw, 8):
        parts["data"] = draw(st.sampled_from([{"a": [1, "}"]}, '"', None]))
    spelling: Callable[[dict[str, Any]], bytes] = draw(st.sampled_from(SPELLINGS))
    return spelling(parts)


def spaciously(parts: dict[str, Any]) -> bytes:
    """With spaces, and escapes for all that is not ASCII."""
    return json.dumps(parts, indent=1).encode()


def backwards(parts: dict[str, Any]) -> bytes:
    """In another order; `data` is always the last."""
    ordered = sorted(parts, reverse=True, key=lambda name: (name != "data", name))
    return json.dumps({name: parts[name] for name in ordered}, separators=(",", ":")).encode()


SPELLINGS = [canonically, canonically, canonically, spaciously, backwards]
