"""Routes of an access point: what matchers list, what it forgets, and which publications each of them must see."""

import random
from typing import Any

import pytest

from braid.matching.index import IndexFullError, MatchIndex
from braid.messages import Anchors
from services.accesspoint import routes as module
from services.accesspoint.routes import Routes
from tests.core.matching_cases import NOW_S, content

FIRST, SECOND, THIRD = MATCHERS = ("matcher-1", "matcher-2", "matcher-3")


def anchors(*numbers: int) -> list[str]:
    return [f"filter:n = {number}" for number in numbers]


def part(
    number: int, added: tuple[int, ...] = (), removed: tuple[int, ...] = (), *, begins: bool = False, whole: bool = True
) -> Anchors:
    return Anchors(0, number, begins, whole, anchors(*added), anchors(*removed))


def listed(**numbers: tuple[int, ...]) -> Routes:
    """`matcher_1=(1, 2)`: that matcher has listed these anchors."""
    routes = Routes()
    for matcher, several in numbers.items():
        assert routes.on_anchors(matcher.replace("_", "-"), part(1, several, begins=True))
    return routes


def routed(routes: Routes, *numbers: int, matchers: tuple[str, ...] = MATCHERS) -> dict[str, list[int]]:
    """Of one batch with a publication of each of these numbers."""
    (places,) = routes.route([[content({"n": number}) for number in numbers]], matchers, NOW_S)
    return places


def test_a_matcher_that_has_listed_nothing_gets_everything() -> None:
    routes = listed(matcher_1=(1,))
    assert [routes.knows(matcher) for matcher in MATCHERS] == [True, False, False]
    assert routed(routes, 1, 2, matchers=(FIRST, SECOND)) == {FIRST: [0], SECOND: [0, 1]}
    assert routed(Routes(), 1, 2, matchers=(FIRST, SECOND)) == {FIRST: [0, 1], SECOND: [0, 1]}


def test_each_gets_what_it_must_see_and_nobody_what_nobody_asks_for() -> None:
    routes = listed(matcher_1=(1, 2), matcher_2=(2, 3), matcher_3=())
    assert routed(routes, 1, 9, 2, 3) == {FIRST: [0, 2], SECOND: [2, 3]}
    assert routed(routes, 9) == {}
    assert routed(routes, 2, matchers=(SECOND, THIRD)) == {SECOND: [0]}
    assert routed(routes) == {}


def test_places_count_in_each_batch_and_come_once() -> None:
    routes = listed(matcher_1=(1, 2), matcher_2=())
    routes.on_anchors(FIRST, Anchors(0, 2, False, True, ["filter:n > 0"], []))
    batches = [[content({"n": n}) for n in numbers] for numbers in ((5, 1), (-1,), (-1, 2, -1))]
    assert routes.route(batches, (FIRST, SECOND), NOW_S) == [{FIRST: [0, 1]}, {}, {FIRST: [1]}]


def test_who_keeps_one_without_an_anchor_sees_everything_that_can_be_read() -> None:
    routes = listed(matcher_1=(1,))
    assert routes.on_anchors(SECOND, Anchors(0, 1, True, True, ["*"], []))
    contents = [content({"n": 1}), b"{", content()]
    assert routes.route([contents], (FIRST, SECOND), NOW_S) == [{FIRST: [0], SECOND: [0, 2]}]


# Lists


def test_until_a_list_is_whole_its_matcher_gets_everything() -> None:
    routes = listed(matcher_2=())
    assert routes.on_anchors(FIRST, part(4, (1,), begins=True, whole=False))
    assert routes.on_anchors(FIRST, part(5, (2,), whole=False))
    assert not routes.knows(FIRST)
    assert routes.anchors_of(FIRST) is None
    assert routed(routes, 9, 1, matchers=(FIRST, SECOND)) == {FIRST: [0, 1]}
    assert routes.on_anchors(FIRST, part(6, (3,)))
    assert routes.anchors_of(FIRST) == set(anchors(1, 2, 3))
    assert routed(routes, 9, 1, matchers=(FIRST, SECOND)) == {FIRST: [1]}


@pytest.mark.parametrize("number", [1, 2, 4, 5])
def test_a_part_out_of_order_is_not_known(number: int) -> None:
    routes = Routes()
    assert routes.on_anchors(FIRST, part(1, (1,), begins=True))
    assert routes.on_anchors(FIRST, part(2, (2,)))
    assert not routes.on_anchors(FIRST, part(number, (7,), (1,)))
    assert routes.anchors_of(FIRST) == set(anchors(1, 2))
    assert routes.on_anchors(FIRST, part(3, (3,)))


def test_a_part_of_a_list_whose_beginning_was_missed_is_not_known() -> None:
    routes = Routes()
    assert not routes.on_anchors(FIRST, part(2, (1,)))
    assert not routes.knows(FIRST)
    assert routes.on_anchors(FIRST, part(3, (2,), begins=True))
    assert not routes.on_anchors(FIRST, part(5, (3,)))
    assert routes.anchors_of(FIRST) == set(anchors(2))


def test_anchors_that_are_removed_are_not_routed_by() -> None:
    routes = listed(matcher_1=(1, 2), matcher_2=(1,))
    assert routes.anchors == 3
    assert routes.on_anchors(FIRST, part(2, (3,), (1, 8)))
    assert routes.anchors_of(FIRST) == set(anchors(2, 3))
    assert routed(routes, 1, 2, 3, matchers=(FIRST, SECOND)) == {FIRST: [1, 2], SECOND: [0]}
    assert routes.anchors == 3
    assert routes.on_anchors(FIRST, part(3, (1, 2)))
    assert routes.anchors_of(FIRST) == set(anchors(1, 2, 3))


def test_one_that_is_added_and_removed_within_a_list_is_not_of_it() -> None:
    routes = Routes()
    assert routes.on_anchors(FIRST, part(1, (1, 2), begins=True, whole=False))
    assert routes.on_anchors(FIRST, part(2, (), (1,), whole=False))
    assert routes.on_anchors(FIRST, part(3))
    assert routes.anchors_of(FIRST) == set(anchors(2))


# Links and matchers that come and go


def test_while_a_matcher_lists_again_it_gets_everything() -> None:
    routes = listed(matcher_1=(1, 2, 3), matcher_2=())
    assert routed(routes, 9, matchers=(FIRST, SECOND)) == {}
    assert routes.on_anchors(FIRST, part(2, (3, 4), begins=True, whole=False))
    assert not routes.knows(FIRST)
    assert routes.on_anchors(FIRST, part(3, (5,)))
    assert routed(routes, 3, 4, 5, 9, matchers=(FIRST, SECOND)) == {FIRST: [0, 1, 2]}


def test_what_is_not_listed_again_goes_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMOVED_AT_ONCE", 2)
    routes = listed(matcher_1=(1, 2, 3, 4, 5, 6), matcher_2=(1, 2))
    assert routes.on_anchors(FIRST, part(2, begins=True, whole=False))
    routes.clean()
    assert routes.anchors == 8  # they may be listed again
    assert routes.on_anchors(FIRST, part(3, (6,)))
    assert routes.on_anchors(SECOND, part(2, (2,), begins=True))
    routes.clean()
    assert routes.anchors == 6
    assert routes.on_anchors(FIRST, part(4, (1, 2, 3)))  # announced again meanwhile: they stay, or come back
    for _ in range(3):
        routes.clean()
    assert routes.anchors_of(FIRST) == set(anchors(1, 2, 3, 6))
    assert routes.anchors_of(SECOND) == set(anchors(2))
    assert routes.anchors == 5
    assert routed(routes, 1, 2, 4, 6, matchers=(FIRST, SECOND)) == {FIRST: [0, 1, 3], SECOND: [1]}


def test_a_list_that_begins_while_the_one_before_is_cleaned_keeps_what_it_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REMOVED_AT_ONCE", 1)
    routes = listed(matcher_1=(1, 2, 3))
    assert routes.on_anchors(FIRST, part(2, begins=True))
    routes.clean()
    assert routes.on_anchors(FIRST, part(3, (1, 2, 3), begins=True, whole=False))
    for _ in range(3):
        routes.clean()
    assert routes.on_anchors(FIRST, part(4))
    assert routes.anchors_of(FIRST) == set(anchors(1, 2, 3))
    assert routed(routes, 1, 2, 3, matchers=(FIRST,)) == {FIRST: [0, 1, 2]}


def test_what_a_matcher_listed_that_left_is_removed() -> None:
    routes = listed(matcher_1=(1, 2), matcher_2=(1,))
    routes.keep([SECOND, THIRD])
    assert [routes.knows(matcher) for matcher in MATCHERS] == [False, True, False]
    assert not routes.on_anchors(FIRST, part(2, (3,)))
    routes.clean()
    assert routes.anchors == 1
    assert routes.anchors_of(SECOND) == set(anchors(1))
    assert routes.on_anchors(FIRST, part(3, (2,), begins=True))  # it comes back
    routes.keep(MATCHERS)
    assert routed(routes, 1, 2, matchers=(FIRST, SECOND)) == {FIRST: [1], SECOND: [0]}


# What cannot be kept


def test_where_the_index_is_full_the_matcher_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    routes = listed(matcher_1=(1,), matcher_2=(2,))
    with monkeypatch.context() as patch:
        patch.setattr(MatchIndex, "add", is_full)
        assert routes.on_anchors(FIRST, part(2, (5,)))  # it is true that nothing can be missed
    assert routes.refused == 1
    assert routes.anchors_of(FIRST) is None
    assert routed(routes, 9, 2, matchers=(FIRST, SECOND)) == {FIRST: [0, 1], SECOND: [1]}
    assert routes.on_anchors(FIRST, part(3, (6,)))
    assert not routes.knows(FIRST)
    assert routes.on_anchors(FIRST, part(4, (1, 5), begins=True))
    routes.clean()
    assert routes.anchors_of(FIRST) == set(anchors(1, 5))


def test_where_it_is_full_within_a_list_the_list_is_never_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    routes = Routes()
    assert routes.on_anchors(FIRST, part(1, (1,), begins=True, whole=False))
    with monkeypatch.context() as patch:
        patch.setattr(MatchIndex, "add", is_full)
        assert routes.on_anchors(FIRST, part(2, (2, 3), whole=False))
    assert routes.on_anchors(FIRST, part(3, (4,)))
    assert (routes.refused, routes.knows(FIRST)) == (2, False)


def is_full(*_: Any) -> None:
    raise IndexFullError("full")


@pytest.mark.parametrize("text", ["nothing:x", "box:1,2", "filter:n =", "filter:"])
def test_an_anchor_that_cannot_be_read_loses_nothing(text: str) -> None:
    """A matcher of another version may know other kinds."""
    routes = listed(matcher_2=())
    assert routes.on_anchors(FIRST, Anchors(0, 1, True, True, [text], []))
    assert routed(routes, 9, matchers=(FIRST, SECOND)) == {FIRST: [0]}


@pytest.mark.parametrize("begins", [True, False])
def test_behind_a_part_that_failed_nothing_is_known(begins: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the mistake was: anchors that are not in the index must not be taken for known."""
    routes = listed(matcher_1=(1,), matcher_2=())
    with monkeypatch.context() as patch:
        patch.setattr(MatchIndex, "add", fails)
        with pytest.raises(RuntimeError):
            routes.on_anchors(FIRST, part(2, (2,), begins=begins))
    assert not routes.on_anchors(FIRST, part(3, (3,)))
    assert routes.knows(FIRST) != begins  # of a list that does not begin anew, the rest is still right
    assert routes.on_anchors(FIRST, part(4, (1, 2, 3), begins=True))
    assert routed(routes, 1, 2, 3, 4, matchers=(FIRST, SECOND)) == {FIRST: [0, 1, 2]}


def fails(*_: Any) -> None:
    raise RuntimeError("a mistake")


# By chance


class Oracle:
    """What a matcher has listed, and whether all of it."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        self.part = 1  # the first one of all begins a list
        self.is_whole = False
        self.is_heard = False  # the beginning of the list was not missed


@pytest.mark.parametrize("seed", range(20))
def test_routes_are_those_of_a_look_at_every_list(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refuse still may cost a visit; when all of it is gone, nobody is visited in vain."""
    monkeypatch.setattr(module, "REMOVED_AT_ONCE", 2)
    chance = random.Random(seed)
    routes, oracles = Routes(), {matcher: Oracle() for matcher in MATCHERS}
    for _ in range(200):
        matcher = chance.choice(MATCHERS)
        oracle = oracles[matcher]
        match chance.choices(["list", "change", "leave", "clean", "route"], [4, 8, 1, 4, 8])[0]:
            case "list" | "change" as kind:
                begins = kind == "list"
                added, removed = (tuple(chance.sample(range(10), chance.randint(0, 4))) for _ in range(2))
                removed = tuple(set(removed) - set(added))
                oracle.part += 1
                whole = chance.random() < 0.6 or (oracle.is_whole and not begins)
                message = part(oracle.part, added, removed, begins=begins, whole=whole)
                assert routes.on_anchors(matcher, message) == (begins or oracle.is_heard)
                if begins or oracle.is_heard:
                    kept = set() if begins else oracle.numbers
                    oracle.numbers = (kept - set(removed)) | set(added)
                    oracle.is_heard, oracle.is_whole = True, whole
            case "leave":
                routes.keep([other for other in MATCHERS if other != matcher])
                oracle.is_heard = oracle.is_whole = False
            case "clean":
                routes.clean()
            case _:
                check(routes, oracles, chance, exactly=False)
    for _ in range(30):
        routes.clean()
    check(routes, oracles, chance, exactly=True)


def check(routes: Routes, oracles: dict[str, Oracle], chance: random.Random, *, exactly: bool) -> None:
    batches = [[chance.randrange(12) for _ in range(chance.randint(1, 5))] for _ in range(4)]
    asked = tuple(chance.sample(MATCHERS, chance.randint(1, 3)))
    contents = [[content({"n": number}) for number in batch] for batch in batches]
    for batch, found in zip(batches, routes.route(contents, asked, NOW_S), strict=True):
        assert set(found) <= set(asked)
        for matcher in asked:
            oracle, places = oracles[matcher], found.get(matcher, [])
            assert routes.knows(matcher) == oracle.is_whole
            assert places == sorted(set(places))
            wanted = {place for place, number in enumerate(batch) if not oracle.is_whole or number in oracle.numbers}
            assert set(places) >= wanted
            if exactly:
                assert set(places) == wanted
                assert (matcher in found) == bool(wanted)
