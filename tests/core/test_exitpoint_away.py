"""What has an address waits at the exit point for a connection point that crashed, for a while."""

from braid.messages import Match, Notifications
from services.exitpoint.core import ExitPointCore
from tests.core.exitpoint_cases import confirmed, exitpoint, feed, matches, notified, partial, receive

GONE = {"connpoint-1": 1}
BACK = {"connpoint-1": 1, "connpoint-2": 2}
BOTH: list[Match] = [(0, ["s-1", "a-1"], b"0"), (1, ["s-2"], b"1"), (2, ["a-2"], b"2")]


def sent_to(core: ExitPointCore, connpoint: str, incarnation: int) -> list[Match]:
    (send,) = core.on_connpoint_up(connpoint, incarnation)
    (message,) = send.messages
    assert isinstance(message, Notifications)
    return message.matches


def test_the_next_incarnation_is_sent_what_has_an_address_and_nothing_else() -> None:
    core = exitpoint()
    feed(core, partial(1, [("connpoint-2", BOTH)]))
    assert core.on_connpoints(GONE) == []
    assert core.on_connpoints(BACK) == []
    assert sent_to(core, "connpoint-2", 2) == [(0, ["a-1"], b"0"), (2, ["a-2"], b"2")]
    assert core.undeliverable == 1
    assert confirmed(receive(core, "connpoint-2", 1)) == [1]


def test_an_incarnation_that_links_before_it_is_known_to_be_registered() -> None:
    core = exitpoint()
    feed(core, partial(1, [("connpoint-2", matches("a-1"))]))
    assert sent_to(core, "connpoint-2", 2) == matches("a-1")
    assert core.undeliverable == 0


def test_what_is_released_while_it_is_away_waits_too_and_goes_in_order() -> None:
    core = exitpoint(connpoints=GONE)
    feed(core, partial(2, [("connpoint-2", matches("a-1"))], previous=1))
    sends = feed(core, partial(1, [("connpoint-2", matches("a-1"))]), partial(3, [("connpoint-2", matches("s-1"))]))
    assert (notified(sends), confirmed(sends)) == ([], [3])
    core.on_connpoints(BACK)
    assert notified(core.on_connpoint_up("connpoint-2", 2)) == [("connpoint-2", 1), ("connpoint-2", 2)]


def test_others_are_not_held_up() -> None:
    core = exitpoint(connpoints=GONE)
    sends = feed(core, partial(1, [("connpoint-1", matches("s-1")), ("connpoint-2", matches("a-1"))]))
    assert notified(sends) == [("connpoint-1", 1)]
    assert receive(core, "connpoint-1", 1) == []
    core.on_connpoints(BACK)
    core.on_connpoint_up("connpoint-2", 2)
    assert confirmed(receive(core, "connpoint-2", 1)) == [1]


def test_one_that_stays_away_is_given_up_until_it_is_back() -> None:
    core = exitpoint(connpoints=GONE)
    feed(core, partial(1, [("connpoint-2", matches("a-1"))]))
    assert core.on_tick(100.0) == []
    feed(core, partial(2, [("connpoint-2", matches("a-1"))]), now_s=159.0)
    assert core.on_tick(160.0) == []
    assert confirmed(core.on_tick(160.1)) == [1, 2]
    assert core.undeliverable == 2
    assert confirmed(feed(core, partial(3, [("connpoint-2", matches("a-1"))]), now_s=161.0)) == [3]
    core.on_connpoints(BACK)
    core.on_tick(162.0)
    core.on_connpoints(GONE)
    assert confirmed(feed(core, partial(4, [("connpoint-2", matches("a-1"))]), now_s=163.0)) == []
    assert core.gathers == 1


def test_its_time_begins_anew_when_it_was_back() -> None:
    core = exitpoint(connpoints=GONE)
    feed(core, partial(1, [("connpoint-2", matches("a-1"))]))
    core.on_tick(100.0)
    core.on_connpoints(BACK)
    core.on_tick(130.0)
    core.on_connpoints(GONE)
    core.on_tick(131.0)
    assert core.on_tick(190.0) == []
    assert confirmed(core.on_tick(191.1)) == [1]
