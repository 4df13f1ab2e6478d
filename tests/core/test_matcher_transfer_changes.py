"""What changes while a matcher hands over: sent behind the copy, as it is then, and all of it before the end."""

import random

import pytest
from msgspec.structs import replace

from braid.messages import AddMatcherState, Calls
from services.matcher.transfer import Pace
from tests.core.scaling_cases import NEW, NEW_EPOCH, record
from tests.core.transfer_cases import MANY, OTHERS, OWN, PACE, Sender

FIRST, SECOND, THIRD = OTHERS[:3]
NEWCOMERS = [id for id in (f"new-{number}" for number in range(60)) if NEW.matcher_of(id) == "matcher-2"]


def copied(*, pace: Pace = PACE) -> Sender:
    """Everything is sent and stored, but not what is forgotten here: what is seen is what comes behind."""
    sender = Sender(pace=pace)
    sender.hand_over()
    assert sender.transfer.is_copied
    sender.sent, sender.stored, sender.got = [], 0, []
    return sender


def behind(sender: Sender) -> list[AddMatcherState]:
    sender.transfer.finish()
    sender.hand_over()
    assert sender.transfer.is_done
    return sender.sent


def last(number: int, *records: str, removed: tuple[str, ...] = (), filter: str = "n = 1") -> AddMatcherState:
    return AddMatcherState(NEW_EPOCH, number, [record(id, filter) for id in records], list(removed), {}, "state")


AFTER = len(OTHERS) // 10 + 2  # the number of the chunk behind the copy


# What is sent


def test_changes_are_sent_behind_the_copy_as_they_are_then() -> None:
    sender = copied()
    sender.put(FIRST, "n = 0")
    sender.put(NEWCOMERS[0], "n = 1")
    sender.put(FIRST, "n = 1")
    sender.end(SECOND)
    assert sender.transfer.wants_to_go_on
    assert behind(sender) == [last(AFTER, NEWCOMERS[0], FIRST, removed=(SECOND,))]
    assert set(sender.left) == set(OTHERS) - {SECOND} | {NEWCOMERS[0]}


def test_one_that_came_and_ended_is_named_as_removed() -> None:
    sender = copied()
    sender.put(NEWCOMERS[0])
    sender.end(NEWCOMERS[0])
    assert behind(sender) == [last(AFTER, removed=(NEWCOMERS[0],))]
    assert NEWCOMERS[0] not in sender.left


@pytest.mark.parametrize("looks_between", [True, False])
def test_added_again_after_it_was_removed_it_counts_once_with_its_last_state(looks_between: bool) -> None:
    sender = copied()
    sender.end(FIRST)
    if looks_between:
        assert sender.go_on() == []  # it waits in the chunk that is open
    sender.put(FIRST, "n = 1")
    assert behind(sender) == [last(AFTER, FIRST)]


@pytest.mark.parametrize("looks_between", [True, False])
def test_removed_after_it_was_changed_it_is_only_removed(looks_between: bool) -> None:
    sender = copied()
    sender.put(FIRST, "n = 1")
    if looks_between:
        assert sender.go_on() == []
    sender.end(FIRST)
    assert behind(sender) == [last(AFTER, removed=(FIRST,))]


def test_in_another_chunk_it_is_sent_again() -> None:
    sender = copied(pace=replace(PACE, chunk_records_max=1))
    number = len(OTHERS) + 2  # behind one chunk for each, and one that only ends the copy
    sender.put(FIRST, "n = 1")
    sender.hand_over()
    sender.end(FIRST)
    sender.hand_over()
    first = replace(last(number, FIRST), ends="")
    assert behind(sender) == [first, replace(last(number + 1, removed=(FIRST,)), ends=""), last(number + 2)]


def test_changes_of_what_stays_are_not_sent() -> None:
    sender = copied()
    sender.put(OWN[0], "n = 1")
    sender.end(OWN[1])
    assert not sender.transfer.wants_to_go_on
    assert behind(sender) == [last(AFTER)]
    assert sender.got == []


def test_a_full_chunk_of_changes_does_not_wait_for_the_end() -> None:
    sender = copied()
    for id in OTHERS[:9]:
        sender.put(id)
    assert sender.go_on() == []
    sender.put(OTHERS[9])
    assert sender.go_on() == [AFTER]
    assert sender.sent[0].ends == ""


def test_a_look_at_changes_is_bounded() -> None:
    sender = copied(pace=replace(PACE, chunk_records_max=1000))
    for id in OTHERS[:70]:
        sender.put(id)
    sender.go_on()
    assert sender.got == OTHERS[:50]
    assert sender.transfer.wants_to_go_on
    sender.go_on()
    assert sender.got == OTHERS[:70]
    assert not sender.transfer.wants_to_go_on


def test_a_look_while_it_finishes_is_bounded_too() -> None:
    sender = copied(pace=replace(PACE, chunk_records_max=1000))
    for id in OTHERS[:70]:
        sender.put(id)
    sender.transfer.finish()
    assert sender.go_on() == []
    assert len(sender.got) == 50
    assert sender.go_on() == [2]
    assert [known.id for known in sender.sent[0].records] == OTHERS[:70]
    assert sender.sent[0].ends == "state"


def test_behind_the_last_chunk_nothing_is_sent() -> None:
    sender = copied()
    behind(sender)
    sender.put(FIRST, "n = 1")
    assert not sender.transfer.wants_to_go_on
    assert sender.go_on() == []
    assert sender.transfer.is_done


def test_each_that_left_is_counted_once() -> None:
    sender = copied()
    sender.put(FIRST, "n = 1")
    sender.put(NEWCOMERS[0])
    behind(sender)
    assert sender.transfer.moved == len(OTHERS) + 1


# When it is copied


def test_it_is_copied_when_everything_up_to_the_end_of_the_copy_is_stored() -> None:
    sender = Sender()
    while not any(message.ends for message in sender.sent):
        sender.store()
        sender.go_on()
    *earlier, end = sender.sent[sender.stored :]
    assert end.ends == "copy"
    assert not sender.transfer.is_copied
    sender.transfer.on_stored("matcher-2", end.chunk)
    assert sender.transfer.is_copied is (not earlier)
    for message in earlier:
        assert not sender.transfer.is_copied
        sender.transfer.on_stored("matcher-2", message.chunk)
    assert sender.transfer.is_copied


def test_an_earlier_chunk_that_is_not_stored_holds_the_copy_up() -> None:
    sender = Sender(OTHERS[:25], pace=replace(PACE, looks=1000))
    for _ in range(2):
        sender.go_on()
    assert [(message.chunk, message.ends) for message in sender.sent] == [(1, ""), (2, ""), (3, "copy")]
    for number in (3, 1):
        sender.transfer.on_stored("matcher-2", number)
        assert not sender.transfer.is_copied
    sender.transfer.on_stored("matcher-2", 2)
    assert sender.transfer.is_copied


def test_changes_behind_the_copy_do_not_make_it_undone() -> None:
    sender = copied(pace=replace(PACE, chunk_records_max=1))
    for id in OTHERS[:8]:
        sender.put(id)
    for _ in range(3):
        sender.go_on()
    assert sender.transfer.on_receiver_up("matcher-2") != []
    assert sender.transfer.is_copied
    assert not sender.transfer.is_done


def test_a_chunk_that_waits_for_room_holds_the_copy_up() -> None:
    sender = Sender(OTHERS[:40], pace=replace(PACE, looks=1000))
    assert sender.go_on() == [1, 2, 3, 4]
    assert sender.go_on() == []  # the one that ends the copy waits
    for number in (2, 3, 4):
        sender.transfer.on_stored("matcher-2", number)
    sender.transfer.on_stored("matcher-2", 1)
    assert not sender.transfer.is_copied
    assert sender.go_on() == [5]
    assert sender.sent[-1] == AddMatcherState(NEW_EPOCH, 5, [], [], {}, "copy")
    assert not sender.transfer.is_copied
    sender.transfer.on_stored("matcher-2", 5)
    assert sender.transfer.is_copied


def test_the_copy_does_not_end_while_many_changes_are_left() -> None:
    """They would be sent while new subscriptions wait."""
    sender = Sender([], pace=Pace(looks=10, chunk_records_max=1000, changes_left_max=5))
    for id in OTHERS[:26]:
        sender.put(id, "n = 1")
    for looked in (0, 0, 10):  # at ids, at calls, at changes
        assert sender.go_on() == []
        assert len(sender.got) == looked
    sender.put(OTHERS[0], "n = 2")  # once more
    assert sender.go_on() == []  # 7 are left
    assert sender.go_on() == [1]
    assert sender.sent[0].ends == "copy"
    assert [known.id for known in sender.sent[0].records] == OTHERS[:26]
    assert sender.sent[0].records[0].filter == "n = 2"


@pytest.mark.parametrize(("changes", "ends_at_once"), [(5, True), (6, False)])
def test_the_copy_ends_when_so_many_changes_are_left(changes: int, ends_at_once: bool) -> None:
    sender = Sender([], pace=Pace(looks=10, chunk_records_max=1000, changes_left_max=5))
    for id in OTHERS[:changes]:
        sender.put(id)
    sender.go_on()
    assert sender.go_on() == ([1] if ends_at_once else [])
    assert sender.go_on() == ([] if ends_at_once else [1])
    assert (sender.sent[0].ends, len(sender.sent[0].records)) == ("copy", 0 if ends_at_once else 6)


def test_it_finishes_only_when_every_change_is_sent() -> None:
    sender = Sender([], pace=Pace(looks=10, chunk_records_max=1000, changes_left_max=5))
    for id in OTHERS[:25]:
        sender.put(id)
    sender.transfer.finish()
    sender.hand_over()
    assert [(message.ends, len(message.records)) for message in sender.sent] == [("copy", 20), ("state", 5)]


# Calls


def test_calls_go_with_their_subscriptions() -> None:
    calls = {FIRST: Calls("connpoint-1", {"connpoint-1": 7}), OWN[0]: Calls("connpoint-1", {"connpoint-1": 8})}
    sender = Sender(calls=calls)
    sender.hand_over()
    assert [message.calls for message in sender.sent if message.calls] == [{FIRST: calls[FIRST]}]
    assert FIRST in [known.id for message in sender.sent if message.calls for known in message.records]


def test_calls_of_ended_ones_are_handed_over_with_the_copy() -> None:
    known = [f"ended-{number}" for number in range(120)]
    ended = [id for id in known if NEW.matcher_of(id) == "matcher-2"]
    calls = {id: Calls("connpoint-1", {"connpoint-1": 7, "connpoint-2": 9}) for id in [FIRST, *known]}
    sender = Sender([FIRST], calls=calls, pace=replace(PACE, chunk_records_max=1000))
    sender.go_on()
    for looks in (50, 50):  # at calls
        before = len(set(sender.got))
        assert sender.go_on() == []
        assert len(set(sender.got)) - before <= looks
    assert sender.go_on() == [1]
    assert sender.sent == [
        AddMatcherState(NEW_EPOCH, 1, [record(FIRST)], ended, {id: calls[id] for id in [FIRST, *ended]}, "copy")
    ]
    assert set(sender.left) == {FIRST}


def test_calls_that_come_later_go_with_the_change() -> None:
    sender = copied()
    sender.calls[FIRST] = Calls("connpoint-2", {"connpoint-2": 3})
    sender.end(FIRST)
    sender.put(SECOND, "n = 1")
    (message,) = behind(sender)
    assert (message.removed, message.calls) == ([FIRST], {FIRST: Calls("connpoint-2", {"connpoint-2": 3})})


def test_the_calls_in_a_chunk_are_those_of_the_last_look() -> None:
    sender = copied()
    for ref in (3, 4):
        sender.calls[FIRST] = Calls("connpoint-2", {"connpoint-2": ref})
        sender.put(FIRST, "n = 1")
        sender.go_on()
    (message,) = behind(sender)
    assert message.calls == {FIRST: Calls("connpoint-2", {"connpoint-2": 4})}


# Everything together


@pytest.mark.parametrize("seed", range(40))
def test_in_the_end_the_receiver_has_what_the_sender_has(seed: int) -> None:
    chosen = random.Random(seed)
    pace = Pace(chosen.randint(1, 60), chosen.randint(1, 12), chosen.randint(0, 8))
    sender = Sender(chosen.sample(MANY, 120), pace=pace)
    everybody = [*MANY, *NEWCOMERS]
    is_finishing = False
    while not sender.transfer.is_done:
        act = chosen.random()
        if act < 0.4 and not is_finishing:
            id = chosen.choice(everybody)
            if act < 0.2:
                sender.put(id, f"n = {act}")
            else:
                sender.end(id)
        elif act < 0.7:
            sender.go_on()
        elif sender.stored < len(sender.sent):
            sender.transfer.on_stored("matcher-2", sender.sent[sender.stored].chunk)
            sender.stored += 1
        if sender.transfer.is_copied and chosen.random() < 0.05:
            is_finishing = True
            sender.transfer.finish()
    expected = {id: known for id, known in sender.records.items() if NEW.matcher_of(id) == "matcher-2"}
    assert sender.at_receiver() == expected
    assert set(sender.left) == set(expected)
    assert [message.ends for message in sender.sent if message.ends] == ["copy", "state"]
    assert max(len(message.records) + len(message.removed) for message in sender.sent) <= pace.chunk_records_max
