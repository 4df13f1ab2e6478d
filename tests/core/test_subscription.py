"""Subscriptions where they enter: what is stored, what it means, and the problem for everything that cannot be."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from braid.config import Limits
from braid.content import ContentWriter, decode_content
from braid.matching.meaning import accepts, read_publication
from braid.problems import Problem
from braid.subscription import (
    Subscription,
    SubscriptionPatch,
    SubscriptionRecord,
    apply_patch,
    canonical_filter,
    check_subscription,
    decode_subscription,
    decode_subscription_patch,
)

NOW = 1_777_636_800.0  # 2026-05-01T12:00:00Z
LIMITS = Limits(filter_length_max=60, filter_predicates_max=3, name_length_max=20, words_max=3)
PAGE = (Path(__file__).parents[2] / "docs" / "subscriptions.md").read_text(encoding="utf-8")

CIRCLE = {"type": "circle", "lat": 40.4, "lon": -3.7, "radius_m": 500.0}
POINT = {"type": "point", "lat": 40.4, "lon": -3.7}


def check(given: Subscription, subscriber: str = "anna", temporary: bool = False) -> SubscriptionRecord:
    return check_subscription(
        given, LIMITS, NOW, id="s-1", subscriber=subscriber, home="connpoint-1", temporary=temporary
    )


def problem_of(given: Subscription, subscriber: str = "anna") -> dict[str, Any]:
    with pytest.raises(Problem) as raised:
        check(given, subscriber)
    return raised.value.document()


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"the page has no {language} block"
    return found


def rows(language: str) -> list[list[str]]:
    lines = "".join(blocks(language)).splitlines()
    return [[cell.strip() for cell in line.split(" | ")] for line in lines]


def is_accepted(subscription: str, publication: str, previous: dict[str, Any] | None = None) -> bool:
    """The whole way: both are read, checked and written canonically, then held against each other."""
    limits = Limits()
    record = check_subscription(
        decode_subscription(subscription), limits, NOW, id="s-1", subscriber="anna", home="c", temporary=False
    )
    content = ContentWriter(limits).write(decode_content(publication), NOW)
    return accepts(record, read_publication(content), previous, NOW)


@pytest.mark.parametrize(("subscription", "publication", "expected"), rows("subscription-examples"))
def test_example(subscription: str, publication: str, expected: str) -> None:
    assert is_accepted(subscription, publication) is (expected == "true")


@pytest.mark.parametrize(("subscription", "previous", "publication", "expected"), rows("previous-examples"))
def test_example_with_a_previous_publication(subscription: str, previous: str, publication: str, expected: str) -> None:
    assert is_accepted(subscription, publication, json.loads(previous)) is (expected == "true")


def test_the_first_example_is_a_subscription() -> None:
    (example,) = blocks("json")
    given = decode_subscription(example)
    record = check_subscription(given, Limits(), NOW, id="s-1", subscriber=given.subscriber, home="c", temporary=False)
    assert {**json.loads(example), "from": record.public()["from"], "until": record.public()["until"]} == {
        name: value for name, value in record.public().items() if name not in ("id", "connpoint", "created")
    }


def test_the_limits_of_the_page() -> None:
    listed = dict(re.findall(r"^\| `limits\.(\w+)` \| (\d+) \|", PAGE, re.MULTILINE))
    assert listed
    assert {name: getattr(Limits(), name) for name in listed} == {name: int(value) for name, value in listed.items()}


def test_the_record() -> None:
    given = decode_subscription(b'{"filter":"n=1 AND (s=\'x\')","from":"+1m","until":"+1h","subscriber":"anna"}')
    record = check(given, temporary=True)
    assert record == SubscriptionRecord(
        "s-1", "anna", "connpoint-1", "n = 1 and s = 'x'", NOW, NOW + 60, NOW + 3600, temporary=True
    )
    assert record.public() == {
        "id": "s-1",
        "subscriber": "anna",
        "connpoint": "connpoint-1",
        "filter": "n = 1 and s = 'x'",
        "from": "2026-05-01T12:01:00.000Z",
        "until": "2026-05-01T13:00:00.000Z",
        "temporary": True,
        "created": "2026-05-01T12:00:00.000Z",
    }


def test_the_record_of_words_topic_and_zone() -> None:
    given = decode_subscription(
        b'{"words":["White House"],"topic":"1/4","topic_scope":"below",'
        b'"zone":{"type":"Point","coordinates":[-3.7,40.4]}}'
    )
    record = check(given)
    assert (record.words, record.topic, record.topic_scope, record.zone) == (("White House",), "1.4", "below", POINT)
    assert record.public() == {
        "id": "s-1",
        "subscriber": "anna",
        "connpoint": "connpoint-1",
        "words": ["White House"],
        "topic": "1.4",
        "topic_scope": "below",
        "zone": POINT,
        "created": "2026-05-01T12:00:00.000Z",
    }
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=SubscriptionRecord) == record


@pytest.mark.parametrize(
    ("topic", "scope", "in_force"),
    [
        ("sports/soccer", "", "both"),
        ("sports/soccer", "both", "both"),
        ("sports/soccer", "self", "self"),
        ("sports/+", "", "self"),
        ("sports/#", "", "self"),
        ("sports/+", "both", "both"),
        ("", "", "both"),
    ],
)
def test_the_scope_in_force(topic: str, scope: str, in_force: str) -> None:
    record = check(Subscription(topic=topic, topic_scope=scope))
    assert record.topic_scope == in_force
    assert record.public().get("topic_scope", "both") == in_force


def test_what_was_not_given_is_not_shown() -> None:
    assert check(Subscription()).public() == {
        "id": "s-1",
        "subscriber": "anna",
        "connpoint": "connpoint-1",
        "created": "2026-05-01T12:00:00.000Z",
    }


@pytest.mark.parametrize("nothing", ["", "  ", "\n"])
def test_a_filter_that_says_nothing(nothing: str) -> None:
    assert canonical_filter(nothing, LIMITS) == ""


def test_text_and_json_have_one_canonical_form() -> None:
    as_json = {"and": [{"attr": "n", "op": ">", "value": 40}, {"not": {"attr": "city", "op": "exists"}}]}
    assert canonical_filter(as_json, LIMITS) == canonical_filter("n>40 and not exists city", LIMITS)
    assert canonical_filter(as_json, LIMITS) == "n > 40 and not exists city"


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("n >", 3, None),
        ("n between 1", 11, ["and"]),
        ("n = 1 and", 9, None),
        ("n", 1, None),
        ("(n = 1", 6, None),
        ("n = 'x", 4, None),
        ("n = 1 n = 2", 6, None),
        ("n ~ 1", 2, None),
        ("price < prev(price", 18, None),
    ],
)
def test_a_filter_error_says_where(text: str, position: int, expected: list[str] | None) -> None:
    problem = problem_of(Subscription(filter=text))
    assert (problem["status"], problem["type"]) == (422, "urn:braid:problem:invalid-field")
    assert (problem["field"], problem["position"]) == ("$.filter", position)
    if expected is not None:
        assert problem["expected"] == expected
    assert text in problem["detail"]


def test_an_error_in_the_json_form_names_the_path() -> None:
    problem = problem_of(Subscription(filter={"and": [{"attr": "n", "op": "=", "value": 1}, {"attr": "n", "op": "~"}]}))
    assert (problem["status"], problem["field"]) == (422, "$.filter")
    assert "position" not in problem
    assert "(at $.and[1].op)" in problem["detail"]
    assert "between" in problem["expected"]


@pytest.mark.parametrize("empty", [{}, {"and": []}, {"attr": "n"}, {"attr": "n", "op": "=", "value": None}])
def test_a_json_filter_that_is_none(empty: dict[str, Any]) -> None:
    assert problem_of(Subscription(filter=empty))["field"] == "$.filter"


@pytest.mark.parametrize(
    ("given", "limit", "maximum", "actual", "field"),
    [
        (Subscription(filter="n = 1" + " " * 56), "filter_length_max", 60, 61, "$.filter"),
        (
            Subscription(filter={"attr": "n", "op": "=", "value": "x" * 55}),
            "filter_length_max",
            60,
            61,
            "$.filter",
        ),
        (Subscription(topic="x" * 21), "name_length_max", 20, 21, "$.topic"),
        (Subscription(words=["a", "x" * 21]), "name_length_max", 20, 21, "$.words[1]"),
        (Subscription(words=["ax", "bx", "cx", "dx"]), "words_max", 3, 4, "$.words"),
        (Subscription(words=["ax bx", "cx dx"]), "words_max", 3, 4, "$.words"),
    ],
)
def test_limits(given: Subscription, limit: str, maximum: int, actual: int, field: str) -> None:
    problem = problem_of(given)
    assert problem["type"] == "urn:braid:problem:limit-exceeded"
    assert (problem["status"], problem["field"]) == (422, field)
    assert (problem["limit"], problem["maximum"], problem["actual"]) == (f"limits.{limit}", maximum, actual)


def test_the_canonical_form_of_an_accepted_text_may_be_longer() -> None:
    text = "n in(" + ",".join("123456789") + ",1234567890,1234567890,1234567890)"
    assert len(text) <= 60 < len(canonical_filter(text, LIMITS))


def test_exactly_at_the_limit_of_the_filter_length() -> None:
    assert canonical_filter("n = 1" + " " * 55, LIMITS) == "n = 1"
    assert len(canonical_filter({"attr": "n", "op": "=", "value": "x" * 54}, LIMITS)) == 60


def test_too_many_predicates() -> None:
    part = {"attr": "n", "op": "exists"}
    assert "more than 3 predicates" in problem_of(Subscription(filter="a=1 and b=1 and c=1 and d=1"))["detail"]
    assert "more than 3 predicates" in problem_of(Subscription(filter={"and": [part] * 4}))["detail"]
    assert check(Subscription(filter={"and": [part] * 3})).filter == "exists n and exists n and exists n"


def test_a_subscriber_name_too_long() -> None:
    problem = problem_of(Subscription(), subscriber="x" * 21)
    assert (problem["status"], problem["limit"], problem["field"]) == (422, "limits.name_length_max", "$.subscriber")


@pytest.mark.parametrize(("given", "from_s"), [("-10s", NOW - 10), (0, 0.0), ("2026-05-01T11:00:00Z", NOW - 3600)])
def test_a_window_may_begin_in_the_past(given: str | int, from_s: float) -> None:
    assert check(Subscription(from_=given)).from_s == from_s


def test_distinct_is_kept_and_shown() -> None:
    distinct = check(Subscription(distinct=True))
    assert distinct.distinct
    assert distinct.public()["distinct"] is True
    assert "distinct" not in check(Subscription()).public()


@pytest.mark.parametrize(
    ("given", "field", "detail"),
    [
        (Subscription(words=["the", "of"]), "$.words", "only stop words"),
        (Subscription(words=[""]), "$.words", "'' holds no word"),
        (Subscription(words=["rain", "!"]), "$.words", "'!' holds no word"),
        (Subscription(topic="sports//soccer"), "$.topic", "the level 2 of"),
        (Subscription(topic="sports/#/spain"), "$.topic", "'#' can only be the last level"),
        (Subscription(topic="sports", topic_scope="above"), "$.topic_scope", "'above' is no scope"),
        (Subscription(topic_scope="below"), "$.topic_scope", "a scope needs a 'topic'"),
        (Subscription(zone={}), "$.zone.type", "expected one of"),
        (Subscription(zone={"type": "point", "lat": 1}), "$.zone", "'lon' is missing"),
        (Subscription(zone={**CIRCLE, "radius_m": -1}), "$.zone.radius_m", "expected a number from 0"),
        (
            Subscription(zone={"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 99], [0, 0]]]}),
            "$.zone.coordinates[0][2][1]",
            "expected a number from -90 to 90",
        ),
    ],
)
def test_parts_that_cannot_be_used(given: Subscription, field: str, detail: str) -> None:
    problem = problem_of(given)
    assert (problem["status"], problem["type"]) == (422, "urn:braid:problem:invalid-field")
    assert problem["field"] == field
    assert problem["detail"].startswith(detail)


def test_an_unknown_scope_names_the_known_ones() -> None:
    assert problem_of(Subscription(topic="a", topic_scope="Self"))["expected"] == ["self", "below", "both"]


@pytest.mark.parametrize(
    "harmless",
    [Subscription(words=[]), Subscription(distinct=False), Subscription(from_="-1s"), Subscription(from_="+0s")],
)
def test_parts_that_ask_for_nothing_are_no_error(harmless: Subscription) -> None:
    assert check(harmless).id == "s-1"


@pytest.mark.parametrize(
    ("given", "field", "detail"),
    [
        (Subscription(until="-1s"), "$.until", "the window ends before it begins"),
        (Subscription(until="+0s"), "$.until", "the window ends before it begins"),
        (Subscription(from_="+2h", until="+1h"), "$.until", "the window ends before it begins"),
        (Subscription(from_="+1h", until="+1h"), "$.until", "the window ends before it begins"),
        (Subscription(until="2026-05-01T11:00:00Z"), "$.until", "the window ends before it begins"),
        (Subscription(until="soon"), "$.until", "expected a time such as"),
        (Subscription(from_="soon"), "$.from", "expected a time such as"),
        (Subscription(until=-5), "$.until", "expected a time between the years 1970 and 9999"),
        (Subscription(until=10**400), "$.until", "expected a time between the years 1970 and 9999"),
        (Subscription(until="9999-12-31T23:59:59-14:00"), "$.until", "expected a time between"),
        (Subscription(from_="1960-01-01T00:00:00Z"), "$.from", "expected a time between the years 1970 and 9999"),
    ],
)
def test_windows_that_cannot_be(given: Subscription, field: str, detail: str) -> None:
    problem = problem_of(given)
    assert (problem["status"], problem["field"]) == (422, field)
    assert problem["detail"].startswith(detail)


RECORD = SubscriptionRecord("s-1", "anna", "connpoint-2", "n = 1", NOW - 100, NOW - 50, NOW + 50, temporary=True)


def test_a_patch_changes_only_what_it_names() -> None:
    changed = apply_patch(RECORD, decode_subscription_patch(b'{"filter":"n=2"}'), LIMITS, NOW)
    assert changed == msgspec.structs.replace(RECORD, filter="n = 2")
    changed = apply_patch(RECORD, decode_subscription_patch(b'{"from":null,"until":"+2h"}'), LIMITS, NOW)
    assert changed == msgspec.structs.replace(RECORD, from_s=None, until_s=NOW + 7200)


def test_null_removes_a_bound() -> None:
    changed = apply_patch(RECORD, decode_subscription_patch(b'{"from":null,"until":null}'), LIMITS, NOW)
    assert (changed.from_s, changed.until_s) == (None, None)
    assert "until" not in changed.public()


def test_an_empty_filter_removes_the_filter() -> None:
    assert apply_patch(RECORD, SubscriptionPatch(filter=""), LIMITS, NOW).filter == ""


def test_a_zone_moves() -> None:
    moved = apply_patch(RECORD, SubscriptionPatch(zone={**CIRCLE, "lat": 41}), LIMITS, NOW)
    assert moved == msgspec.structs.replace(RECORD, zone={**CIRCLE, "lat": 41.0})
    assert moved.public()["zone"] == {**CIRCLE, "lat": 41.0}
    assert apply_patch(moved, decode_subscription_patch(b'{"zone":null}'), LIMITS, NOW) == RECORD


def test_the_window_is_not_judged_when_only_the_zone_moves() -> None:
    late = msgspec.structs.replace(RECORD, until_s=NOW - 1)
    assert apply_patch(late, SubscriptionPatch(zone=POINT), LIMITS, NOW).zone == POINT


@pytest.mark.parametrize(
    ("patch", "status", "field"),
    [
        (b"{}", 422, "$"),
        (b'{"zone":{"type":"point"}}', 422, "$.zone"),
        (b'{"zone":{"type":"point","lat":1,"lon":"x"}}', 422, "$.zone.lon"),
        (b'{"filter":"n >"}', 422, "$.filter"),
        (b'{"from":null,"until":"-1s"}', 422, "$.until"),
        (b'{"from":"+1h"}', 422, "$.until"),
        (b'{"from":"-1h"}', 422, "$.from"),
        (b'{"until":"later"}', 422, "$.until"),
    ],
)
def test_a_patch_that_cannot_be_applied(patch: bytes, status: int, field: str) -> None:
    with pytest.raises(Problem) as raised:
        apply_patch(RECORD, decode_subscription_patch(patch), LIMITS, NOW)
    assert (raised.value.status, raised.value.members["field"]) == (status, field)


def test_the_window_moves_although_its_beginning_has_passed() -> None:
    changed = apply_patch(RECORD, decode_subscription_patch(b'{"until":"+2h"}'), LIMITS, NOW)
    assert (changed.from_s, changed.until_s) == (RECORD.from_s, NOW + 7200)


@pytest.mark.parametrize("body", [b'{"filters":""}', b'{"filter":null}', b'{"filter":[]}', b'{"words":"a"}', b"[]"])
def test_unknown_or_mistyped_fields(body: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_subscription(body)


@pytest.mark.parametrize("body", [b'{"subscriber":"x"}', b'{"words":[]}', b'{"topic":"a"}', b'{"filter":null}'])
def test_a_patch_takes_only_what_can_change(body: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_subscription_patch(body)
