"""Whom a distinct subscription relies on when it is given its past, and whom it waits for."""

import math
from typing import Any

import pytest
from msgspec.structs import replace

from braid.subscription import SubscriptionRecord
from services.connpoint import earlier
from services.connpoint.earlier import SETTLING_S_MAX, relied_on, waited_for
from tests.core.matching_cases import record

NOW_S = 100.0


def with_past(id: str, created_s: float = NOW_S, **changes: Any) -> SubscriptionRecord:
    """Each at a connection point of its own."""
    given: dict[str, Any] = {
        "created_s": created_s,
        "from_s": created_s - 10,
        "distinct": True,
        "home": f"connpoint-of-{id}",
    }
    return record(id, **(given | changes))


def test_of_two_that_are_made_at_the_same_time_one_waits_for_the_other() -> None:
    first, second = with_past("s-1"), with_past("s-2")
    assert waited_for(first, [second], NOW_S) == []
    assert waited_for(second, [first], NOW_S) == ["s-1"]


def test_the_one_that_was_made_first_is_waited_for() -> None:
    first, second = with_past("s-2", NOW_S - 0.1), with_past("s-1")
    assert waited_for(first, [second], NOW_S) == []
    assert waited_for(second, [first], NOW_S) == ["s-2"]


def test_one_that_is_not_distinct_waits_for_nobody_so_it_is_waited_for() -> None:
    assert waited_for(with_past("s-1"), [with_past("s-2", NOW_S + 1, distinct=False)], NOW_S) == ["s-2"]


@pytest.mark.parametrize(
    "other",
    [
        with_past("s-1", given_from_s=95.0),
        record("s-1", created_s=NOW_S),
        record("s-1", created_s=NOW_S, from_s=NOW_S + 5),
        with_past("s-1", NOW_S - SETTLING_S_MAX),
        with_past("s-1", home="connpoint-of-s-2"),
    ],
    ids=["was given it", "has none", "begins later", "is old", "is at the same connection point"],
)
def test_these_are_not_waited_for(other: SubscriptionRecord) -> None:
    assert waited_for(with_past("s-2"), [other], NOW_S) == []


def test_only_those_that_were_given_something_are_relied_on() -> None:
    settling, settled, ordinary = (
        with_past("s-1"),
        with_past("s-2", given_from_s=95.0),
        record("s-3", given_from_s=99.0),
    )
    assert relied_on([settling, settled, ordinary, record("s-4", given_from_s=math.inf)], {}) == [settled, ordinary]


def test_of_too_many_those_that_were_made_last_are_relied_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier, "WITHOUT_MAX", 2)
    several = [record(f"s-{number}", created_s=float(number), given_from_s=0.0) for number in range(4)]
    assert relied_on(several, {}) == several[:1:-1]


def test_one_that_was_given_its_past_is_relied_on_before_its_matcher_knows_it_unless_it_was_changed() -> None:
    settling = with_past("s-1", home="connpoint-1")
    given = {"s-1": replace(settling, given_from_s=95.0)}
    assert relied_on([settling, with_past("s-2")], given) == [given["s-1"]]
    assert relied_on([replace(settling, filter="n > 7")], given) == []
    assert relied_on([noted := replace(settling, given_from_s=96.0)], given) == [noted]
