"""A matcher that stays hands over what others keep by now, waits, and removes it; all of it at its leisure."""

from itertools import count

import pytest

from braid.messages import HandOverPublications, KeptBatch, Send
from braid.selector import BroadcastSelector
from braid.topology import Configuration
from services.matcher import departing, relocating
from services.matcher.effects import Continue, ReadKept, RemoveKept
from services.matcher.relocating import REMOVE_AFTER_S, Relocation, State
from services.matcher.storage.records import Cursor
from tests.core.kept_cases import batch, on_topic, topics_kept_by

EPOCH, READER = 6, 3
NAMES = ("matcher-1", "matcher-2", "matcher-3")
SELECTOR = BroadcastSelector(Configuration(EPOCH, ("accesspoint-1",), NAMES, ("exitpoint-1",)))
OWN, FOR_2, FOR_3 = (on_topic(topics_kept_by(SELECTOR, name, 1)[0]) for name in NAMES)
SOMEWHERE = Cursor("dual/10-5", b"key")

sequences = count(1)


@pytest.fixture(autouse=True)
def one_read_per_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relocating, "READS_PER_TICK", 1)


def relocation(*, parts: int = 0) -> Relocation:
    one = Relocation("matcher-1", SELECTOR, reader=READER, parts=parts)
    assert one.begin() == []
    assert one.on_tick(1.0) == [ReadKept(None, READER)]
    assert one.on_tick(1.1) == []  # it is being read
    return one


def some(*contents: bytes) -> list[KeptBatch]:
    return [batch(next(sequences), content) for content in contents]


def test_what_others_keep_is_handed_over_and_the_rest_stays() -> None:
    one = relocation()
    own, second, third, mixed = *some(OWN, FOR_2, FOR_3), batch(next(sequences), OWN, FOR_2)
    assert one.receivers == ["matcher-2", "matcher-3"]
    part_of_mixed = batch(mixed.sequence, FOR_2, places=[1])
    assert one.on_read([own, second, third, mixed], None) == [
        Send("matcher-2", [HandOverPublications(EPOCH, 1, [second, part_of_mixed])]),
        Send("matcher-3", [HandOverPublications(EPOCH, 1, [third])]),
    ]
    assert (one.handed_over, one.left, one.removed) == (0, 3, 0)
    assert one.on_handed_over("matcher-2", 1) == []
    assert (one.handed_over, one.left, one.state) == (2, 1, State.COPYING)
    assert one.on_handed_over("matcher-3", 1) == []
    assert (one.handed_over, one.left, one.state) == (3, 0, State.WAITING)
    assert one.receivers == []


def test_one_piece_is_read_in_each_tick() -> None:
    one = relocation()
    reading = [ReadKept(SOMEWHERE, READER)]
    assert one.on_read(some(OWN), SOMEWHERE) == reading  # of the last tick
    assert one.on_read(some(OWN), SOMEWHERE) == []
    assert one.on_tick(2.0) == reading
    assert one.on_tick(2.1) == []


def test_a_few_pieces_are_read_in_a_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relocating, "READS_PER_TICK", 3)
    one = relocation()
    one.on_tick(2.0)
    reading = [ReadKept(SOMEWHERE, READER)]
    assert [one.on_read(some(OWN), SOMEWHERE) for _ in range(4)] == [reading, reading, reading, []]
    assert one.on_tick(3.0) == reading


def test_no_more_is_read_while_enough_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PART_PUBLICATIONS_MAX", "PARTS_UNDER_WAY_MAX", "_WAITING_MAX"):
        monkeypatch.setattr(departing, name, 1)
    one = relocation()
    one.on_read(some(*[FOR_2] * 4), SOMEWHERE)
    assert one.on_tick(2.0) == []
    one.on_handed_over("matcher-2", 1)
    assert ReadKept(SOMEWHERE, READER) in one.on_handed_over("matcher-2", 2)
    assert one.on_tick(2.1) == []


def waiting() -> Relocation:
    one = relocation()
    one.on_read([], None)
    assert one.state is State.WAITING
    return one


def test_nothing_is_removed_while_somebody_may_have_asked_before_it_was_there() -> None:
    one = waiting()
    assert one.on_tick(5.0) == one.on_tick(5.0 + REMOVE_AFTER_S - 0.1) == []
    assert one.on_tick(5.0 + REMOVE_AFTER_S) == [ReadKept(None, READER)]
    assert one.state is State.REMOVING


def test_then_what_others_keep_is_removed() -> None:
    one = waiting()
    one.on_tick(0.0)
    one.on_tick(REMOVE_AFTER_S)
    own, second, third, mixed = *some(OWN, FOR_2, FOR_3), batch(next(sequences), OWN, FOR_2)
    assert one.on_read([own, second, mixed], SOMEWHERE) == [RemoveKept([second])]
    assert one.on_tick(100.0) == [ReadKept(SOMEWHERE, READER)]
    assert one.on_read([third], None) == [RemoveKept([third]), Continue()]
    assert (one.state, one.removed) == (State.DONE, 2)
    assert one.on_tick(200.0) == []


def test_what_is_under_way_is_sent_again() -> None:
    one = relocation()
    (sent,) = one.on_read(some(FOR_3), None)
    assert one.on_receiver_up("matcher-3") == [sent]
    assert one.on_receiver_up("matcher-2") == []
    assert [effect for _ in range(2 * departing.AGAIN_S) for effect in one.on_second()] == [sent]


def test_parts_are_numbered_behind_those_that_were_sent_before() -> None:
    one = relocation(parts=7)
    (sent,) = one.on_read(some(FOR_2), None)
    assert sent.messages[0].number == one.last_part == 8
    one.on_handed_over("matcher-2", 1)  # of one before it
    assert one.state is State.COPYING
