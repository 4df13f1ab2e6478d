"""Anchors: which part of a subscription is chosen, and how it is written."""

from typing import Any

import pytest
from msgspec.structs import replace

from braid.anchors import ANY, anchored, choose, placed, subscription_of, text_of
from braid.config import Limits
from braid.selector import anchored_key, hash64
from braid.subscription import SubscriptionRecord, canonical_filter
from tests.core.matching_cases import record
from tests.core.test_zones_properties import Zone


def circle(radius_m: float, lat: float = 40.4, lon: float = -3.7) -> Zone:
    return {"type": "circle", "lat": lat, "lon": lon, "radius_m": radius_m}


def box(south: float, west: float, north: float, east: float) -> Zone:
    return {"type": "box", "south": south, "west": west, "north": north, "east": east}


SMALL, LARGE = circle(1_000), circle(200_000)
POLYGON = {"type": "Polygon", "coordinates": [[[0.1, 0.1], [0.2, 0.1], [0.1, 0.2], [0.1, 0.1]]]}
TABLE: list[tuple[str, dict[str, Any], str, str]] = [
    # words: the longest stem
    ("", {"words": ("houses",)}, "w0", "words:hous"),
    ("", {"words": ("tax", "Houses")}, "w1", "words:hous"),
    ("", {"words": ("white", "house", "voting")}, "w0", "words:white"),
    ("", {"words": ("the", "tax")}, "w1", "words:tax"),
    ("", {"words": ("white house",)}, "w0", "words:hous white"),
    ("", {"words": ("house white house",)}, "w0", "words:hous white"),
    ("", {"words": ("niño",)}, "w0", "words:niño"),
    ("n = 1", {"words": ("tax",), "topic": "a", "zone": SMALL}, "w0", "words:tax"),
    # a small zone
    ("", {"zone": SMALL}, "z", "box:40.375,-3.71875,0.03125"),
    ("n = 1", {"zone": SMALL, "topic": "a"}, "z", "box:40.375,-3.71875,0.03125"),
    ("", {"zone": {"type": "point", "lat": 1.5, "lon": 2.5}}, "z", "box:1.4921875,2.4921875,0.0078125"),
    ("", {"zone": box(0.1, 0.1, 0.2, 0.2)}, "z", "box:0.0,0.0,0.125"),
    ("", {"zone": POLYGON}, "z", "box:0.0,0.0,0.125"),
    # an equality, the longest, and of those of one length the smallest
    ("n = 1", {}, "f0:5", "filter:n = 1"),
    ("n = 1 and sensor = 's1'", {}, "f10:23", "filter:sensor = 's1'"),
    ("b = 2 and a = 1", {}, "f10:15", "filter:a = 1"),
    ("n = 1 and x > 5 and name prefix 'abcdef'", {}, "f0:5", "filter:n = 1"),
    ("n = 1", {"topic": "a/b", "zone": LARGE}, "f0:5", "filter:n = 1"),
    ("n in (1)", {"topic": "a/b"}, "f0:8", "filter:n in (1)"),
    ("n in (1, 2) and m = 3", {}, "f16:21", "filter:m = 3"),
    ("`it's` = 'it''s' and `in` = 2", {}, "f0:16", "filter:`it's` = 'it''s'"),
    ("(a = 1 or b = 2) and c = 3", {}, "f21:26", "filter:c = 3"),
    ("not (a = 10) and a = 1", {}, "f5:10", "filter:a = 1"),  # wherever it stands, the same characters say the same
    # a topic
    ("", {"topic": "a/b"}, "t", "topic:both:a/b"),
    ("", {"topic": "a/b", "topic_scope": "self"}, "t", "topic:self:a/b"),
    ("", {"topic": "a/+", "topic_scope": "below"}, "t", "topic:below:a/+"),
    ("", {"topic": "1.4.#", "topic_scope": "self"}, "t", "topic:self:1.4.#"),
    ("n in (1, 2) and name prefix 'ab'", {"topic": "a/b", "zone": LARGE}, "t", "topic:both:a/b"),
    # a short list
    ("n in (1, 2, 3)", {}, "f0:14", "filter:n in (1, 2, 3)"),
    ("n in (1, 2) and m in (1, 2, 3)", {}, "f16:30", "filter:m in (1, 2, 3)"),
    ("n in (1, 2, 3, 4, 5, 6, 7, 8)", {}, "f0:29", "filter:n in (1, 2, 3, 4, 5, 6, 7, 8)"),
    ("n in (1, 2) and name prefix 'abcdef'", {"zone": LARGE}, "f0:11", "filter:n in (1, 2)"),
    # a prefix
    ("name prefix 'ab'", {}, "f0:16", "filter:name prefix 'ab'"),
    ("n > 1 and name prefix 'ab' and b prefix 'c'", {"zone": LARGE}, "f10:26", "filter:name prefix 'ab'"),
    ("n in (1, 2, 3, 4, 5, 6, 7, 8, 9) and name prefix 'a'", {}, "f37:52", "filter:name prefix 'a'"),
    # a large zone
    ("", {"zone": LARGE}, "z", "box:32.0,-8.0,8.0"),
    ("n > 1", {"zone": LARGE, "topic": "+/b"}, "z", "box:32.0,-8.0,8.0"),
]
WITHOUT: list[tuple[str, dict[str, Any]]] = [
    ("", {}),
    ("n > prev(n) and m = 1", {}),
    ("n > prev(n)", {"words": ("tax",), "topic": "a", "zone": SMALL}),
    ("not (n = prev(n) * 2) and m = 1", {}),
    ("a = 1 or b = 2", {}),
    ("a = 1 or a = 2 and b = 3", {}),
    ("(a = 1 or b = 2) and c > 3", {}),
    ("n > 1 and m <= 3", {}),
    ("n between 1 and 2", {}),
    ("n != 1", {}),
    ("not (n = 1)", {}),
    ("exists n", {}),
    ("name suffix 'ab' and name contains 'a'", {}),
    ("n in (1, 2, 3, 4, 5, 6, 7, 8, 9)", {}),
    ("", {"topic": "+/b"}),
    ("", {"topic": "#", "topic_scope": "self"}),
    ("", {"topic": "+.4"}),
    ("", {"zone": circle(2_000_000)}),
    ("", {"zone": box(-60, -100, 60, 100)}),
    ("", {"zone": box(10, 179.99, 10.1, -179.99)}),  # on both sides of the antimeridian
    ("", {"zone": box(10, 179.9, 10.05, 180)}),
    ("", {"zone": box(10, 179.9, 10.05, 179.999)}),  # so close to it that its tile would reach beyond
    ("", {"zone": box(10, -180, 10.05, -179.95)}),
    ("", {"zone": box(10, -179.999, 10.05, -179.95)}),
    ("", {"zone": circle(1_000, lat=90, lon=0)}),
    ("", {"zone": circle(1_000, lat=-89.999, lon=0)}),
    ("", {"zone": box(89.9, 10, 89.999, 10.05)}),
    ("", {"zone": box(-89.999, 10, -89.9, 10.05)}),
]


@pytest.mark.parametrize(("filter", "parts", "anchor", "text"), TABLE)
def test_the_anchor_and_its_text(filter: str, parts: dict[str, Any], anchor: str, text: str) -> None:
    given = record("s-1", filter, **parts)
    assert (choose(given), text_of(given)) == (anchor, text)
    assert text_of(replace(given, anchor=anchor)) == text
    again = subscription_of(text, "a-1", "matcher-1")
    assert (again.id, again.home) == ("a-1", "matcher-1")
    assert text_of(again) == text or again.zone is not None  # a tile around a tile is larger


@pytest.mark.parametrize(("filter", "parts"), WITHOUT)
def test_what_has_no_anchor_is_met_by_every_publication(filter: str, parts: dict[str, Any]) -> None:
    given = record("s-1", filter, **parts)
    assert (choose(given), text_of(given)) == (ANY, ANY)
    assert subscription_of(ANY, "s-1", "m") == SubscriptionRecord("s-1", "", "m", "", 0.0)


def test_another_part_in_the_record_is_as_good() -> None:
    """Whoever guesses better may choose differently."""
    given = record("s-1", "n = 1 and m > 2", topic="a/b", zone=SMALL, words=("tax", "vote"))
    texts = [text_of(replace(given, anchor=anchor)) for anchor in ("w0", "w1", "t", "f0:5", "f10:15", "z", "*")]
    assert texts[:2] == ["words:tax", "words:vote"]
    assert texts[2:] == ["topic:both:a/b", "filter:n = 1", "filter:m > 2", "box:40.375,-3.71875,0.03125", "*"]
    assert text_of(replace(given, zone=None, anchor="z")) == ANY
    assert text_of(replace(given, zone=circle(5_000_000), anchor="z")) == ANY


def test_words_of_one_stem_have_one_text_unless_the_stem_is_another_word() -> None:
    assert {text_of(record("s", words=(word,))) for word in ("vote", "votes", "Voting", "VOTED")} == {"words:vote"}
    # The stem of these would be a stop word, or have a stem of its own.
    for word in ("owned", "agreed"):
        assert text_of(record("s", words=(word,))) == f"words:{word}"


@pytest.mark.parametrize("text", ["", "x", "word:tax", "**", "f0:5", "zone:1,2,3", "Filter:n = 1", "anchor"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no anchor"):
        subscription_of(text, "a-1", "matcher-1")


@pytest.mark.parametrize("text", ["box:", "box:1,2", "box:1,2,3,4", "box:a,b,c"])
def test_tiles_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"unpack|convert"):
        subscription_of(text, "a-1", "matcher-1")


def test_a_filter_of_more_predicates_than_usual_has_an_anchor() -> None:
    """The connection point has held it against its own limit."""
    limits = Limits(filter_predicates_max=1_000)
    text = canonical_filter(" and ".join(["n = 1", *(f"x{number} > {number}" for number in range(500))]), limits)
    assert text_of(SubscriptionRecord("s-1", "anna", "connpoint-1", text, 0.0)) == "filter:n = 1"


def test_a_filter_that_would_not_be_accepted_any_more_has_an_anchor() -> None:
    """It may be stored since a version that knew no limit of alternatives, or spelled filters differently."""
    many = " and ".join(["n = 1", *(f"(x{number} > 1 or y{number} > 1)" for number in range(11))])
    assert text_of(SubscriptionRecord("s-1", "anna", "connpoint-1", many, 0.0)) == "filter:n = 1"
    assert text_of(SubscriptionRecord("s-1", "anna", "connpoint-1", "n=1", 0.0)) == ANY
    assert text_of(SubscriptionRecord("s-1", "anna", "connpoint-1", "n=1", 0.0, topic="a/b")) == "topic:both:a/b"


# Ids


def test_the_id_says_where_a_subscription_lies() -> None:
    first, second = (placed(record("", filter)) for filter in ("n = 1 and m > 2", "k < 3 and n = 1"))
    other = placed(record("", "n = 2"))
    assert first.id != second.id
    assert first.id[:2] == "s-"
    assert len(first.id) == len(other.id) == 26
    assert first.id[-8:] == second.id[-8:] == f"{hash64('filter:n = 1'):016x}"[:8] != other.id[-8:]
    assert anchored_key(first.id) == hash64("filter:n = 1") >> 32 << 32
    assert (first.anchor, second.anchor) == ("f0:5", "f10:15")


def test_those_without_an_anchor_lie_anywhere() -> None:
    several = [placed(record("", "n > 1")) for _ in range(20)]
    assert {given.anchor for given in several} == {ANY}
    assert len({given.id[-8:] for given in several}) == 20


def test_a_change_chooses_anew_and_leaves_it_where_it_is() -> None:
    before = placed(record("", "n = 1"))
    after = anchored(replace(before, filter="m = 2 and n > 1"))
    assert (after.id, text_of(after)) == (before.id, "filter:m = 2")
    # Without it, the anchor would be characters of another filter.
    assert text_of(anchored(replace(before, filter=""))) == ANY
