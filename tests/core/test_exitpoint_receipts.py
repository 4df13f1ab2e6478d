"""The exit point awaits the receipts of connection points that are there, then confirms."""

from tests.core.exitpoint_cases import confirmed, exitpoint, feed, matches, notified, partial, receive


def test_a_repetition_of_a_done_batch_is_confirmed_again_and_delivered_to_nobody() -> None:
    core = exitpoint()
    feed(core, partial(1))
    receive(core, "connpoint-2", 1)
    sends = feed(core, partial(1))
    assert (notified(sends), confirmed(sends)) == ([], [1])
    assert confirmed(feed(core, partial(2, [], watermark=1), partial(1))) == [2, 1]
    assert core.gathers == 0


def test_receipts_of_others_repeated_ones_and_unknown_ones_change_nothing() -> None:
    core = exitpoint()
    feed(core, partial(1))
    assert receive(core, "connpoint-1", 1) == []
    assert receive(core, "connpoint-2", 99) == []
    assert receive(core, "connpoint-2", 1, origin="connpoint-7.f") == []
    assert confirmed(receive(core, "connpoint-2", 1, 1)) == [1]
    assert receive(core, "connpoint-2", 1) == []


def test_a_batch_that_was_confirmed_elsewhere_is_let_go() -> None:
    core = exitpoint()
    feed(core, partial(3, of=2), partial(4, of=2), partial(7, of=2))
    feed(core, partial(9, [], watermark=5))
    assert core.gathers == 1


def test_whatever_the_watermark_passed_is_let_go_in_whatever_order_it_came() -> None:
    core = exitpoint()
    feed(core, partial(7, of=2), partial(3, of=2))
    feed(core, partial(9, [], watermark=5))
    assert core.gathers == 1
    assert confirmed(feed(core, partial(3, of=2))) == [3]


def test_a_connection_point_that_is_not_there_is_not_waited_for() -> None:
    core = exitpoint(connpoints={"connpoint-1": 1})
    sends = feed(core, partial(1))
    assert (notified(sends), confirmed(sends)) == ([], [1])
    assert core.undeliverable == 1


def test_a_connection_point_that_goes_is_waited_for_no_longer() -> None:
    core = exitpoint()
    feed(core, partial(1), partial(2, [("connpoint-1", matches("s-1")), ("connpoint-2", matches("s-2"))]))
    assert confirmed(core.on_connpoints({"connpoint-1": 1})) == [1]
    assert confirmed(receive(core, "connpoint-1", 2)) == [2]
    assert core.undeliverable == 2


def test_a_new_incarnation_is_another_connection_point() -> None:
    core = exitpoint()
    feed(core, partial(1))
    assert confirmed(core.on_connpoints({"connpoint-1": 1, "connpoint-2": 2})) == [1]
    assert core.on_connpoint_up("connpoint-2", 2) == []
    assert notified(feed(core, partial(2))) == [("connpoint-2", 2)]


def test_a_new_incarnation_that_links_before_it_is_known_to_be_registered() -> None:
    core = exitpoint()
    feed(core, partial(1))
    assert confirmed(core.on_connpoint_up("connpoint-2", 2)) == [1]
    assert core.on_connpoints({"connpoint-1": 1, "connpoint-2": 2}) == []


def test_the_same_incarnation_gets_again_what_it_has_not_received() -> None:
    core = exitpoint()
    feed(core, partial(2), partial(1), partial(3, [("connpoint-1", matches("s-1"))]))
    receive(core, "connpoint-2", 99)
    sends = core.on_connpoint_up("connpoint-2", 1)
    assert notified(sends) == [("connpoint-2", 1), ("connpoint-2", 2)]
    receive(core, "connpoint-2", 1)
    assert notified(core.on_connpoint_up("connpoint-2", 1)) == [("connpoint-2", 2)]


def test_nothing_held_is_sent_to_a_connection_point_that_links() -> None:
    core = exitpoint()
    feed(core, partial(2, previous=1), partial(5, of=2))
    assert core.on_connpoint_up("connpoint-2", 1) == []
