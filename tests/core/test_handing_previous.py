"""What a matcher remembers for `prev` goes to the others: everything, what has changed, and that this was all."""

import pytest

from braid.messages import HandOverPrevious, Send
from services.matcher import handing_previous as module
from services.matcher.handing_previous import HandingPrevious

EPOCH = 6


class Remembered:
    """Chains that a test changes."""

    def __init__(self, **chains: bytes) -> None:
        self.chains = dict(chains)

    def handing(self, *receivers: str) -> HandingPrevious:
        return HandingPrevious(EPOCH, receivers or ("matcher-2",), iter(self.chains), self.chains.get)


def part(number: int, *, first: int = 1, is_last: bool = False, **chains: bytes) -> HandOverPrevious:
    return HandOverPrevious(EPOCH, number, first, chains, is_last)


def test_everything_once_then_what_has_changed_then_the_last() -> None:
    remembered = Remembered(a=b"1", b=b"2")
    one = remembered.handing()
    assert one.wants_to_go_on
    assert not one.is_copied
    assert one.go_on() == [Send("matcher-2", [part(1, a=b"1", b=b"2")])]
    assert not one.wants_to_go_on
    assert not one.is_copied
    one.on_handed_over("matcher-2", 1)
    assert one.is_copied
    remembered.chains["b"] = b"3"
    one.on_changed(["b"])
    assert not one.wants_to_go_on  # until the next pass
    one.begin_pass()
    assert one.go_on() == [Send("matcher-2", [part(2, b=b"3")])]
    remembered.chains.update(a=b"4", c=b"5")
    one.on_changed(["a", "c"])
    one.finish()
    assert one.go_on() == [Send("matcher-2", [part(3, a=b"4", c=b"5", is_last=True)])]
    assert (one.is_finishing, one.is_done, one.wants_to_go_on) == (True, False, False)
    one.on_handed_over("matcher-2", 2)
    assert not one.is_done
    one.on_handed_over("matcher-2", 3)
    assert one.is_done


def test_one_that_remembers_nothing_says_so() -> None:
    one = Remembered().handing("matcher-2", "matcher-3")
    assert one.go_on() == []
    assert one.is_copied
    one.finish()
    assert one.go_on() == [Send(name, [part(1, is_last=True)]) for name in ("matcher-2", "matcher-3")]


def test_what_is_said_last_is_as_it_was_at_the_cut() -> None:
    remembered = Remembered(a=b"1")
    one = remembered.handing()
    one.finish()
    remembered.chains.clear()
    one.on_changed(["a"])
    one.on_cleared()
    assert one.go_on() == [Send("matcher-2", [part(1, a=b"1", is_last=True)])]


def test_what_was_forgotten_before_the_cut_is_not_sent() -> None:
    remembered = Remembered(a=b"1", b=b"2", c=b"3")
    one = remembered.handing()
    del remembered.chains["a"]
    assert one.go_on() == [Send("matcher-2", [part(1, b=b"2", c=b"3")])]
    one.on_cleared()
    one.on_receiver_up("matcher-2")
    one.finish()
    assert one.go_on() == [Send("matcher-2", [part(2, first=2, is_last=True)])]


def test_parts_and_what_is_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_TOPICS_MAX", 2)
    monkeypatch.setattr(module, "PARTS_UNDER_WAY_MAX", 2)
    one = Remembered(**{f"t{number}": b"x" for number in range(7)}).handing("matcher-2", "matcher-3")
    sent = [send for _ in range(9) for send in one.go_on()]
    assert [(send.to, message.number) for send in sent for message in send.messages] == [
        ("matcher-2", 1),
        ("matcher-3", 1),
        ("matcher-2", 2),
        ("matcher-3", 2),
    ]
    one.finish()
    assert one.go_on() == []
    one.on_handed_over("matcher-3", 1)  # the other one may be away
    assert one.wants_to_go_on
    assert one.go_on() == [Send("matcher-3", [part(3, t4=b"x", t5=b"x")])]
    one.on_handed_over("matcher-3", 2)
    assert one.go_on() == [Send("matcher-3", [part(4, t6=b"x", is_last=True)])]


def test_a_part_is_closed_when_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_BYTES_MAX", 10)
    one = Remembered(a=b"x" * 20, b=b"x").handing()
    assert one.go_on() == [Send("matcher-2", [part(1, a=b"x" * 20)])]
    assert one.go_on() == [Send("matcher-2", [part(2, b=b"x")])]


def test_a_receiver_that_may_have_been_started_again_gets_everything_again() -> None:
    one = Remembered(a=b"1", b=b"2").handing()
    one.go_on()
    one.on_handed_over("matcher-2", 1)
    one.finish()
    one.go_on()
    one.on_receiver_up("matcher-2")
    assert one.go_on() == [Send("matcher-2", [part(3, first=3, a=b"1", b=b"2", is_last=True)])]
    one.on_handed_over("matcher-2", 2)  # on the link before
    assert not one.is_done
    one.on_handed_over("matcher-2", 3)
    one.on_receiver_up("matcher-2")
    assert one.go_on() == [Send("matcher-2", [part(4, first=4, is_last=True)])]  # it has the rest on disk
    assert one.is_done
    one.on_receiver_up("matcher-9")
    one.on_handed_over("matcher-9", 1)
    assert one.go_on() == []
