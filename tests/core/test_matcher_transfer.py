"""What a matcher hands over: bounded looks, bounded chunks, a bounded number of them under way."""

import pytest

from braid.messages import AddMatcherState, Send
from braid.selector import BroadcastSelector
from braid.subscription import SubscriptionRecord
from braid.topology import Configuration
from services.matcher import transfer as transfer_module
from services.matcher.transfer import Transfer
from tests.core.scaling_cases import NEW, NEW_EPOCH, record

MANY = [f"s-{number}" for number in range(200)]
OTHERS = [id for id in MANY if NEW.matcher_of(id) == "matcher-2"]


class Sender:
    """A transfer of matcher-1, with what it was told and what it sent."""

    def __init__(self, ids: list[str] = MANY, selector: BroadcastSelector = NEW) -> None:
        self.records = {id: record(id) for id in ids}
        self.left: list[str] = []
        self.sent: list[AddMatcherState] = []
        self.transfer = Transfer("matcher-1", ids, selector, self.get, self.left.append)

    def get(self, id: str) -> SubscriptionRecord | None:
        return self.records.get(id)

    def go_on(self) -> list[int]:
        """The numbers of the chunks that are sent now."""
        sends = self.transfer.go_on()
        assert all(send.to == "matcher-2" for send in sends)
        chunks = [message for send in sends for message in send.messages]
        self.sent += chunks
        return [message.chunk for message in chunks]

    def ids(self) -> list[str]:
        return [known.id for message in self.sent for known in message.records]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_module, "CHUNK_RECORDS_MAX", 10)
    monkeypatch.setattr(transfer_module, "LOOKS_AT_ONCE", 50)


def test_chunks_are_bounded_and_the_last_one_says_so() -> None:
    sender = Sender()
    while not sender.transfer.is_done:
        for number in sender.go_on():
            sender.transfer.on_stored("matcher-2", number)
    sizes = [len(message.records) for message in sender.sent]
    assert sizes[:-1] == [10] * (len(OTHERS) // 10)
    assert sizes[-1] == len(OTHERS) % 10
    assert [message.last for message in sender.sent] == [False] * (len(sizes) - 1) + [True]
    assert [message.chunk for message in sender.sent] == list(range(1, len(sizes) + 1))
    assert {message.epoch for message in sender.sent} == {NEW_EPOCH}
    assert sender.ids() == sender.left == OTHERS
    assert sender.transfer.moved == len(OTHERS)


def test_a_chunk_is_bounded_by_its_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_module, "CHUNK_BYTES_MAX", 1000)
    sender = Sender()
    sender.go_on()
    assert len(sender.sent[0].records) == 5  # 200 bytes each, by estimate


def test_at_most_four_are_under_way_and_each_that_is_stored_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_module, "LOOKS_AT_ONCE", 1000)
    sender = Sender()
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
    assert sender.left == [id for id in OTHERS if id in MANY[:50]]
    assert not sender.transfer.is_done


def test_what_ended_since_the_snapshot_is_not_sent() -> None:
    sender = Sender()
    del sender.records[OTHERS[0]]
    sender.go_on()
    assert OTHERS[0] not in sender.ids()
    assert OTHERS[0] not in sender.left


def test_who_has_nothing_for_a_receiver_tells_it_so() -> None:
    sender = Sender([])
    assert sender.go_on() == [1]
    assert sender.sent == [AddMatcherState(NEW_EPOCH, 1, [], last=True)]
    assert not sender.transfer.is_done
    sender.transfer.on_stored("matcher-2", 1)
    assert sender.transfer.is_done


def test_where_nobody_else_is_left_it_is_done_at_once() -> None:
    """Two become one: the one that stays sends nothing."""
    alone = BroadcastSelector(Configuration(7, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",)))
    sender = Sender(selector=alone)
    while sender.transfer.wants_to_go_on:
        assert sender.go_on() == []
    assert sender.transfer.is_done
    assert sender.left == []
