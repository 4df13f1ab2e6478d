"""Explanations: the part that failed, the values it saw, and the way of the question through the layers."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.codec import decode_messages, encode_frames
from braid.content import Content, encode_content
from braid.filters import evaluate, parse
from braid.instants import format_instant
from braid.matching.explanation import Explanation, PartExplained
from braid.matching.filter_explanation import blamed, explain_filter
from braid.matching.meaning import Publication, accepts, read_publication
from braid.matching.pair_explanation import explain_pair
from braid.messages import Explain, Explained, Send
from braid.subscription import SubscriptionRecord
from braid.topology import Configuration
from services.accesspoint.core import AccessPointCore

NOW_S = 1_800_000_000.0
MADRID = {"type": "circle", "lat": 40.4168, "lon": -3.7038, "radius_m": 500.0}
GETAFE = {"type": "point", "lat": 40.3083, "lon": -3.7327}
PROPERTY = settings(derandomize=True, deadline=None, database=None)


def record(**parts: Any) -> SubscriptionRecord:
    return SubscriptionRecord("s-1", "anna", "connpoint-1", **{"filter": "", "created_s": 0.0, **parts})


def publication(**content: Any) -> Publication:
    return read_publication(encode_content(msgspec.convert({"id": "p", **content}, Content)))


def explained(parts: dict[str, Any], content: dict[str, Any], previous: Any = None) -> Explanation:
    """Also checks that it survives its way as JSON, and that the verdict is that of the meaning."""
    explanation = explain_pair(record(**parts), publication(**content), previous, NOW_S)
    assert msgspec.json.decode(msgspec.json.encode(explanation), type=Explanation) == explanation
    assert explanation.matches == accepts(record(**parts), publication(**content), previous, NOW_S)
    assert explanation.failed == [part.part for part in explanation.parts if not part.holds]
    for part in explanation.parts:
        assert bool(part.reasons) != part.holds
    return explanation


def the_part(parts: dict[str, Any], content: dict[str, Any], previous: Any = None) -> PartExplained:
    (part,) = explained(parts, content, previous).parts
    return part


# Filters


@pytest.mark.parametrize(
    ("filter", "attributes", "reasons"),
    [
        ("value > 40", {"value": 12}, ["value > 40: value is 12"]),
        ("value > 40", {}, ["value > 40: value is missing"]),
        ("value > 40", {"value": "high"}, ["value > 40: value is 'high', a string, not a number"]),
        ("on = true", {"on": 1}, ["on = true: on is 1, a number, not a boolean"]),
        ("n in (1, 'x')", {"n": True}, ["n in (1, 'x'): n is true, a boolean, not a number or a string"]),
        ("n between 1 and 2", {"n": "1"}, ["n between 1 and 2: n is '1', a string, not a number"]),
        ("city prefix 'Mad'", {"city": 7}, ["city prefix 'Mad': city is 7, a number, not a string"]),
        ("exists city", {}, ["exists city: city is missing"]),
        ("not (n != 3)", {"n": 4}, ["not (n != 3): n is 4"]),
        ("a = 1 and b = 2 and c = 3", {"a": 1, "b": 1}, ["b = 2: b is 1", "c = 3: c is missing"]),
        ("a = 1 or b = 2", {"a": 2, "b": 3}, ["a = 1: a is 2", "b = 2: b is 3"]),
        ("not (a = 1 or b = 2)", {"a": 1, "b": 3}, ["not (a = 1): a is 1"]),
        ("not (a = 1 and b = 2)", {"a": 1, "b": 2}, ["not (a = 1): a is 1", "not (b = 2): b is 2"]),
        ("a = 'x' and (b = 1 or not exists a)", {"a": "x"}, ["b = 1: b is missing", "not (exists a): a is 'x'"]),
    ],
)
def test_the_predicates_that_fail_say_what_they_saw(
    filter: str, attributes: dict[str, Any], reasons: list[str]
) -> None:
    part = the_part({"filter": filter}, {"attributes": attributes})
    assert (part.part, part.holds, part.wants) == ("filter", False, filter)
    assert part.reasons == reasons


def test_a_filter_is_explained_as_a_tree() -> None:
    part = the_part({"filter": "value > 40 and not (city = 'Getafe')"}, {"attributes": {"value": 12, "city": "Madrid"}})
    assert msgspec.to_builtins(part.filter) == {
        "text": "and",
        "holds": False,
        "steps": [
            {"text": "value > 40", "holds": False, "saw": "value is 12", "values": {"value": 12}},
            {
                "text": "not",
                "holds": True,
                "steps": [
                    {
                        "text": "city = 'Getafe'",
                        "holds": False,
                        "saw": "city is 'Madrid'",
                        "values": {"city": "Madrid"},
                    }
                ],
            },
        ],
    }


@pytest.mark.parametrize(
    ("content", "previous", "saw", "values"),
    [
        ({"topic": "t"}, {"price": 100}, "price is 95; prev(price) is 100", {"price": 95, "prev(price)": 100}),
        (
            {"topic": "t"},
            {},
            "price is 95; prev(price) is missing: the publication before had none, or it was not yet looked at",
            {"price": 95, "prev(price)": None},
        ),
        (
            {"topic": "t"},
            None,
            "price is 95; prev(price) is missing: of its topic, no publication before this one is remembered",
            {"price": 95, "prev(price)": None},
        ),
        (
            {},
            {"price": 200},
            "price is 95; prev(price) is missing: the publication has no topic",
            {"price": 95, "prev(price)": None},
        ),
    ],
)
def test_what_was_seen_of_the_previous_publication(
    content: dict[str, Any], previous: Any, saw: str, values: dict[str, Any]
) -> None:
    part = the_part({"filter": "price < prev(price) * 0.9"}, {**content, "attributes": {"price": 95}}, previous)
    assert part.filter is not None
    assert (part.filter.saw, part.filter.values) == (saw, values)


def test_long_values_are_cut() -> None:
    part = the_part({"filter": "name = 'x'"}, {"attributes": {"name": "y" * 10_000}})
    assert part.filter is not None
    assert part.filter.values == {"name": "y" * 200 + "…"}
    assert len(part.filter.saw) < 250


PREDICATES = st.sampled_from(["a = 1", "a > 0", "b = 'x'", "exists b", "c in (1, true)", "b contains 'x'"])
FILTERS = st.recursive(
    PREDICATES,
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("not ({})".format, inner),
    ),
    max_leaves=8,
)
VALUES = st.one_of(st.integers(-1, 2), st.sampled_from(["x", "y"]), st.booleans())


@PROPERTY
@given(FILTERS, st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES))
def test_the_tree_agrees_with_the_language_and_blames_exactly_when_it_fails(
    text: str, attributes: dict[str, Any]
) -> None:
    node = parse(text)
    tree = explain_filter(node, Publication(attributes=attributes), None)
    assert tree.holds == evaluate(node, attributes)
    assert bool(list(blamed(tree))) != tree.holds


# The other parts


def test_words_name_the_stems_that_are_missing() -> None:
    part = the_part({"words": ("White", "houses", "garden")}, {"text": "the white home"})
    assert (part.wants, part.saw, part.missing) == ("White, houses, garden", "the white home", ["hous", "garden"])
    assert part.reasons == ["the text has no word of the stems: hous, garden"]
    assert the_part({"words": ("white",)}, {}).reasons == ["the publication has no text"]
    assert the_part({"words": ("house",)}, {"text": "Houses!"}).holds


@pytest.mark.parametrize(
    ("scope", "topic", "reason"),
    [
        ("self", "a", "'a' is not 'a/b'"),
        ("below", "a", "'a' is neither 'a/b' nor below it"),
        ("both", "a/c", "'a/c' is neither 'a/b' nor above or below it"),
        ("both", "", "the publication has no topic"),
    ],
)
def test_topics_say_both_and_the_scope(scope: str, topic: str, reason: str) -> None:
    part = the_part({"topic": "a/b", "topic_scope": scope}, {"topic": topic})
    assert (part.wants, part.saw, part.reasons) == (f"a/b (topic_scope {scope})", topic, [reason])


def test_zones_say_how_far_apart_they_are() -> None:
    part = the_part({"zone": MADRID}, {"zone": GETAFE})
    assert part.distance_m is not None
    assert 11_500 < part.distance_m < 12_000
    assert part.reasons == [f"the zones do not intersect: they are {part.distance_m / 1000:.1f} km apart"]
    assert '"radius_m":500.0' in part.wants
    assert '"lat":40.3083' in part.saw
    assert the_part({"zone": MADRID}, {}).reasons == ["the publication has no zone"]
    inside = the_part({"zone": MADRID}, {"zone": GETAFE | {"lat": 40.4169, "lon": -3.7035}})
    assert (inside.holds, inside.distance_m) == (True, None)


def test_windows_say_which_bound() -> None:
    early = the_part({"from_s": NOW_S + 1}, {})
    assert early.reasons == [f"the window begins at {format_instant(NOW_S + 1)}, and now it is {format_instant(NOW_S)}"]
    late = the_part({"from_s": NOW_S - 9, "until_s": NOW_S}, {})
    assert late.wants == f"from {format_instant(NOW_S - 9)} until {format_instant(NOW_S)}"
    assert late.reasons == [f"the window ended at {format_instant(NOW_S)}, and now it is {format_instant(NOW_S)}"]
    assert the_part({"until_s": NOW_S + 1}, {}).saw == format_instant(NOW_S)


def test_an_expired_publication_fails_for_every_subscription() -> None:
    part = the_part({}, {"expires": format_instant(NOW_S - 1)})
    assert part.part == "expires"
    assert part.reasons == [
        f"the publication expired at {format_instant(NOW_S - 1)}, and now it is {format_instant(NOW_S)}"
    ]


def test_all_parts_are_looked_at() -> None:
    parts = {"filter": "n = 1", "words": ("x",), "topic": "a", "zone": MADRID, "until_s": NOW_S}
    explanation = explained(parts, {"expires": format_instant(NOW_S)})
    assert explanation.failed == ["expires", "window", "filter", "words", "topic", "zone"]
    assert explained({}, {}).parts == []


# The question on its way

CONFIGURATION = Configuration(4, ("accesspoint-1",), ("matcher-1", "matcher-2"), ("exitpoint-1",))


def test_the_question_goes_to_all_matchers_and_the_answers_to_whoever_asked() -> None:
    core = AccessPointCore("accesspoint-1", lambda: 0)
    question = Explain(4, 1, "connpoint-2", b"{}", "s-1", 10)
    assert core.on_explain(question) == []
    core.on_configuration(CONFIGURATION, 0.0)
    asked = Explain(4, 1, "connpoint-2", b"{}", "s-1", 10, asked=2)
    assert core.on_explain(question) == [Send("matcher-1", [asked]), Send("matcher-2", [asked])]
    assert core.on_explain(Explain(3, 1, "connpoint-2", b"{}", "s-1", 10)) == core.on_explain(question)
    assert core.stale == 1
    answer = Explained(4, 1, "connpoint-2", "matcher-1", ["s-1"], 1, b"{}")
    assert core.on_answer(answer) == [Send("connpoint-2", [answer])]


def test_both_messages_survive_the_wire() -> None:
    sent = [Explain(4, 1, "c", b'{"id":"a"}', "s-1", 10), Explained(4, 1, "c", "m", ["s-1"], 3, b'{"matches":true}')]
    (frame,) = encode_frames(sent, 10_000)
    assert decode_messages(frame[4:]) == sent
