"""What the exit point keeps is bounded, in number and in time."""

from tests.core.exitpoint_cases import confirmed, exitpoint, feed, notified, partial, receive


def test_beyond_the_bound_partials_are_dropped_and_counted() -> None:
    core = exitpoint(gathers_max=2)
    feed(core, partial(1, of=2), partial(2, of=2), partial(3, of=2), partial(3, of=2, matcher=2))
    assert (core.gathers, core.dropped) == (2, 2)
    feed(core, partial(1, [], of=2, matcher=2))
    receive(core, "connpoint-2", 1)
    assert notified(feed(core, partial(3, of=2), partial(3, of=2, matcher=2))) == [("connpoint-2", 3)]


def test_at_the_bound_a_batch_that_others_wait_for_is_let_in() -> None:
    """Otherwise held batches would fill the exit point for ever."""
    core = exitpoint(gathers_max=2)
    feed(core, partial(3, previous=2), partial(4, previous=3))
    assert feed(core, partial(9)) == []
    assert feed(core, partial(2, previous=1)) == []
    assert notified(feed(core, partial(1))) == [("connpoint-2", n) for n in (1, 2, 3, 4)]
    assert core.gathers == 4
    assert core.dropped == 1


def test_what_nobody_completes_is_let_go_when_its_origin_is_silent() -> None:
    core = exitpoint()
    feed(core, partial(1, of=2), partial(3, previous=2), partial(4), now_s=100.0)
    assert core.on_tick(160.0) == []
    assert core.gathers == 3
    assert core.on_tick(160.1) == []
    assert (core.gathers, core.dropped) == (1, 2)  # what was released is still awaited
    assert notified(feed(core, partial(2), partial(3, previous=2))) == [("connpoint-2", 2), ("connpoint-2", 3)]


def test_an_origin_that_is_heard_keeps_what_is_incomplete() -> None:
    core = exitpoint()
    feed(core, partial(1, of=2), now_s=100.0)
    feed(core, partial(2, []), now_s=150.0)
    core.on_tick(200.0)
    assert core.gathers == 1


def test_an_origin_is_forgotten_when_its_incarnation_is_over_and_silent() -> None:
    core = exitpoint(connpoints={"connpoint-1": 10, "connpoint-2": 1})  # 0xa
    feed(core, partial(1, []), partial(1, [], origin="connpoint-1.9"), now_s=100.0)
    core.on_tick(161.0)
    assert confirmed(feed(core, partial(1), now_s=161.0)) == [1]  # of the running incarnation: still known
    assert notified(feed(core, partial(1, origin="connpoint-1.9"), now_s=161.0)) == [("connpoint-2", 1)]
    core.on_connpoints({"connpoint-2": 1})
    core.on_tick(300.0)
    assert notified(feed(core, partial(1), now_s=300.0)) == [("connpoint-2", 1)]
