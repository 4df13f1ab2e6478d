"""A matcher that leaves hands its kept publications over: read bit by bit, in parts, a few of them under way."""

from itertools import count

import msgspec
import pytest

from braid.messages import HandOverPublications, KeptBatch, Send
from braid.selector import BroadcastSelector
from braid.topology import Configuration
from services.matcher import departing
from services.matcher.departing import Departure
from services.matcher.effects import Effects, ReadKept
from services.matcher.storage.records import Cursor
from tests.core.kept_cases import batch, on_topic, topics_kept_by
from tests.core.scaling_cases import record

EPOCH, NOW = 6, 1000.0
TWO = BroadcastSelector(Configuration(EPOCH, ("accesspoint-1",), ("matcher-2", "matcher-3"), ("exitpoint-1",)))
ONE = BroadcastSelector(Configuration(EPOCH, ("accesspoint-1",), ("matcher-2",), ("exitpoint-1",)))
FOR_2, FOR_3 = (on_topic(topics_kept_by(TWO, name, 1)[0]) for name in ("matcher-2", "matcher-3"))
SOMEWHERE, FURTHER = Cursor("dual/10-5", b"key"), Cursor("dual/40-5", b"key")

sequences = count(1)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departing, "PART_PUBLICATIONS_MAX", 3)
    monkeypatch.setattr(departing, "PARTS_UNDER_WAY_MAX", 2)
    monkeypatch.setattr(departing, "_WAITING_MAX", 2)
    monkeypatch.setattr(departing, "_NEARLY_ALL", 4)


def departure(selector: BroadcastSelector = ONE) -> Departure:
    one = Departure(selector, [])
    assert one.begin() == [ReadKept(None)]
    return one


def batches(several: int, *contents: bytes) -> list[KeptBatch]:
    return [batch(next(sequences), *(contents or (b"{}",))) for _ in range(several)]


def parts(effects: Effects) -> list[tuple[str, int, int]]:
    """Receiver, number and size of every part."""
    sends = [effect for effect in effects if isinstance(effect, Send)]
    return [(send.to, part.number, len(part.batches)) for send in sends for part in send.messages]


def test_it_reads_from_one_place_to_the_next_until_the_end() -> None:
    one = departure()
    assert one.on_read([], SOMEWHERE) == [ReadKept(SOMEWHERE)]
    assert one.on_read([], FURTHER) == [ReadKept(FURTHER)]
    assert not one.is_copied
    assert one.on_read([], None) == []
    assert one.is_copied
    assert one.is_done


def test_subscriptions_that_are_remembered_go_first_and_to_one() -> None:
    ended = [record(f"s-{number}", distinct=True, until_s=1.0) for number in range(4)]
    one = Departure(TWO, ended)
    expected = [HandOverPublications(EPOCH, 1, [], ended[:3]), HandOverPublications(EPOCH, 2, [], ended[3:])]
    assert one.begin() == [Send("matcher-2", expected), ReadKept(None)]
    assert one.on_read([], None) == []
    assert not one.is_done
    one.on_handed_over("matcher-2", 1)
    one.on_handed_over("matcher-2", 2)
    assert one.is_done
    assert one.handed_over == 0


def test_what_was_read_goes_to_whoever_keeps_it_from_now_on() -> None:
    one = departure(TWO)
    mixed = batch(7, FOR_3, FOR_2, FOR_3, places=[1, 4, 6], previous=5)
    whole = batch(8, FOR_2, published_s=2.5)
    assert one.on_read([mixed, whole], None) == [
        Send("matcher-2", [HandOverPublications(EPOCH, 1, [batch(7, FOR_2, places=[4], previous=5), whole])]),
        Send("matcher-3", [HandOverPublications(EPOCH, 1, [batch(7, FOR_3, FOR_3, places=[1, 6], previous=5)])]),
    ]


def test_parts_are_closed_when_they_have_enough() -> None:
    one = departure()
    assert parts(one.on_read(batches(5), None)) == [("matcher-2", 1, 3), ("matcher-2", 2, 2)]


def test_a_batch_is_not_split() -> None:
    one = departure()
    read = [*batches(1), *batches(1, *[b"{}"] * 9), *batches(1)]
    expected = [HandOverPublications(EPOCH, 1, read[:2]), HandOverPublications(EPOCH, 2, read[2:])]
    assert one.on_read(read, None) == [Send("matcher-2", expected)]


def test_parts_are_closed_when_they_are_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departing, "PART_BYTES_MAX", 10)
    one = departure()
    read = [*batches(1, b"12345"), *batches(2, b"1234567")]
    assert parts(one.on_read(read, None)) == [("matcher-2", 1, 2), ("matcher-2", 2, 1)]


def test_a_few_parts_are_under_way_and_the_others_wait() -> None:
    one = departure()
    assert parts(one.on_read(batches(12), None)) == [("matcher-2", 1, 3), ("matcher-2", 2, 3)]
    assert parts(one.on_handed_over("matcher-2", 2)) == [("matcher-2", 3, 3)]
    assert parts(one.on_handed_over("matcher-2", 1)) == [("matcher-2", 4, 3)]
    assert one.on_handed_over("matcher-2", 4) == []
    assert not one.is_done
    assert one.on_handed_over("matcher-2", 3) == []
    assert one.is_done
    assert one.handed_over == 12


def test_one_that_is_slow_does_not_hold_up_the_other() -> None:
    one = departure(TWO)
    sent = one.on_read([*batches(9, FOR_2), *batches(9, FOR_3)], None)
    assert parts(sent) == [(name, number, 3) for name in ("matcher-2", "matcher-3") for number in (1, 2)]
    assert parts(one.on_handed_over("matcher-3", 1)) == [("matcher-3", 3, 3)]


def test_no_more_is_read_while_enough_waits() -> None:
    one = departure(TWO)
    one.on_read([*batches(9, FOR_2), *batches(1, FOR_3)], SOMEWHERE)
    assert one.on_handed_over("matcher-3", 1) == []
    assert [type(effect) for effect in one.on_handed_over("matcher-2", 1)] == [Send, ReadKept]
    assert one.on_handed_over("matcher-2", 2) == []  # it is being read already
    assert parts(one.on_read(batches(1, FOR_2), None)) == [("matcher-2", 4, 1)]


def test_more_is_read_when_little_waits() -> None:
    one = departure()
    assert one.on_read(batches(8), SOMEWHERE)[-1] == ReadKept(SOMEWHERE)
    assert parts(one.on_read(batches(1), None)) == []  # the parts under way are as many as may be
    assert parts(one.on_handed_over("matcher-2", 1)) == [("matcher-2", 3, 3)]


def test_what_is_kept_meanwhile_goes_behind_what_was_read() -> None:
    one = departure()
    assert parts(one.add(batches(1), NOW)) == [("matcher-2", 1, 1)]
    assert parts(one.on_read(batches(1), None)) == [("matcher-2", 2, 1)]
    assert one.add(batches(1), NOW) == []
    assert parts(one.on_handed_over("matcher-2", 1)) == [("matcher-2", 3, 1)]
    one.on_handed_over("matcher-2", 2)
    one.on_handed_over("matcher-2", 3)
    assert one.is_done
    assert parts(one.add(batches(1), NOW)) == [("matcher-2", 4, 1)]
    assert not one.is_done


def test_what_is_under_way_is_sent_again_when_the_link_is_there_again() -> None:
    one = departure(TWO)
    (first, _) = one.on_read([*batches(9, FOR_2), *batches(1, FOR_3)], None)
    assert one.on_receiver_up("matcher-2") == [first]
    (third,) = one.on_handed_over("matcher-2", 1)
    assert one.on_receiver_up("matcher-2") == [Send("matcher-2", [first.messages[1], *third.messages])]
    one.on_handed_over("matcher-3", 1)
    assert one.on_receiver_up("matcher-3") == one.on_receiver_up("exitpoint-1") == []


def test_what_is_not_acknowledged_for_long_is_sent_again() -> None:
    """Its receiver may have had no room for it."""
    one = departure(TWO)
    (first, _) = one.on_read([*batches(6, FOR_2), *batches(1, FOR_3)], None)
    seconds = [one.on_second() for _ in range(2 * departing.AGAIN_S - 1)]
    assert not any(seconds)
    one.on_handed_over("matcher-3", 1)
    one.on_handed_over("matcher-2", 2)
    assert one.on_second() == [Send("matcher-2", first.messages[:1])]
    one.on_handed_over("matcher-2", 1)
    assert not any(one.on_second() for _ in range(3 * departing.AGAIN_S))


def test_subscriptions_that_end_meanwhile_go_with_the_next_part() -> None:
    one = departure(TWO)
    ended = [record("s-1", distinct=True, until_s=1.0)]
    assert one.add_ended(ended) == [Send("matcher-2", [HandOverPublications(EPOCH, 1, [], ended)])]
    one.on_read([], None)
    assert not one.is_done
    one.on_handed_over("matcher-2", 1)
    assert one.is_done


def test_a_part_that_is_acknowledged_twice_counts_once() -> None:
    one = departure()
    one.on_read(batches(4, b"{}", b"{}"), None)
    for _ in range(2):
        one.on_handed_over("matcher-2", 1)
    assert one.on_handed_over("matcher-9", 2) == []
    assert one.on_handed_over("matcher-2", 9) == []
    assert one.handed_over == 4
    assert not one.is_done


def test_it_is_copied_when_all_is_read_and_little_waits() -> None:
    one = departure()
    one.on_read(batches(2 * 3 + 4), None)
    assert one.is_copied
    one.add(batches(1), NOW)
    assert not one.is_copied
    one.on_handed_over("matcher-2", 1)
    assert one.is_copied
    assert not one.is_done


def test_however_little_waits_it_is_not_copied_before_all_is_read() -> None:
    one = departure()
    assert not one.is_copied
    one.on_read(batches(1), SOMEWHERE)
    one.on_handed_over("matcher-2", 1)
    assert not one.is_copied
    assert not one.is_done


def test_what_comes_while_nobody_stores_it_is_read_from_disk_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded: beyond a number of batches they are only on disk."""
    monkeypatch.setattr(departing, "WAITING_MOST", 4)
    one = departure()
    assert one.on_read([], None) == []
    came = [msgspec.structs.replace(each, published_s=NOW + place) for place, each in enumerate(batches(40))]
    for each in came:
        one.add([each], NOW + 100)
    assert one.left < 12
    assert not one.is_copied
    given, read = [], False
    effects: Effects = one.on_receiver_up("matcher-2")
    while not one.is_done:
        following: Effects = []
        for effect in effects:
            if isinstance(effect, ReadKept):
                assert effect == ReadKept(None)
                read = True
                following += one.on_read(came, None)
            else:
                for part in effect.messages:
                    given += part.batches
                    following += one.on_handed_over("matcher-2", part.number)
        effects = following
    assert read
    assert {each.sequence for each in given} == {each.sequence for each in came}
    assert len(given) < 2 * len(came)  # those that had room are not handed over again


def test_a_clock_that_is_ahead_does_not_hide_what_is_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departing, "WAITING_MOST", 0)
    one = departure()
    one.on_read([], None)
    (late,) = batches(1)
    assert one.add([msgspec.structs.replace(late, published_s=NOW + 5000)], NOW) == []
    assert one.on_handed_over("matcher-2", 99) == [ReadKept(None)]
    stored = msgspec.structs.replace(late, published_s=NOW + 60)
    assert parts(one.on_read([stored], None)) == [("matcher-2", 1, 1)]
