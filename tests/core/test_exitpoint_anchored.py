"""The exit point where only some matchers are asked: a batch is whole when all of one attempt have answered."""

from itertools import permutations

import pytest
from msgspec.structs import replace

from braid.topology import Configuration
from tests.core.exitpoint_cases import confirmed, exitpoint, feed, matches, notified, partial, receive
from tests.core.scaling_cases import NEW_EPOCH, OLD_EPOCH, TARGET, during

MATCHERS = ("matcher-1", "matcher-2", "matcher-3")
ANCHORED = Configuration(OLD_EPOCH, ("accesspoint-1",), MATCHERS, ("exitpoint-1",), routing="anchored")


@pytest.mark.parametrize("order", list(permutations((1, 2, 4))))
def test_the_last_of_those_asked_releases(order: tuple[int, ...]) -> None:
    core = exitpoint()
    *before, last = [partial(1, matcher=matcher, asked=(1, 2, 4)) for matcher in order]
    assert feed(core, *before) == []
    assert notified(feed(core, last)) == [("connpoint-2", 1)]


def test_one_that_nobody_is_concerned_by_is_confirmed_by_one_answer() -> None:
    assert confirmed(feed(exitpoint(), partial(1, [], matcher=3, asked=(3,)))) == [1]


def test_as_many_answers_of_others_do_not_make_it_whole() -> None:
    core = exitpoint()
    assert feed(core, partial(1, matcher=1, asked=(1, 2)), partial(1, matcher=1, asked=(1, 2))) == []
    assert feed(core, partial(1, matcher=3, asked=(2, 3)), partial(1, matcher=4, asked=(2, 4))) == []
    assert notified(feed(core, partial(1, matcher=2, asked=(2, 4)))) == [("connpoint-2", 1)]


def test_sent_again_to_others_it_is_whole_when_all_of_any_attempt_have_answered() -> None:
    """Whoever was asked first and does not answer any more may have left the way."""
    core = exitpoint()
    assert feed(core, partial(1, [("connpoint-1", matches("s-1"))], matcher=1, asked=(1, 2))) == []
    assert feed(core, partial(1, [("connpoint-2", matches("s-3"))], matcher=3, asked=(1, 3, 4))) == []
    released = feed(core, partial(1, [("connpoint-1", matches("s-4"))], matcher=4, asked=(1, 3, 4)))
    assert notified(released) == [("connpoint-1", 1), ("connpoint-2", 1)]
    assert released[0].messages[0].matches == matches("s-1", "s-4")
    # What the first attempt brings late changes nothing, and is not delivered again.
    assert feed(core, partial(1, [("connpoint-1", matches("s-2"))], matcher=2, asked=(1, 2))) == []
    receive(core, "connpoint-1", 1)
    assert confirmed(receive(core, "connpoint-2", 1)) == [1]
    assert core.gathers == 0


def test_what_the_first_attempt_brings_late_completes_it_too() -> None:
    core = exitpoint()
    feed(core, partial(1, matcher=1, asked=(1, 2)), partial(1, [], matcher=3, asked=(3, 4)))
    assert notified(feed(core, partial(1, [], matcher=2, asked=(1, 2)))) == [("connpoint-2", 1)]


def test_attempts_of_both_kinds_complete_one_another() -> None:
    """An access point that was started again asks all until it knows the anchors."""
    core = exitpoint()
    feed(core, partial(1, matcher=1, asked=(1, 2)))
    assert feed(core, partial(1, [], matcher=3, of=3)) == []
    assert notified(feed(core, partial(1, [], matcher=2, of=3))) == [("connpoint-2", 1)]
    feed(core, partial(2, matcher=2, of=3))
    assert notified(feed(core, partial(2, [], matcher=1, asked=(1, 2)))) == [("connpoint-2", 2)]


def test_another_epoch_begins_anew_with_those_asked_in_it() -> None:
    core = exitpoint()
    feed(core, partial(1, matcher=1, asked=(1, 2), epoch=1))
    assert feed(core, partial(1, [], matcher=2, asked=(1, 2), epoch=2)) == []
    assert feed(core, partial(1, matcher=2, asked=(1, 2), epoch=1)) == []
    assert core.stale == 1
    assert confirmed(feed(core, partial(1, [], matcher=1, asked=(1, 2), epoch=2))) == [1]


def test_a_held_batch_stays_as_it_is_whoever_else_is_asked() -> None:
    core = exitpoint()
    whole = [partial(2, matcher=matcher, previous=1, asked=(1, 2)) for matcher in (1, 2)]
    assert feed(core, *whole) == []
    other = partial(2, [("connpoint-1", matches("s-9"))], matcher=3, previous=1, asked=(3, 4))
    assert feed(core, other) == []
    released = feed(core, partial(1, [], asked=(1,)))
    assert (confirmed(released), notified(released)) == ([1], [("connpoint-2", 2)])


def test_a_held_batch_goes_on_when_it_is_sent_again_and_need_not_wait_any_more() -> None:
    core = exitpoint()
    assert feed(core, partial(2, matcher=1, previous=1, asked=(1,))) == []
    again = partial(2, [("connpoint-1", matches("s-9"))], matcher=3, previous=0, asked=(3, 4))
    assert notified(feed(core, again)) == [("connpoint-2", 2)]


# What the cut allows


def test_fewer_partials_than_matchers_are_as_it_should_be_where_not_all_are_asked() -> None:
    core = exitpoint()
    core.scaling.on_configuration(ANCHORED)
    feed(core, partial(1, asked=(1,), epoch=OLD_EPOCH), partial(2, asked=(1, 3), epoch=OLD_EPOCH))
    feed(core, partial(3, of=3, epoch=OLD_EPOCH))
    assert core.scaling.violations == 0
    feed(core, partial(4, asked=(1, 2, 3, 4), epoch=OLD_EPOCH))
    assert core.scaling.violations == 1


def test_where_all_are_asked_fewer_are_a_violation() -> None:
    core = exitpoint()
    core.scaling.on_configuration(replace(ANCHORED, routing="broadcast"))
    feed(core, partial(1, asked=(1,), epoch=OLD_EPOCH))
    assert core.scaling.violations == 1


@pytest.mark.parametrize(("routing", "violations"), [("anchored", 0), ("broadcast", 1)])
def test_the_routing_of_the_new_epoch_counts_behind_the_cut(routing: str, violations: int) -> None:
    core = exitpoint()
    core.scaling.on_configuration(during("flushing", replace(TARGET, routing=routing)))
    feed(core, partial(1, asked=(2,), epoch=NEW_EPOCH))
    assert core.scaling.violations == violations
