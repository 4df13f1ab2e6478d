"""A batch that is sent again: each attempt is gathered by itself, and the first that is whole is what is delivered.

Between two attempts somebody may have subscribed. What one matcher says of the first and another of the second would
hold a subscription for some publications of the batch and not for others.
"""

import random

import pytest

from braid.messages import Notifications, Partial, Send
from services.exitpoint import core as core_module
from tests.core.exitpoint_cases import confirmed, exitpoint, feed, matches, notified, partial, receive


def part(attempt: int, matcher: int, *, of: int = 2, sequence: int = 1, previous: int = 0, epoch: int = 1) -> Partial:
    """What it matched says which one it is."""
    matched = [("connpoint-2", matches(f"s-{attempt}-{matcher}"))]
    return partial(
        sequence, matched, matcher=matcher, of=of, attempt=attempt, previous=previous, watermark=0, epoch=epoch
    )


def delivered(sends: list[Send]) -> list[list[str]]:
    """The subscriptions of every notification."""
    messages = [message for send in sends for message in send.messages if isinstance(message, Notifications)]
    return [sorted(id for _, ids, _ in message.matches for id in ids) for message in messages]


def test_partials_of_two_attempts_make_no_whole() -> None:
    core = exitpoint()
    assert feed(core, part(0, 1), part(1, 2)) == []
    assert delivered(feed(core, part(1, 1))) == [["s-1-1", "s-1-2"]]


def test_the_first_attempt_that_is_whole_counts_whichever_it_is() -> None:
    core = exitpoint()
    assert feed(core, part(0, 1), part(1, 1)) == []
    assert delivered(feed(core, part(0, 2))) == [["s-0-1", "s-0-2"]]


def test_what_other_attempts_bring_later_is_delivered_to_nobody() -> None:
    core = exitpoint()
    feed(core, part(0, 1), part(1, 1), part(1, 2))
    assert feed(core, part(0, 2), part(2, 1), part(2, 2)) == []
    assert confirmed(receive(core, "connpoint-2", 1)) == [1]
    assert confirmed(feed(core, part(0, 2))) == [1]  # done with, and said once more
    assert core.gathers == 0


def test_one_matcher_counts_once_in_each_attempt() -> None:
    core = exitpoint()
    assert feed(core, part(3, 1), part(3, 1), part(4, 1), part(4, 1)) == []
    assert delivered(feed(core, part(4, 2))) == [["s-4-1", "s-4-2"]]


def test_attempts_need_not_be_counted_from_nothing() -> None:
    """A process that was started again counts from the time on."""
    core = exitpoint()
    assert feed(core, part(0, 1), part(1_700_000_000, 2)) == []
    assert delivered(feed(core, part(1_700_000_000, 1))) == [["s-1700000000-1", "s-1700000000-2"]]


def test_where_some_matchers_are_asked_all_of_one_attempt_must_answer() -> None:
    core = exitpoint()
    first = partial(1, [("connpoint-2", matches("s-1"))], matcher=1, asked=(1, 2), attempt=0)
    second = partial(1, [("connpoint-2", matches("s-2"))], matcher=2, asked=(1, 2), attempt=1)
    again = partial(1, [("connpoint-2", matches("s-3"))], matcher=1, asked=(1, 2), attempt=1)
    assert feed(core, first, second) == []
    assert delivered(feed(core, again)) == [["s-2", "s-3"]]


def test_another_epoch_begins_anew() -> None:
    core = exitpoint()
    assert feed(core, part(0, 1), part(1, 1, epoch=2)) == []
    assert feed(core, part(1, 2)) == []
    assert core.stale == 1
    assert delivered(feed(core, part(1, 2, epoch=2))) == [["s-1-1", "s-1-2"]]


def test_a_held_batch_is_what_its_first_whole_attempt_was() -> None:
    core = exitpoint()
    held = [part(0, matcher, sequence=2, previous=1) for matcher in (1, 2)]
    assert feed(core, *held) == []
    assert feed(core, *(part(1, matcher, sequence=2, previous=1) for matcher in (1, 2))) == []
    assert delivered(feed(core, part(5, 1, of=1))) == [["s-5-1"], ["s-0-1", "s-0-2"]]


def test_a_held_batch_goes_on_when_a_later_attempt_need_not_wait() -> None:
    core = exitpoint()
    feed(core, *(part(0, matcher, sequence=2, previous=1) for matcher in (1, 2)))
    assert delivered(feed(core, part(1, 1, sequence=2, previous=0))) == [["s-0-1", "s-0-2"]]


def test_a_batch_need_not_wait_any_more_when_a_later_attempt_says_so() -> None:
    core = exitpoint()
    feed(core, part(0, 1, sequence=2, previous=1), part(1, 1, sequence=2, previous=0))
    assert notified(feed(core, part(0, 2, sequence=2, previous=1))) == [("connpoint-2", 2)]


def test_the_latest_attempts_are_remembered_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_module, "_ATTEMPTS_MAX", 2)
    core = exitpoint()
    assert feed(core, part(0, 1), part(1, 1), part(2, 1)) == []
    assert feed(core, part(0, 2)) == []  # what the first one had said is forgotten
    assert delivered(feed(core, part(1, 2))) == [["s-1-1", "s-1-2"]]


def test_of_many_attempts_the_latest_is_gathered_too() -> None:
    core = exitpoint()
    for attempt in range(50):
        assert feed(core, part(attempt, 1)) == []
    assert delivered(feed(core, part(49, 2))) == [["s-49-1", "s-49-2"]]


@pytest.mark.parametrize("seed", range(30))
def test_whatever_the_order_one_attempt_is_delivered_once_and_whole(seed: int) -> None:
    chance = random.Random(seed)
    partials = [part(attempt, matcher, of=3) for attempt in range(4) for matcher in range(3)] * 2
    chance.shuffle(partials)
    core = exitpoint()
    (ids,) = [ids for given in partials for ids in delivered(feed(core, given))]
    (attempt,) = {id.split("-")[1] for id in ids}
    assert ids == [f"s-{attempt}-{matcher}" for matcher in range(3)]
