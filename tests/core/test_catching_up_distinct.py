"""Distinct subscriptions that are being given their past: they do not give what their subscriber gets otherwise."""

import pytest

from braid.messages import Kept, Match, Notifications
from services.connpoint.delivery import DeliveryCore
from services.connpoint.past_order import PART
from tests.core.kept_cases import ORIGIN, kept

NOW_S = 100.0


def connpoint(*distinct: str, held_max: int = 50) -> DeliveryCore:
    """Three subscriptions of anna, and one of bert."""
    core = DeliveryCore("connpoint-1", lambda: 999, held_max)
    core.subscribers.update({"s-1": "anna", "s-2": "anna", "s-3": "anna", "b-1": "bert"})
    core.distinct.update(distinct)
    return core


def begin(core: DeliveryCore, *ids: str) -> None:
    for id in ids:
        core.catching_up.begin(id, core.subscribers[id], is_distinct=id in core.distinct)


def notify(core: DeliveryCore, sequence: int, *ids: str) -> dict[str, list[bytes]]:
    matches: list[Match] = [(0, list(ids), b"%d.0" % sequence)]
    return core.on_notifications("exitpoint-1", [Notifications(1, ORIGIN, sequence, 0, 8, matches)], 0)[0]


def give(core: DeliveryCore, id: str, *past: Kept) -> list[bytes]:
    return [payload for part in core.give_past(id, list(past), lambda: NOW_S) for payload in part.contents]


def payload(content: bytes, *ids: str) -> bytes:
    return b'{"subscriptions":["%b"],"publication":%b}' % ('","'.join(ids).encode(), content)


def test_what_another_one_delivers_live_meanwhile_is_not_held() -> None:
    core = connpoint("s-2")
    begin(core, "s-2")
    assert notify(core, 7, "s-1", "s-2") == {"anna": [payload(b"7.0", "s-1")]}
    assert notify(core, 8, "s-2") == {}
    assert give(core, "s-2") == [payload(b"8.0", "s-2")]


def test_what_another_one_delivered_live_meanwhile_is_left_out_of_the_past() -> None:
    """When it was found, that one was not known to have been given it."""
    core = connpoint("s-2")
    begin(core, "s-2")
    notify(core, 7, "s-1")
    notify(core, 8, "b-1")
    assert give(core, "s-2", kept(8), kept(7), kept(6)) == [payload(b"6.0", "s-2"), payload(b"8.0", "s-2")]


def test_one_that_is_not_distinct_gets_it_nevertheless() -> None:
    core = connpoint()
    begin(core, "s-2")
    notify(core, 7, "s-1", "s-2")
    assert give(core, "s-2") == [payload(b"7.0", "s-2")]


def test_what_was_published_before_the_past_begins_comes_through_others() -> None:
    """It was not given through this one, so a distinct one of the same subscriber is not without it."""
    core = connpoint("s-1", "s-2")
    begin(core, "s-2")
    for _ in core.give_past("s-2", [kept(7)], lambda: NOW_S, {(ORIGIN, 6)}):
        pass
    assert notify(core, 6, "s-1", "s-2", "b-1") == {
        "anna": [payload(b"6.0", "s-1")],
        "bert": [payload(b"6.0", "b-1")],
    }


def test_what_somebody_else_got_is_given() -> None:
    core = connpoint("s-2")
    begin(core, "s-2")
    assert notify(core, 7, "b-1", "s-2") == {"bert": [payload(b"7.0", "b-1")]}
    assert give(core, "s-2") == [payload(b"7.0", "s-2")]


@pytest.mark.parametrize("first", ["s-1", "s-2"])
def test_of_two_that_catch_up_the_first_to_finish_gives_what_both_held(first: str) -> None:
    core = connpoint("s-1", "s-2")
    begin(core, "s-1", "s-2")
    notify(core, 7, "s-1", "s-2")
    notify(core, 8, "s-1", "s-2")
    second = {"s-1": "s-2", "s-2": "s-1"}[first]
    assert give(core, first) == [payload(b"7.0", first), payload(b"8.0", first)]
    assert give(core, second, kept(6)) == [payload(b"6.0", second)]


def test_one_that_fails_leaves_to_the_other_what_both_held() -> None:
    core = connpoint("s-1", "s-2")
    begin(core, "s-1", "s-2")
    notify(core, 7, "s-1", "s-2")
    core.catching_up.forget("s-1")
    assert give(core, "s-2") == [payload(b"7.0", "s-2")]
    assert core.catching_up.is_idle


def test_what_another_one_was_given_with_its_past_and_comes_live_comes_to_none_of_them() -> None:
    core = connpoint("s-2", "s-3")
    begin(core, "s-1")
    give(core, "s-1", kept(7), kept(8))
    begin(core, "s-3")
    assert notify(core, 7, "s-1", "s-2", "s-3", "b-1") == {"bert": [payload(b"7.0", "b-1")]}
    assert give(core, "s-3") == []
    core.distinct.clear()
    assert notify(core, 8, "s-1", "s-2") == {"anna": [payload(b"8.0", "s-2")]}


def test_what_comes_between_two_parts_is_given_with_the_last_one() -> None:
    core = connpoint("s-2")
    begin(core, "s-2")
    notify(core, 7, "s-2")
    parts = core.give_past("s-2", [kept(6)], lambda: NOW_S)
    given = next(parts).contents
    notify(core, 8, "s-2")
    notify(core, 9, "s-1", "s-2")
    given += [payload for part in parts for payload in part.contents]
    assert given == [payload(b"6.0", "s-2"), payload(b"7.0", "s-2"), payload(b"8.0", "s-2")]
    assert notify(core, 10, "s-2") == {"anna": [payload(b"10.0", "s-2")]}


def test_what_is_noted_of_others_is_bounded() -> None:
    core = connpoint("s-2", held_max=2)
    begin(core, "s-2")
    for sequence in range(1, 5):
        notify(core, sequence, "s-1")
    assert give(core, "s-2", *(kept(sequence) for sequence in (4, 3, 2, 1))) == [
        payload(b"3.0", "s-2"),
        payload(b"4.0", "s-2"),
    ]


def test_how_many_are_of_the_past_is_said() -> None:
    core = connpoint("s-2")
    begin(core, "s-2")
    notify(core, 7, "s-2")
    notify(core, 5, "s-1")
    parts = core.give_past("s-2", [kept(7), kept(6), kept(4, expires_s=NOW_S)], lambda: NOW_S)
    assert sum(part.of_past for part in parts) == 2


# What expires


def test_what_has_expired_by_now_is_not_given() -> None:
    core = connpoint()
    begin(core, "s-1")
    notify(core, 6, "s-1")
    past = [kept(8, expires_s=NOW_S + 0.1), kept(7, expires_s=NOW_S), kept(6, expires_s=NOW_S - 1), kept(5)]
    assert give(core, "s-1", *past) == [payload(b"5.0", "s-1"), payload(b"8.0", "s-1")]


def test_what_expires_while_parts_are_handed_out_is_not_given() -> None:
    core = connpoint()
    begin(core, "s-1")
    passed_s = [0.0]
    past = [kept(sequence, expires_s=NOW_S + 10) for sequence in range(PART + 5, 0, -1)]
    given = []
    for part in core.give_past("s-1", past, lambda: NOW_S + sum(passed_s)):
        given += part.contents
        if part.contents:
            notify(core, PART + 6, "s-1")
            passed_s.append(10.0)
    assert given == [payload(b"%d.0" % sequence, "s-1") for sequence in (*range(1, PART + 1), PART + 6)]


def test_what_had_expired_does_not_come_live_either() -> None:
    core = connpoint()
    begin(core, "s-1")
    assert give(core, "s-1", kept(7, expires_s=NOW_S)) == []
    assert notify(core, 7, "s-1") == {}
