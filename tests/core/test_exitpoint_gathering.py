"""The exit point gathers the partials of a batch, of one epoch, with their traces."""

from itertools import permutations

import pytest

from braid.messages import Confirmed, Notifications, Received, Send
from tests.core.exitpoint_cases import (
    ORIGIN,
    PUBLISHER,
    confirmed,
    exitpoint,
    feed,
    matches,
    notified,
    partial,
    receive,
)


@pytest.mark.parametrize("matchers", [1, 2, 3, 4])
def test_the_last_partial_in_any_order_releases(matchers: int) -> None:
    for order in permutations(range(1, matchers + 1)):
        core = exitpoint()
        for matcher in order[:-1]:
            assert feed(core, partial(1, matcher=matcher, of=matchers)) == []
        assert notified(feed(core, partial(1, matcher=order[-1], of=matchers))) == [("connpoint-2", 1)]


def test_the_exact_effects_of_one_batch() -> None:
    core = exitpoint()
    first = partial(
        1, [("connpoint-2", [(0, ["s-1"], b"a"), (2, ["s-2"], b"c")])], matcher=1, of=2, watermark=0, previous=0
    )
    second = partial(
        1,
        [("connpoint-2", [(1, ["s-3"], b"b"), (2, ["s-4"], b"c")]), ("connpoint-1", [(0, ["s-5"], b"a")])],
        matcher=2,
        of=2,
    )
    assert feed(core, first) == []
    assert feed(core, second) == [
        Send(
            "connpoint-2",
            [
                Notifications(
                    1,
                    ORIGIN,
                    1,
                    0,
                    PUBLISHER,
                    [(0, ["s-1"], b"a"), (1, ["s-3"], b"b"), (2, ["s-2", "s-4"], b"c")],
                    None,
                )
            ],
        ),
        Send("connpoint-1", [Notifications(1, ORIGIN, 1, 0, PUBLISHER, [(0, ["s-5"], b"a")], None)]),
    ]
    assert receive(core, "connpoint-1", 1) == []
    assert core.gathers == 1
    assert receive(core, "connpoint-2", 1) == [Send("connpoint-1", [Confirmed(1, ORIGIN, [1], [])])]
    assert core.gathers == 0


def test_what_matches_nobody_is_confirmed_at_once() -> None:
    core = exitpoint()
    assert feed(core, partial(1, [], matcher=1, of=2)) == []
    assert feed(core, partial(1, [], matcher=2, of=2)) == [Send("connpoint-1", [Confirmed(1, ORIGIN, [1], [])])]
    assert core.gathers == 0


def test_a_matcher_heard_twice_counts_once() -> None:
    core = exitpoint()
    assert feed(core, partial(1, of=2), partial(1, of=2), partial(1, of=2)) == []
    (send,) = feed(core, partial(1, [], matcher=2, of=2))
    assert send.messages[0].matches == matches("s-1")


def test_partials_of_a_released_batch_are_of_no_interest() -> None:
    core = exitpoint()
    feed(core, partial(1))
    assert feed(core, partial(1), partial(1, matcher=2)) == []
    assert confirmed(receive(core, "connpoint-2", 1)) == [1]


def test_batches_of_one_call_are_one_send_for_each_connection_point() -> None:
    core = exitpoint()
    sends = feed(core, partial(1), partial(2), partial(3, []))
    assert notified(sends) == [("connpoint-2", 1), ("connpoint-2", 2)]
    assert len(sends) == 2
    assert confirmed(sends) == [3]


def test_a_newer_epoch_in_the_middle_starts_the_gather_anew() -> None:
    core = exitpoint()
    feed(core, partial(1, matcher=1, of=2, epoch=1))
    assert feed(core, partial(1, [("connpoint-2", matches("s-9"))], matcher=3, of=2, epoch=2)) == []
    assert feed(core, partial(1, matcher=2, of=2, epoch=1)) == []
    assert core.stale == 1
    (send,) = feed(core, partial(1, [], matcher=1, of=2, epoch=2))
    assert send.messages == [Notifications(2, ORIGIN, 1, 0, PUBLISHER, matches("s-9"), None)]
    assert core.gathers == 1


def test_a_complete_batch_that_is_held_takes_nothing_from_a_newer_epoch() -> None:
    """A subscription that moved to another matcher would be in it twice."""
    core = exitpoint()
    feed(core, partial(2, previous=1, epoch=1))
    feed(core, partial(2, previous=1, epoch=2, matcher=7))
    (send,) = feed(core, partial(1, [("connpoint-2", matches("s-1"))]))
    assert [m.matches for m in send.messages] == [matches("s-1"), matches("s-1")]


def test_a_trace_goes_along_and_comes_back_with_the_receipt() -> None:
    core = exitpoint()
    hops = [("connpoint-1", 1, 2), ("accesspoint-1", 3, 4), ("matcher-1", 5, 6)]
    (send,) = core.on_partials([partial(1, hops=hops)], 100.0, 7)
    assert send.messages[0].hops == [*hops, ("exitpoint-1", 7, 999)]
    delivered = [*send.messages[0].hops, ("connpoint-2", 1000, 1001)]
    (send,) = core.on_received("connpoint-2", [Received(1, ORIGIN, [1], [(1, delivered)])])
    assert send.messages == [Confirmed(1, ORIGIN, [1], [(1, delivered)])]


def test_the_trace_of_what_matched_nobody_ends_here() -> None:
    core = exitpoint()
    (send,) = core.on_partials([partial(1, [], hops=[("matcher-1", 5, 6)])], 100.0, 7)
    assert send.messages == [Confirmed(1, ORIGIN, [1], [(1, [("matcher-1", 5, 6), ("exitpoint-1", 7, 999)])])]
