"""Subscriptions where they enter: what is stored, and the problem for everything that cannot be."""

from typing import Any

import msgspec
import pytest

from braid.config import Limits
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
LIMITS = Limits(filter_length_max=60, filter_predicates_max=3, name_length_max=8)


def check(given: Subscription, subscriber: str = "anna", temporary: bool = False) -> SubscriptionRecord:
    return check_subscription(
        given, LIMITS, NOW, id="s-1", subscriber=subscriber, home="connpoint-1", temporary=temporary
    )


def problem_of(given: Subscription, subscriber: str = "anna") -> dict[str, Any]:
    with pytest.raises(Problem) as raised:
        check(given, subscriber)
    return raised.value.document()


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
        ("n >", 3, ["string", "number", "true", "false"]),
        ("n = 1 and", 9, None),
        ("n", 1, None),
        ("(n = 1", 6, None),
        ("n = 'x", 4, None),
        ("n = 1 n = 2", 6, None),
        ("n ~ 1", 2, None),
        ("price < prev(price)", 8, None),
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
    problem = problem_of(Subscription(), subscriber="x" * 9)
    assert (problem["status"], problem["limit"], problem["field"]) == (422, "limits.name_length_max", "$.subscriber")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (Subscription(words=["white"]), "$.words"),
        (Subscription(topic="sports/soccer"), "$.topic"),
        (Subscription(topic_scope="below"), "$.topic_scope"),
        (Subscription(zone={"type": "point"}), "$.zone"),
        (Subscription(distinct=True), "$.distinct"),
        (Subscription(from_="-10s"), "$.from"),
        (Subscription(from_=0), "$.from"),
    ],
)
def test_what_this_version_cannot_do_is_named(given: Subscription, field: str) -> None:
    problem = problem_of(given)
    assert problem["type"] == "urn:braid:problem:unsupported"
    assert (problem["status"], problem["field"]) == (501, field)


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


@pytest.mark.parametrize(
    ("patch", "status", "field"),
    [
        (b"{}", 422, "$"),
        (b'{"zone":null}', 501, "$.zone"),
        (b'{"zone":{"type":"point"}}', 501, "$.zone"),
        (b'{"filter":"n >"}', 422, "$.filter"),
        (b'{"from":null,"until":"-1s"}', 422, "$.until"),
        (b'{"from":"+1h"}', 422, "$.until"),
        (b'{"from":"-1h"}', 501, "$.from"),
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


@pytest.mark.parametrize("body", [b'{"subscriber":"x"}', b'{"words":[]}', b'{"filter":null}'])
def test_a_patch_takes_only_what_can_change(body: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_subscription_patch(body)
