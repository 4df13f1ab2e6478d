"""The meaning of a whole subscription: each part alone, and all of them joined by *and*."""

from typing import Any

import msgspec
import pytest

from braid.content import Content, encode_content
from braid.instants import format_instant
from braid.matching.meaning import accepts, read_publication
from braid.subscription import SubscriptionRecord

NOW_S = 1_800_000_000.0
MADRID = {"type": "circle", "lat": 40.4168, "lon": -3.7038, "radius_m": 500.0}
PUERTA_DEL_SOL = {"type": "point", "lat": 40.4169, "lon": -3.7035}
GETAFE = {"type": "point", "lat": 40.3083, "lon": -3.7327}
WHOLE: dict[str, Any] = {
    "filter": "value > 40",
    "words": ("white", "houses"),
    "topic": "sports/soccer",
    "zone": MADRID,
    "from_s": NOW_S - 1,
    "until_s": NOW_S + 1,
}
FITTING: dict[str, Any] = {
    "attributes": {"value": 41},
    "text": "A house, painted white",
    "topic": "sports/soccer",
    "zone": PUERTA_DEL_SOL,
    "expires": format_instant(NOW_S + 1),
}


def does_match(parts: dict[str, Any], content: dict[str, Any], previous: Any = None, now_s: float = NOW_S) -> bool:
    record = SubscriptionRecord("s-1", "anna", "connpoint-1", **{"filter": "", "created_s": 0.0, **parts})
    canonical = encode_content(msgspec.convert({"id": "p", **content}, Content))
    return accepts(record, read_publication(canonical), previous, now_s)


def test_the_whole() -> None:
    assert does_match(WHOLE, FITTING)
    assert does_match({}, {})


@pytest.mark.parametrize(
    "change",
    [
        {"attributes": {"value": 40}},
        {"attributes": {}},
        {"text": "A white home"},
        {"text": ""},
        {"topic": "sports/tennis"},
        {"topic": ""},
        {"zone": GETAFE},
        {"zone": None},
        {"expires": format_instant(NOW_S)},
    ],
    ids=str,
)
def test_one_part_that_fails_is_enough(change: dict[str, Any]) -> None:
    assert not does_match(WHOLE, FITTING | change)


def test_what_a_subscription_does_not_say_does_not_matter() -> None:
    for part in ("filter", "words", "topic", "zone"):
        assert does_match({part: WHOLE[part]}, FITTING)
        assert does_match({name: value for name, value in WHOLE.items() if name != part}, FITTING)


def test_a_window_holds_its_beginning_but_not_its_end() -> None:
    window = {"from_s": NOW_S, "until_s": NOW_S + 1}
    assert [does_match(window, {}, now_s=NOW_S + late_s) for late_s in (-0.001, 0, 0.999, 1)] == [
        False,
        True,
        True,
        False,
    ]


def test_an_expired_publication_matches_nothing() -> None:
    content = {"expires": format_instant(NOW_S)}
    assert [does_match({}, content, now_s=NOW_S + late_s) for late_s in (-0.001, 0)] == [True, False]


@pytest.mark.parametrize(
    ("scope", "matched"),
    [
        ("self", ["a/b"]),
        ("below", ["a/b", "a/b/c"]),
        ("both", ["a", "a/b", "a/b/c"]),
    ],
)
def test_scopes_of_topics(scope: str, matched: list[str]) -> None:
    parts = {"topic": "a/b", "topic_scope": scope}
    assert [topic for topic in ("a", "a/b", "a/b/c", "a/x") if does_match(parts, {"topic": topic})] == matched


def test_the_previous_publication_belongs_to_the_topic() -> None:
    parts = {"filter": "price < prev(price) * 0.9"}
    cheaper = {"attributes": {"price": 80}, "topic": "shares/acme"}
    assert does_match(parts, cheaper, {"price": 100})
    assert not does_match(parts, cheaper, {"price": 80})
    assert not does_match(parts, cheaper, {})
    assert not does_match(parts, cheaper, None)
    assert not does_match(parts, {"attributes": {"price": 80}}, {"price": 100})


def test_reading_takes_only_what_decides() -> None:
    content = b'{"id":"a","object":"bus-7","attributes":{"n":1},"data":{"attributes":{"n":2}}}'
    publication = read_publication(content)
    assert publication.attributes == {"n": 1}
    assert (publication.topic, publication.text, publication.zone, publication.expires) == ("", "", None, None)
    with pytest.raises(msgspec.DecodeError):
        read_publication(b"{")
