"""Distinct subscriptions that have ended are remembered for a while: what they were given is not given again."""

import pytest

from braid.messages import FindSubscriptions, Send, SubscriptionsFound, Unsubscribe
from services.matcher import ended as module
from services.matcher.core import MatcherCore
from services.matcher.ended import Ended
from tests.core.matcher_cases import CONFIGURATION, NOW, record

REMEMBER_S = 60.0


def distinct(id: str, until_s: float | None = None, subscriber: str = "anna") -> object:
    return record(id, distinct=True, until_s=until_s, subscriber=subscriber)


def test_only_distinct_ones_are_remembered() -> None:
    ended = Ended(REMEMBER_S)
    ended.note(record("s-1"), NOW)
    ended.note(record("s-2", distinct=True), NOW)
    assert ended.all() == ended.of("anna") == [distinct("s-2", NOW)]
    assert ended.of("bert") == []


def test_one_ends_when_its_window_is_over_or_now() -> None:
    ended = Ended(REMEMBER_S)
    ended.note(record("s-1", distinct=True, until_s=NOW - 5), NOW)
    ended.note(record("s-2", distinct=True, until_s=NOW + 5), NOW)
    assert ended.all() == [distinct("s-1", NOW - 5), distinct("s-2", NOW)]


def test_they_are_forgotten_in_time() -> None:
    ended = Ended(REMEMBER_S)
    for number in range(3):
        ended.note(record(f"s-{number}", distinct=True, subscriber="anna" if number else "bert"), NOW + number)
    ended.on_second(NOW + REMEMBER_S - 1)
    assert len(ended) == 3
    ended.on_second(NOW + REMEMBER_S + 1)
    assert ended.all() == [distinct("s-2", NOW + 2)]
    assert ended.of("bert") == []
    ended.on_second(NOW + REMEMBER_S + 2)
    assert len(ended) == 0


def test_beyond_a_number_the_first_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_MAX", 3)
    ended = Ended(REMEMBER_S)
    ended.add([record(f"s-{number}", distinct=True, until_s=NOW) for number in range(5)])
    assert [known.id for known in ended.all()] == [known.id for known in ended.of("anna")] == ["s-2", "s-3", "s-4"]


def test_in_whatever_order_they_come_each_is_forgotten_in_its_time() -> None:
    """Another matcher hands over those that ended before."""
    ended = Ended(REMEMBER_S)
    ended.note(record("s-1", distinct=True), NOW)
    ended.add([record(f"s-{2 + late}", distinct=True, until_s=NOW - 30 + late) for late in range(3)])
    assert [known.id for known in ended.of("anna")] == ["s-2", "s-3", "s-4", "s-1"]
    ended.on_second(NOW + REMEMBER_S - 29)
    assert [known.id for known in ended.of("anna")] == ["s-4", "s-1"]
    ended.on_second(NOW + REMEMBER_S)
    assert len(ended) == 0


def test_one_that_is_told_with_another_end_is_remembered_by_the_last() -> None:
    ended = Ended(REMEMBER_S)
    for until_s in (NOW, NOW + 5, NOW + 2):
        ended.add([record("s-1", distinct=True, until_s=until_s)])
    ended.on_second(NOW + REMEMBER_S + 1)
    assert ended.all() == [distinct("s-1", NOW + 2)]
    ended.on_second(NOW + REMEMBER_S + 2)
    assert len(ended) == 0


def test_one_that_is_told_twice_is_remembered_once() -> None:
    ended = Ended(REMEMBER_S)
    for _ in range(2):
        ended.add([record("s-1", distinct=True, until_s=NOW)])
    assert len(ended) == len(ended.of("anna")) == 1


# At the matcher


def matcher() -> MatcherCore:
    core = MatcherCore("matcher-1", lambda: int(NOW * 1e9), remember_s=REMEMBER_S)
    core.on_recovered([record("s-1", distinct=True), record("s-2"), record("s-3", distinct=True, until_s=NOW + 5)])
    core.on_configuration(CONFIGURATION)
    return core


def remembered(core: MatcherCore, limit: int = 10) -> list[object]:
    question = FindSubscriptions(1, 7, "connpoint-1", subscriber="anna", limit=limit, asked=2, ended=True)
    ((send,)) = core.on_find_subscriptions("accesspoint-1", question)
    (answer,) = send.messages
    assert send == Send("accesspoint-1", [SubscriptionsFound(1, 7, "connpoint-1", "matcher-1", answer.records, "", 2)])
    return [known.id for known in answer.records]


def test_a_subscription_that_is_ended_is_told_to_whoever_asks_for_those() -> None:
    core = matcher()
    assert remembered(core) == []
    for id in ("s-1", "s-2", "s-9"):
        core.on_unsubscribe("accesspoint-1", Unsubscribe(1, 4, "connpoint-1", id))
    assert core.ended.all() == [distinct("s-1", NOW)]
    assert remembered(core) == ["s-1"]


def test_one_whose_window_is_over_is_remembered_too() -> None:
    core = matcher()
    core.on_second(NOW + 6)
    assert core.ended.all() == [distinct("s-3", NOW + 5)]
    core.on_second(NOW + 5 + REMEMBER_S)
    assert remembered(core) == []


def test_as_many_are_told_as_are_asked_for() -> None:
    core = matcher()
    core.ended.add([record(f"s-{number}", distinct=True, until_s=NOW) for number in range(9)])
    assert len(remembered(core, limit=4)) == 4
