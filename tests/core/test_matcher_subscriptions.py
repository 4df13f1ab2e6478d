"""Subscriptions at the matcher: answered only when they are stored, and ended in time."""

from typing import Any

import msgspec
import pytest

from braid.matching.index import IndexFullError, MatchIndex
from braid.messages import (
    FindSubscriptions,
    Send,
    SubscriptionGone,
    SubscriptionRemoved,
    SubscriptionsFound,
    SubscriptionStored,
    Unsubscribe,
)
from services.matcher import core as core_module
from services.matcher import endings as endings_module
from services.matcher.core import MatcherCore
from services.matcher.effects import Answer, Continue, Effects, Erase, Store
from tests.core.matcher_cases import CONFIGURATION, NOW, content, matched, matcher, record, subscribe


def test_a_subscription_is_answered_only_through_its_store_effect() -> None:
    core = matcher()
    given = record("s-1", "n = 1")
    answer = SubscriptionStored(1, 3, "connpoint-1", "s-1")
    assert subscribe(core, given) == [Store(given, Answer("accesspoint-1", answer), is_new=True)]
    assert matched(core, content(n=1)) == {"connpoint-1": [(0, ["s-1"], content(n=1))]}


def test_asked_again_it_is_stored_and_answered_again() -> None:
    core = matcher()
    (first,), (again,) = subscribe(core, record("s-1")), subscribe(core, record("s-1"))
    assert (first.is_new, again.is_new) == (True, False)  # the second time there is something to replace
    assert again == msgspec.structs.replace(first, is_new=False)
    assert len(core.index) == 1


def test_the_same_id_replaces() -> None:
    core = matcher(record("s-1", "n = 1"))
    subscribe(core, record("s-1", "n = 2"))
    assert matched(core, content(n=1)) == {}
    assert list(matched(core, content(n=2))) == ["connpoint-1"]


def test_a_move_tells_the_home_before() -> None:
    core = matcher(record("s-1"))
    moved = record("s-1", home="connpoint-2")
    answer = SubscriptionStored(1, 3, "connpoint-1", "s-1")
    gone = SubscriptionGone(1, "connpoint-1", "s-1")
    assert subscribe(core, moved) == [Store(moved, Answer("accesspoint-1", answer)), Send("accesspoint-1", [gone])]
    assert list(matched(core, b"{}")) == ["connpoint-2"]


def test_a_full_index_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_full(*_: Any) -> None:
        raise IndexFullError("full")

    core = matcher(record("s-1", "n = 1"))
    monkeypatch.setattr(MatchIndex, "add", is_full)
    assert subscribe(core, record("s-2")) == []
    assert subscribe(core, record("s-1", "n = 2")) == []
    assert core.refused == 2
    assert list(core.index) == [record("s-1", "n = 1")]


def test_unsubscribing() -> None:
    core = matcher(record("s-1"))
    answer = SubscriptionRemoved(1, 4, "connpoint-1", "s-1", existed=True)
    asked = Unsubscribe(1, 4, "connpoint-1", "s-1")
    assert core.on_unsubscribe("accesspoint-1", asked) == [Erase(["s-1"], Answer("accesspoint-1", answer))]
    assert matched(core, b"{}") == {}
    again = msgspec.structs.replace(answer, existed=False)
    assert core.on_unsubscribe("accesspoint-1", asked) == [Erase(["s-1"], Answer("accesspoint-1", again))]


def test_a_subscription_that_another_connection_point_ended_is_gone_from_its_home() -> None:
    core = matcher(record("s-1"))
    asked = Unsubscribe(1, 4, "connpoint-2", "s-1")
    answer = SubscriptionRemoved(1, 4, "connpoint-2", "s-1", existed=True)
    assert core.on_unsubscribe("accesspoint-1", asked) == [
        Erase(["s-1"], Answer("accesspoint-1", answer)),
        Send("accesspoint-1", [SubscriptionGone(1, "connpoint-1", "s-1")]),
    ]


def test_without_a_configuration_nothing_expires() -> None:
    core = MatcherCore("matcher-1", lambda: 0)
    core.on_recovered([record("s-1", until_s=NOW)])
    assert core.on_second(NOW) == []
    core.on_configuration(CONFIGURATION)
    assert len(core.on_second(NOW)) == 2


def test_changes_of_another_epoch_change_nothing() -> None:
    core = matcher(record("s-1"))
    assert subscribe(core, record("s-2"), epoch=2) == []
    assert core.on_unsubscribe("accesspoint-1", Unsubscribe(0, 4, "connpoint-1", "s-1")) == []
    assert core.on_find_subscriptions("accesspoint-1", FindSubscriptions(7, 5, "connpoint-1")) == []
    assert [known.id for known in core.index] == ["s-1"]
    assert core.stale == 3


def test_a_tick_erases_what_is_over() -> None:
    core = matcher(record("s-1", until_s=NOW), record("s-2", until_s=NOW + 0.1), record("s-3"))
    assert core.on_second(NOW - 0.1) == []
    assert core.on_second(NOW) == [
        Erase(["s-1"], None),
        Send("accesspoint-1", [SubscriptionGone(1, "connpoint-1", "s-1")]),
    ]
    assert core.on_second(NOW) == []
    assert sorted(known.id for known in core.index) == ["s-2", "s-3"]


def test_only_the_latest_end_counts() -> None:
    core = matcher(record("s-1", until_s=NOW), record("s-2", until_s=NOW), record("s-3", until_s=NOW))
    subscribe(core, record("s-1", until_s=NOW + 5))
    subscribe(core, record("s-2"))
    core.on_unsubscribe("accesspoint-1", Unsubscribe(1, 4, "connpoint-1", "s-3"))
    subscribe(core, record("s-3", until_s=NOW + 1), ref=5)
    assert core.on_second(NOW) == []
    assert [id for effect in core.on_second(NOW + 9) if isinstance(effect, Erase) for id in effect.ids] == [
        "s-3",
        "s-1",
    ]
    assert [known.id for known in core.index] == ["s-2"]


def erased(effects: Effects) -> list[str]:
    return [id for effect in effects if isinstance(effect, Erase) for id in effect.ids]


def test_many_that_end_at_once_end_part_by_part_between_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_module, "_ENDS_AT_ONCE", 2)
    core = matcher(*[record(f"s-{n}", until_s=NOW + n) for n in range(-5, 0)], clock_ns=int(NOW * 1e9))
    parts = [core.on_second(NOW), core.on_continue(), core.on_continue(), core.on_continue()]
    assert [erased(part) for part in parts] == [["s--5", "s--4"], ["s--3", "s--2"], ["s--1"], []]
    assert [Continue() in part for part in parts] == [True, True, False, False]
    assert core.expired == 5


def test_what_is_over_is_found_until_it_ends_and_then_as_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """In between it would count nowhere, and a `distinct` one of the same subscriber would give again what it gave."""
    monkeypatch.setattr(core_module, "_ENDS_AT_ONCE", 1)
    given = [record(f"s-{n}", until_s=until_s, distinct=True) for n, until_s in ((1, NOW - 2), (2, NOW), (3, NOW + 1))]
    core = matcher(*given, clock_ns=int(NOW * 1e9))

    def found(*, ended: bool) -> list[str]:
        asked = FindSubscriptions(1, 5, "connpoint-1", subscriber=given[0].subscriber, ended=ended)
        (send,) = core.on_find_subscriptions("accesspoint-1", asked)
        assert isinstance(send, Send)
        (answer,) = send.messages
        assert isinstance(answer, SubscriptionsFound)
        return [known.id for known in answer.records]

    looks = [(found(ended=False), found(ended=True))]
    for part in (core.on_second, lambda _now_s: core.on_continue()):
        part(NOW)
        looks.append((found(ended=False), found(ended=True)))
    assert looks == [(["s-1", "s-2", "s-3"], []), (["s-2", "s-3"], ["s-1"]), (["s-3"], ["s-1", "s-2"])]


def test_the_store_ends_what_it_lets_go_of_and_the_index_still_has() -> None:
    core = matcher(record("s-1", until_s=NOW), record("s-2", until_s=NOW + 1))
    assert erased(core.on_expired(["s-1"], NOW)) == ["s-1"]
    assert core.on_expired(["s-1"], NOW) == []
    assert core.expired == 1


def test_an_end_that_is_moved_again_and_again_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings_module, "_OUTDATED_MAX", 10)
    endings = endings_module.Endings()
    for moved in range(1000):
        endings.note(record("s-1", until_s=NOW + moved))
        endings.note(record("s-2", until_s=NOW + 2 * moved))
    assert len(endings) <= 15
    assert endings.passed(NOW + 1998, 100) == ["s-1", "s-2"]
    assert endings.passed(NOW + 1998, 100) == []


def test_a_step_looks_at_so_many_ends_also_when_most_count_no_more() -> None:
    endings = endings_module.Endings()
    for moved in range(50):
        endings.note(record("s-1", until_s=NOW + moved))
    assert endings.passed(NOW + 99, 40) == []
    assert endings.has_passed(NOW + 99)
    assert endings.passed(NOW + 99, 40) == ["s-1"]
    assert not endings.has_passed(NOW + 99)
