"""What a matcher hands over: bounded looks, bounded chunks, a bounded number of them under way."""

import pytest
from msgspec.structs import replace

from braid.messages import AddMatcherState, Send
from braid.selector import BroadcastSelector
from braid.topology import Configuration
from services.matcher import transfer as transfer_module
from tests.core.scaling_cases import NEW, NEW_EPOCH
from tests.core.transfer_cases import MANY, OTHERS, PACE, Sender


def test_chunks_are_bounded_and_the_last_ones_say_so() -> None:
    sender = Sender()
    sender.transfer.finish()
    sender.hand_over()
    assert sender.transfer.is_done
    sizes = [len(message.records) for message in sender.sent]
    full = len(OTHERS) // 10
    assert sizes == [10] * full + [len(OTHERS) % 10, 0]
    assert [message.ends for message in sender.sent] == [""] * full + ["copy", "state"]
    assert [message.chunk for message in sender.sent] == list(range(1, len(sizes) + 1))
    assert {message.epoch for message in sender.sent} == {NEW_EPOCH}
    assert [message.removed for message in sender.sent] == [[]] * len(sizes)
    assert [message.calls for message in sender.sent] == [{}] * len(sizes)
    assert sender.ids() == OTHERS
    assert set(sender.left) == set(OTHERS)
    assert sender.transfer.moved == len(OTHERS)


def test_a_chunk_is_bounded_by_its_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_module, "CHUNK_BYTES_MAX", 1000)
    sender = Sender()
    sender.go_on()
    assert len(sender.sent[0].records) == 5  # 200 bytes each, by estimate


def test_what_was_removed_takes_room_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_module, "CHUNK_BYTES_MAX", 1000)
    sender = Sender()
    for id in OTHERS[:2]:
        del sender.records[id]
    sender.go_on()
    first = sender.sent[0]
    assert (len(first.records), first.removed) == (3, OTHERS[:2])


def test_at_most_four_are_under_way_and_each_that_is_stored_makes_room() -> None:
    sender = Sender(pace=replace(PACE, looks=1000))
    assert sender.go_on() == [1, 2, 3, 4]
    assert sender.go_on() == []
    sender.transfer.on_stored("matcher-2", 3)
    assert sender.go_on() == [5]
    sender.transfer.on_stored("matcher-2", 3)  # acknowledged twice, it makes room once
    assert sender.go_on() == []
    sender.transfer.on_stored("matcher-9", 1)
    assert sender.go_on() == []


def test_nothing_is_looked_at_while_the_receiver_is_behind() -> None:
    sender = Sender()
    while sender.transfer.wants_to_go_on:
        sender.go_on()
    looked = len(sender.left)
    assert looked < len(OTHERS)
    sender.go_on()
    assert len(sender.left) == looked
    sender.transfer.on_stored("matcher-2", 1)
    sender.go_on()
    assert sender.transfer.wants_to_go_on or len(sender.left) > looked


def test_changes_wait_too_while_the_receiver_is_behind() -> None:
    sender = Sender(pace=replace(PACE, looks=1000))
    sender.go_on()
    sender.end(OTHERS[0])
    assert not sender.transfer.wants_to_go_on
    looked = len(sender.got)
    assert sender.go_on() == []
    assert len(sender.got) == looked
    sender.transfer.finish()
    sender.hand_over()
    assert [message.removed for message in sender.sent[:-1]] == [[]] * (len(sender.sent) - 1)
    assert sender.sent[-1] == AddMatcherState(NEW_EPOCH, len(sender.sent), [], [OTHERS[0]], {}, "state")


def test_a_link_that_is_there_again_gets_what_is_not_known_to_be_stored() -> None:
    sender = Sender()
    assert sender.transfer.on_receiver_up("matcher-2") == []
    while sender.transfer.wants_to_go_on:
        sender.go_on()
    sender.transfer.on_stored("matcher-2", 2)
    again = [message for message in sender.sent if message.chunk != 2]
    assert sender.transfer.on_receiver_up("matcher-2") == [Send("matcher-2", again)]
    assert sender.transfer.on_receiver_up("exitpoint-1") == []


def test_a_look_is_bounded() -> None:
    sender = Sender()
    sender.go_on()
    assert sender.got == [id for id in OTHERS if id in MANY[:50]]
    assert set(sender.left) == set(sender.got)
    assert not sender.transfer.is_copied


def test_what_ended_before_it_was_looked_at_is_named_as_removed() -> None:
    """Harmless where it never was, and right where a chunk of it is under way."""
    sender = Sender()
    del sender.records[OTHERS[0]]
    sender.go_on()
    assert OTHERS[0] not in sender.ids()
    assert OTHERS[0] not in sender.left
    assert sender.sent[0].removed == [OTHERS[0]]


def test_who_has_nothing_for_a_receiver_tells_it_so() -> None:
    sender = Sender([])
    assert sender.go_on() == []  # there are no ids
    assert sender.go_on() == [1]  # and no calls
    assert sender.sent == [AddMatcherState(NEW_EPOCH, 1, [], [], {}, "copy")]
    assert not sender.transfer.wants_to_go_on
    sender.transfer.on_stored("matcher-2", 1)
    assert sender.transfer.is_copied
    assert not sender.transfer.is_done
    sender.transfer.finish()
    assert sender.go_on() == [2]
    assert sender.sent[1] == AddMatcherState(NEW_EPOCH, 2, [], [], {}, "state")
    assert not sender.transfer.is_done
    sender.transfer.on_stored("matcher-2", 2)
    assert sender.transfer.is_done


def test_where_nobody_else_is_left_it_is_done_at_once() -> None:
    """Two become one: the one that stays sends nothing."""
    alone = BroadcastSelector(Configuration(7, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",)))
    sender = Sender(selector=alone)
    while sender.transfer.wants_to_go_on:
        assert sender.go_on() == []
    assert sender.transfer.is_copied
    assert not sender.transfer.is_done
    sender.transfer.finish()
    assert sender.go_on() == []
    assert sender.transfer.is_done
    assert set(sender.left) == set()


def test_each_receiver_gets_its_own_and_all_are_waited_for() -> None:
    three = Configuration(NEW_EPOCH, ("accesspoint-1",), ("matcher-1", "matcher-2", "matcher-3"), ("exitpoint-1",))
    sender = Sender(selector=BroadcastSelector(three))
    sender.transfer.finish()
    under_way = {"matcher-2": list[int](), "matcher-3": list[int]()}
    sent: dict[str, list[str]] = {name: [] for name in under_way}
    for _ in range(50):
        for send in sender.transfer.go_on():
            under_way[send.to] += [message.chunk for message in send.messages]
            sent[send.to] += [known.id for message in send.messages for known in message.records]
        while under_way["matcher-3"]:
            sender.transfer.on_stored("matcher-3", under_way["matcher-3"].pop(0))
        if under_way["matcher-2"]:
            sender.transfer.on_stored("matcher-2", under_way["matcher-2"].pop(0))
    selector = BroadcastSelector(three)
    assert sent == {name: [id for id in MANY if selector.matcher_of(id) == name] for name in sent}
    assert sender.transfer.is_copied
    assert sender.transfer.is_done


def test_the_copy_is_there_when_the_slowest_receiver_has_it() -> None:
    three = Configuration(NEW_EPOCH, ("accesspoint-1",), ("matcher-1", "matcher-2", "matcher-3"), ("exitpoint-1",))
    sender = Sender([], selector=BroadcastSelector(three))
    for _ in range(2):
        sender.transfer.go_on()
    sender.transfer.on_stored("matcher-2", 1)
    assert not sender.transfer.is_copied
    sender.transfer.on_stored("matcher-3", 1)
    assert sender.transfer.is_copied


def test_a_chunk_is_what_the_new_selector_gives_to_its_receiver() -> None:
    sender = Sender()
    sender.hand_over()
    assert {NEW.matcher_of(id) for id in sender.ids()} == {"matcher-2"}
