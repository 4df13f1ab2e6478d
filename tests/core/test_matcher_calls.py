"""A repeated call that a later one has overtaken changes nothing, and is answered."""

import pytest

from braid.messages import Calls, Subscribe, SubscriptionRemoved, SubscriptionStored, Unsubscribe
from braid.subscription import SubscriptionRecord
from braid.topology import Configuration
from services.matcher import calls
from services.matcher.calls import LatestCalls
from services.matcher.core import MatcherCore

CONFIGURATION = Configuration(1, ("accesspoint-1", "accesspoint-2"), ("matcher-1",), ("exitpoint-1",))


def test_an_earlier_call_of_the_same_connection_point_is_overtaken() -> None:
    latest = LatestCalls()
    assert latest.take("s", "connpoint-1", 7)
    assert latest.take("s", "connpoint-1", 7), "its answer may be lost"
    assert latest.take("s", "connpoint-1", 9)
    assert not latest.take("s", "connpoint-1", 7)
    assert latest.take("other", "connpoint-1", 7)
    assert latest.overtaken == 1


def test_a_call_that_was_done_before_another_connection_points_is_overtaken() -> None:
    """Numbers of different connection points say nothing about each other."""
    latest = LatestCalls()
    assert latest.take("s", "connpoint-1", 500)
    assert latest.take("s", "connpoint-2", 3)
    assert not latest.take("s", "connpoint-1", 500)
    assert latest.take("s", "connpoint-1", 501)
    assert not latest.take("s", "connpoint-2", 3)


def test_calls_are_remembered_for_a_span_and_forgotten_after_two() -> None:
    latest = LatestCalls()
    latest.on_second(0.0)
    latest.take("s", "connpoint-1", 9)
    latest.on_second(calls.SPAN_S)
    assert not latest.take("s", "connpoint-1", 7)
    for span in (2, 3):
        latest.on_second(span * calls.SPAN_S)
    assert len(latest) == 0
    assert latest.take("s", "connpoint-1", 7)


def test_what_is_forgotten_is_let_go_bit_by_bit() -> None:
    latest = LatestCalls()
    for number in range(calls._LET_GO_PER_SECOND + 10):
        latest.take(f"s-{number}", "connpoint-1", number)
    for span in range(2):
        latest.on_second(span * calls.SPAN_S)
    assert len(latest) == 0
    assert len(latest._over) == 10
    for number in range(5):
        latest.take("other", "connpoint-1", number)
    assert not latest._over


@pytest.mark.slow
def test_there_are_never_more_than_two_full_spans() -> None:
    latest = LatestCalls()
    for number in range(3 * calls.CALLS_MAX):
        latest.take(f"s-{number}", "connpoint-1", number)
    assert len(latest) <= 2 * calls.CALLS_MAX


# Handed over


def test_what_is_known_is_handed_over_as_it_is_then() -> None:
    latest = LatestCalls()
    assert latest.of("s") is None
    latest.take("s", "connpoint-1", 7)
    latest.take("s", "connpoint-2", 3)
    known = latest.of("s")
    assert known == Calls("connpoint-2", {"connpoint-1": 7, "connpoint-2": 3})
    latest.take("s", "connpoint-1", 9)
    assert known == Calls("connpoint-2", {"connpoint-1": 7, "connpoint-2": 3})
    assert latest.of("s") == Calls("connpoint-1", {"connpoint-1": 9, "connpoint-2": 3})


def test_what_was_learned_counts_like_what_was_done_here() -> None:
    latest = LatestCalls()
    latest.learn("s", Calls("connpoint-2", {"connpoint-1": 7, "connpoint-2": 3}))
    assert not latest.take("s", "connpoint-1", 6)
    assert not latest.take("s", "connpoint-1", 7), "another connection point's came behind it"
    assert latest.take("s", "connpoint-2", 3), "its answer may be lost"
    assert latest.take("s", "connpoint-1", 8)
    assert latest.overtaken == 2


def test_learned_again_the_latest_of_each_connection_point_stays() -> None:
    latest = LatestCalls()
    latest.take("s", "connpoint-1", 7)
    latest.learn("s", Calls("connpoint-2", {"connpoint-1": 5, "connpoint-2": 3}))
    assert latest.of("s") == Calls("connpoint-2", {"connpoint-1": 7, "connpoint-2": 3})
    latest.learn("s", Calls("connpoint-1", {"connpoint-1": 9}))
    assert latest.of("s") == Calls("connpoint-1", {"connpoint-1": 9, "connpoint-2": 3})


def test_all_that_are_known_are_named_once_whatever_comes_meanwhile() -> None:
    latest = LatestCalls()
    latest.on_second(0.0)
    for id in ("a", "b"):
        latest.take(id, "connpoint-1", 1)
    latest.on_second(calls.SPAN_S)
    latest.take("c", "connpoint-1", 1)
    latest.take("b", "connpoint-1", 2)
    ids = latest.known_ids()
    first = next(ids)
    latest.take("d", "connpoint-1", 1)
    latest.on_second(2 * calls.SPAN_S)
    assert sorted([first, *ids]) == ["a", "b", "c"]


def test_what_was_learned_is_forgotten_like_everything_else() -> None:
    latest = LatestCalls()
    latest.on_second(0.0)
    latest.learn("s", Calls("connpoint-1", {"connpoint-1": 9}))
    latest.on_second(calls.SPAN_S)
    assert latest.of("s") == Calls("connpoint-1", {"connpoint-1": 9})
    latest.on_second(2 * calls.SPAN_S)
    assert latest.of("s") is None
    assert len(latest) == 0


def test_what_is_learned_ends_a_span_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "CALLS_MAX", 10)
    latest = LatestCalls()
    for number in range(35):
        latest.learn(f"s-{number}", Calls("connpoint-1", {"connpoint-1": number}))
        assert len(latest) <= 20


# The matcher


def test_what_was_ended_does_not_come_back_by_a_repetition_on_another_way() -> None:
    core = MatcherCore("matcher-1", lambda: 0)
    core.on_configuration(CONFIGURATION)
    subscribe = Subscribe(1, 6, "connpoint-1", SubscriptionRecord("s", "anna", "connpoint-1", "a = 1", 0.0))
    core.on_subscribe("accesspoint-1", subscribe)
    core.on_unsubscribe("accesspoint-2", Unsubscribe(1, 50, "connpoint-1", "s"))
    (send,) = core.on_subscribe("accesspoint-1", subscribe)
    assert send.messages == [SubscriptionStored(1, 6, "connpoint-1", "s")]
    assert "s" not in core.index
    core.on_subscribe("accesspoint-1", Subscribe(1, 51, "connpoint-1", subscribe.record))
    (send,) = core.on_unsubscribe("accesspoint-2", Unsubscribe(1, 50, "connpoint-1", "s"))
    assert send.messages == [SubscriptionRemoved(1, 50, "connpoint-1", "s", False)]
    assert "s" in core.index
