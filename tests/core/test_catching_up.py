"""Catching up: the past first, then what came live meanwhile; in order, nothing lost, nothing twice."""

from collections.abc import Collection
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.content import Content, encode_content
from braid.instants import format_instant
from braid.messages import Kept
from services.connpoint import remembered as module
from services.connpoint.catching_up import CatchingUp, TooMuchHeldError
from tests.core.kept_cases import ORIGIN, kept

OTHER = "connpoint-2.b"
NOW_S = 100.0
fixed = settings(derandomize=True, deadline=None, database=None, max_examples=200)


def catching_up(held_max: int = 10) -> CatchingUp:
    core = CatchingUp(held_max, held_bytes_max=1000)
    core.begin("s-1", "anna")
    return core


def finish(core: CatchingUp, *past: Kept, id: str = "s-1", before: Collection[tuple[str, int]] = ()) -> list[bytes]:
    return [content for part in core.give(id, past, lambda: NOW_S, before) for content in part.contents]


def live(core: CatchingUp, sequence: int, place: int = 0, *, id: str = "s-1", origin: str = ORIGIN) -> bool:
    """Whether it is not delivered now."""
    return not core.left((origin, sequence, place), [id], b"%d.%d" % (sequence, place), {}, set())


# While the past is looked for


def test_what_comes_live_is_held_behind_the_past() -> None:
    core = catching_up()
    assert live(core, 3)
    assert live(core, 4, 1)
    assert (core.held, core.is_idle) == (2, False)
    assert finish(core, kept(2), kept(1)) == [b"1.0", b"2.0", b"3.0", b"4.1"]
    assert core.held == 0


def test_what_expired_while_it_was_held_is_not_given() -> None:
    """Matchers did not find it either, because they were asked later."""
    core = catching_up()
    for sequence, expires_s in enumerate((NOW_S - 1, NOW_S, NOW_S + 1), start=3):
        content = encode_content(Content(id=f"p{sequence}", expires=format_instant(expires_s)))
        core.left((ORIGIN, sequence, 0), ["s-1"], content, {}, set())
    (given,) = finish(core)
    assert b'"id":"p5"' in given


def test_others_are_delivered_as_ever() -> None:
    core = catching_up()
    assert not live(core, 3, id="s-2")
    finish(core)
    assert not live(core, 4)
    assert core.is_idle


def test_what_is_in_the_past_and_came_live_is_given_once() -> None:
    core = catching_up()
    live(core, 2)
    live(core, 3)
    assert finish(core, kept(3), kept(2), kept(1, is_confirmed=True)) == [b"1.0", b"2.0", b"3.0"]
    assert core.remembered == 0
    assert core.is_idle


def test_more_than_is_held_is_too_much() -> None:
    core = catching_up(held_max=2)
    assert [live(core, sequence) for sequence in range(1, 9)] == [True] * 8
    assert core.held == 0  # nobody will get them
    with pytest.raises(TooMuchHeldError):
        finish(core, kept(1))
    assert core.is_idle
    core.begin("s-1", "anna")
    assert [live(core, sequence) for sequence in (1, 2)] == [True, True]
    assert finish(core) == [b"1.0", b"2.0"]


def test_more_bytes_than_are_held_are_too_much() -> None:
    core = CatchingUp(held_max=100, held_bytes_max=6)
    core.begin("s-1", "anna")
    core.begin("s-2", "bert")
    for sequence in (1, 2):
        live(core, sequence)
        live(core, sequence, id="s-2")
    live(core, 3, id="s-2")
    assert finish(core) == [b"1.0", b"2.0"]
    with pytest.raises(TooMuchHeldError):
        finish(core, id="s-2")


def test_one_that_was_forgotten_meanwhile_is_given_nothing() -> None:
    core = catching_up()
    live(core, 3)
    core.forget("s-1")
    assert finish(core, kept(1)) == []
    assert core.is_idle


def test_one_that_is_gone_is_forgotten_with_what_was_held() -> None:
    core = catching_up()
    live(core, 3)
    core.forget("s-1")
    core.forget("s-9")
    assert (core.held, core.is_idle) == (0, True)
    assert not live(core, 4)


# What may still come live


def test_what_is_not_confirmed_is_remembered_until_it_comes() -> None:
    core = catching_up()
    finish(core, kept(3), kept(2, 1), kept(1, is_confirmed=True))
    assert core.remembered == 2
    assert live(core, 2, 1)
    assert not live(core, 2, 1)
    assert [live(core, 2), live(core, 1), live(core, 3, id="s-2"), live(core, 3, origin=OTHER)] == [False] * 4
    assert live(core, 3)
    assert (core.remembered, core.is_idle) == (0, True)


def test_what_is_confirmed_meanwhile_is_not_remembered_any_more() -> None:
    core = catching_up()
    finish(core, kept(3), kept(2), kept(5, origin=OTHER))
    watermarks = {ORIGIN: 2, OTHER: 4}
    for _ in range(2):
        core.on_tick(watermarks.__getitem__, NOW_S)
        assert core.remembered == 2
    core.on_tick(lambda _origin: 5, NOW_S)
    assert core.is_idle


def test_what_never_comes_is_forgotten_after_a_while() -> None:
    core = catching_up()
    finish(core, kept(3))
    core.on_tick(lambda _origin: 0, NOW_S + module.REMEMBERED_S_MAX)
    assert core.remembered == 1
    core.on_tick(lambda _origin: 0, NOW_S + module.REMEMBERED_S_MAX + 1)
    assert (core.remembered, core.is_idle) == (0, True)


def test_one_that_is_gone_is_forgotten_with_what_it_was_given() -> None:
    core = catching_up()
    finish(core, kept(3))
    core.forget("s-1")
    assert (core.remembered, core.is_idle) == (0, True)


def test_of_too_much_that_is_remembered_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_MAX", 4)
    core = CatchingUp(10, 1000)
    for id in ("s-1", "s-2", "s-3"):
        core.begin(id, "anna")
        finish(core, kept(1), kept(2), id=id)
    assert core.remembered == 4
    assert [live(core, 1, id=id) for id in ("s-1", "s-2", "s-3")] == [False, True, True]
    core.begin("s-4", "anna")
    assert len(finish(core, *map(kept, range(9)), id="s-4")) == 9
    assert core.remembered == 0


# What was published before the past begins


def test_what_comes_behind_the_past_and_was_published_before_it_is_left_out() -> None:
    core = catching_up()
    assert finish(core, kept(7, is_confirmed=True), before={(ORIGIN, 5), (ORIGIN, 6)}) == [b"7.0"]
    assert core.remembered == 2
    assert [live(core, 5), live(core, 5, 1), live(core, 6, 3)] == [True] * 3
    assert [live(core, 4), live(core, 8), live(core, 5, origin=OTHER), live(core, 6, id="s-2")] == [False] * 4


def test_what_came_of_it_until_the_past_is_given_stands_before_it() -> None:
    core = catching_up()
    live(core, 5)
    live(core, 8)
    assert finish(core, kept(7), before={(ORIGIN, 5), (ORIGIN, 6)}) == [b"5.0", b"7.0", b"8.0"]


def test_what_comes_of_it_while_the_past_is_given_is_left_out() -> None:
    core = catching_up()
    given: list[bytes] = []
    for part in core.give("s-1", [kept(7)], lambda: NOW_S, {(ORIGIN, 6)}):
        given += part.contents
        if part.contents == [b"7.0"]:
            assert live(core, 6)
            assert live(core, 8)
    assert given == [b"7.0", b"8.0"]


def test_it_is_forgotten_when_it_is_confirmed_or_the_subscription_is_gone() -> None:
    core = catching_up()
    finish(core, kept(7, is_confirmed=True), before={(ORIGIN, 5), (ORIGIN, 6)})
    core.on_tick(lambda _origin: 5, NOW_S)
    assert core.remembered == 1
    assert [live(core, 5), live(core, 6)] == [False, True]
    core.forget("s-1")
    assert core.is_idle


class Published(NamedTuple):
    in_past: bool
    is_confirmed: bool
    comes: str  # live: never, while it is held, or after


@fixed
@given(st.lists(st.builds(Published, st.booleans(), st.booleans(), st.sampled_from(["never", "held", "after"]))))
def test_everything_is_given_once(story: list[Published]) -> None:
    core = CatchingUp(1000, 100_000)
    core.begin("s-1", "anna")
    ways = [
        one._replace(comes="held") if one.in_past and one.is_confirmed and one.comes == "after" else one
        for one in story
    ]
    for sequence, way in enumerate(ways):
        assert way.comes != "held" or live(core, sequence)
    past = [kept(n, is_confirmed=way.is_confirmed) for n, way in enumerate(ways) if way.in_past]
    got = finish(core, *past)
    got += [b"%d.0" % n for n, way in enumerate(ways) if way.comes == "after" and not live(core, n)]
    assert sorted(got) == sorted(b"%d.0" % n for n, way in enumerate(ways) if way.in_past or way.comes != "never")
    core.on_tick(lambda _origin: len(ways), NOW_S)
    assert core.is_idle


def test_what_was_confirmed_before_it_was_given_is_forgotten_at_the_next_look() -> None:
    """A matcher that has not heard of it gave it as not confirmed."""
    core = CatchingUp(10, 1000)
    core.begin("s-1", "anna")
    finish(core, kept(9))
    core.on_tick(lambda _: 8, 100.0)
    core.begin("s-2", "bert")
    finish(core, kept(5), id="s-2")
    core.on_tick(lambda _: 8, 102.0)
    assert core.remembered == 1


def test_a_tick_looks_at_some_of_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is confirmed is forgotten in turn, until nothing is left."""
    monkeypatch.setattr(module, "LOOKS_AT_ONCE", 10)
    core = CatchingUp(10, 1000)
    for number in range(20):
        core.begin(f"s-{number}", "anna")
        finish(core, *map(kept, range(1, 10)), id=f"s-{number}")
    left = []
    while not core.is_idle:
        core.on_tick(lambda _origin: 9, NOW_S)
        left.append(core.remembered)
    assert left == [9 * several for several in range(19, -1, -1)]
