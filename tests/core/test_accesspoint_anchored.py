"""The access point under anchored routing: each matcher gets what it must see, and every batch goes to somebody."""

from typing import Any

import pytest
from msgspec.structs import replace

from braid.messages import Anchors, AnchorsKnown, MatchRequest, Publications, Send
from braid.topology import Change, Configuration, Phase, Routing, Target
from services.accesspoint.core import AccessPointCore
from tests.core.matching_cases import content

MATCHERS = ("matcher-1", "matcher-2", "matcher-3")
FIRST, SECOND, THIRD = MATCHERS
ANCHORED = Configuration(4, ("accesspoint-1",), MATCHERS, ("exitpoint-1",), routing="anchored", epochs=4)
NOW = 50.0
ONE, TWO, THREE, NINE = (content({"n": number}) for number in (1, 2, 3, 9))


def accesspoint(configuration: Configuration = ANCHORED, **numbers: tuple[int, ...]) -> AccessPointCore:
    """`matcher_1=(1, 2)`: that matcher keeps subscriptions under `n = 1` and under `n = 2`."""
    core = AccessPointCore("accesspoint-1", lambda: 999)
    core.on_configuration(configuration, NOW)
    for matcher, several in numbers.items():
        core.on_anchors(matcher.replace("_", "-"), anchors(1, *several, begins=True))
    return core


def anchors(part: int, *numbers: int, begins: bool = False) -> Anchors:
    return Anchors(0, part, begins, True, [f"filter:n = {number}" for number in numbers], [])


def publications(sequence: int, *contents: bytes, publisher: int = 77, hops: Any = None) -> Publications:
    return Publications(4, "connpoint-1.a", sequence, sequence - 1, 2, publisher, 1.5, list(contents), hops)


def request(
    sequence: int,
    *contents: bytes,
    places: list[int] | None = None,
    whole: int | None = None,
    asked: tuple[str, ...] | None,
    publisher: int = 77,
    epoch: int = 4,
) -> MatchRequest:
    several = 3 if asked is None else len(asked)
    listed = None if asked is None else list(asked)
    batch = (epoch, "connpoint-1.a", sequence, sequence - 1, 2, publisher, 1.5)
    return MatchRequest(*batch, several, list(contents), None, places, listed, whole=whole)


def publish(core: AccessPointCore, *batch: Publications) -> dict[str, list[MatchRequest]]:
    sends = core.on_publications(list(batch), NOW, 7)
    assert len({send.to for send in sends}) == len(sends)
    return {send.to: send.messages for send in sends}


def to_all(given: MatchRequest) -> dict[str, list[MatchRequest]]:
    return {matcher: [given] for matcher in MATCHERS}


def test_a_part_that_is_known_is_answered() -> None:
    core = accesspoint()
    assert core.on_anchors(FIRST, anchors(3, 1, begins=True)) == [Send(FIRST, [AnchorsKnown(0, 3)])]
    assert core.on_anchors(FIRST, anchors(4, 2)) == [Send(FIRST, [AnchorsKnown(0, 4)])]
    assert core.on_anchors(FIRST, anchors(6, 3)) == []
    assert core.on_anchors(SECOND, anchors(2, 3)) == []


def test_each_matcher_gets_its_part_of_the_batch_and_who_else_was_asked() -> None:
    core = accesspoint(matcher_1=(1, 2), matcher_2=(2,), matcher_3=(3,))
    asked = (FIRST, SECOND)
    assert publish(core, publications(5, ONE, NINE, TWO)) == {
        FIRST: [request(5, ONE, TWO, places=[0, 2], whole=3, asked=asked)],
        SECOND: [request(5, TWO, places=[2], whole=3, asked=asked)],
    }


def test_a_whole_batch_has_no_places() -> None:
    core = accesspoint(matcher_1=(1, 2), matcher_2=(2,), matcher_3=())
    assert publish(core, publications(5, ONE, TWO)) == {
        FIRST: [request(5, ONE, TWO, asked=(FIRST, SECOND))],
        SECOND: [request(5, TWO, places=[1], whole=2, asked=(FIRST, SECOND))],
    }


@pytest.mark.parametrize(("publisher", "matcher"), [(0, FIRST), (1, SECOND), (2**64 - 1, FIRST), (5, THIRD)])
def test_what_concerns_nobody_is_answered_by_one(publisher: int, matcher: str) -> None:
    """The exit point waits for at least one partial."""
    core = accesspoint(matcher_1=(1,), matcher_2=(), matcher_3=())
    assert publish(core, publications(5, NINE, TWO, publisher=publisher)) == {
        matcher: [request(5, places=[], whole=2, asked=(matcher,), publisher=publisher)]
    }


def test_several_batches_go_each_its_own_way_and_in_order() -> None:
    core = accesspoint(matcher_1=(1,), matcher_2=(2,), matcher_3=())
    batch = [publications(5, ONE), publications(6, TWO, ONE), publications(7, NINE, publisher=2), publications(8, ONE)]
    assert publish(core, *batch) == {
        FIRST: [
            request(5, ONE, asked=(FIRST,)),
            request(6, ONE, places=[1], whole=2, asked=(FIRST, SECOND)),
            request(8, ONE, asked=(FIRST,)),
        ],
        SECOND: [request(6, TWO, places=[0], whole=2, asked=(FIRST, SECOND))],
        THIRD: [request(7, places=[], whole=1, asked=(THIRD,), publisher=2)],
    }


def test_a_matcher_that_has_not_listed_its_anchors_gets_everything() -> None:
    core = accesspoint(matcher_1=(1,), matcher_2=())
    asked = (FIRST, THIRD)
    assert publish(core, publications(5, ONE, NINE)) == {
        FIRST: [request(5, ONE, places=[0], whole=2, asked=asked)],
        THIRD: [request(5, ONE, NINE, asked=asked)],
    }


def test_a_link_that_comes_again_changes_nothing_until_its_matcher_lists_again() -> None:
    """It acknowledges nothing meanwhile that is not on the old list."""
    core = accesspoint(matcher_1=(1,), matcher_2=(), matcher_3=())
    assert core.on_matcher_up(SECOND) == []
    assert publish(core, publications(5, ONE)) == {FIRST: [request(5, ONE, asked=(FIRST,))]}
    core.on_anchors(SECOND, anchors(2, 9, begins=True))
    assert publish(core, publications(6, NINE)) == {SECOND: [request(6, NINE, asked=(SECOND,))]}


def test_until_any_anchors_are_known_all_matchers_are_asked() -> None:
    """As after a start: the matching engine is not even loaded."""
    core = accesspoint()
    assert core.on_matcher_up(FIRST) == []
    assert core.routes is None
    assert publish(core, publications(5, ONE)) == to_all(request(5, ONE, asked=None))


def test_under_broadcast_routing_anchors_say_nothing() -> None:
    """They come before the cut of a scaling that leads to the other routing."""
    core = accesspoint(replace(ANCHORED, routing="broadcast"), matcher_1=(1,), matcher_2=(), matcher_3=())
    assert publish(core, publications(5, ONE, NINE)) == to_all(request(5, ONE, NINE, asked=None))


def test_a_traced_batch_has_its_hop_everywhere() -> None:
    core = accesspoint(matcher_1=(1,), matcher_2=(2,), matcher_3=())
    found = publish(core, publications(5, ONE, TWO, hops=[("connpoint-1", 1, 2)]))
    hops = [("connpoint-1", 1, 2), ("accesspoint-1", 7, 999)]
    assert {matcher: requests[0].hops for matcher, requests in found.items()} == {FIRST: hops, SECOND: hops}


def test_a_matcher_that_left_is_not_asked_and_gets_everything_when_it_is_back() -> None:
    core = accesspoint(matcher_1=(1,), matcher_2=(9,), matcher_3=())
    core.on_configuration(replace(ANCHORED, epoch=5, epochs=5, matchers=(FIRST, THIRD)), NOW)
    part = request(5, ONE, places=[1], whole=2, asked=(FIRST,), epoch=5)
    assert publish(core, publications(5, NINE, ONE)) == {FIRST: [part]}
    core.on_configuration(replace(ANCHORED, epoch=6, epochs=6), NOW)
    assert publish(core, publications(6, TWO)) == {SECOND: [request(6, TWO, asked=(SECOND,), epoch=6)]}


def changing(phase: Phase, routing: Routing) -> Configuration:
    target = Target(5, ("accesspoint-1",), MATCHERS, ("exitpoint-1",), routing)
    return replace(
        ANCHORED, routing="broadcast" if routing == "anchored" else "anchored", change=Change("c", phase, target, {})
    )


@pytest.mark.parametrize("routing", ["anchored", "broadcast"])
def test_what_is_held_at_the_cut_goes_on_under_the_new_routing(routing: Routing) -> None:
    core = accesspoint(changing("moving", routing), matcher_1=(1,), matcher_2=(), matcher_3=())
    before, after = {FIRST: [request(5, ONE, asked=(FIRST,))]}, {FIRST: [request(6, ONE, asked=(FIRST,), epoch=5)]}
    if routing == "anchored":
        before = to_all(request(5, ONE, asked=None))
    else:
        after = to_all(request(6, ONE, asked=None, epoch=5))
    assert publish(core, publications(5, ONE)) == before
    core.on_configuration(changing("changing", routing), NOW)
    assert publish(core, publications(6, ONE)) == {}
    sends = [effect for effect in core.on_configuration(changing("flushing", routing), NOW) if isinstance(effect, Send)]
    flushed = {send.to: [m for m in send.messages if isinstance(m, MatchRequest)] for send in sends}
    assert {matcher: requests for matcher, requests in flushed.items() if requests} == after
