"""Partitions of source topics: cut, noted, sent, confirmed; and taken over by somebody who sends just the same."""

import pytest

from braid.config import Ingress
from braid.messages import Confirmed, Publications, Send
from braid.topology import Configuration
from services.connpoint.sources.notes import BATCHES_MAX, Cut, Note, read_note, write_note
from services.connpoint.sources.partitions import Partition, Read, SourceCore

AIR = Partition("air", 0)
NOW_S = 1_700_000_000.0
LOG = int(NOW_S * 1000)
ORIGIN = f"source-air-0.{LOG:x}"
FIRST = Note(0)  # nothing was ever committed
SETTINGS = Ingress(window_publications_max=1000, window_bytes_max=1 << 20, retry_s=2.0)


def made(note: Note = FIRST, settings: Ingress = SETTINGS) -> SourceCore:
    core = SourceCore(settings)
    core.on_configuration(Configuration(1, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",)))
    assert core.on_assigned(AIR, note, NOW_S) == note.offset
    return core


def records(first: int, count: int, bad: tuple[int, ...] = ()) -> list[Read]:
    return [Read(n, None if n in bad else b"%d" % n) for n in range(first, first + count)]


def read(core: SourceCore, first: int, count: int, now_s: float = NOW_S, bad: tuple[int, ...] = ()) -> None:
    core.on_read(AIR, records(first, count, bad), first + count, now_s)


def note_all(core: SourceCore, now_s: float = NOW_S) -> Note:
    notes = core.to_note(now_s, 0.0)
    core.on_noted(notes, now_s)
    return notes.get(AIR) or core._ours[AIR].note()


def sent(sends: list[Send]) -> list[tuple[int, int, int, int]]:
    """Sequence, previous, watermark and number of contents."""
    return [(m.sequence, m.previous, m.watermark, len(m.contents)) for send in sends for m in send.messages]


def batches(sends: list[Send]) -> list[tuple[int, float, list[bytes]]]:
    return [(m.sequence, m.published_s, m.contents) for send in sends for m in send.messages]


def confirm(core: SourceCore, *sequences: int) -> None:
    core.on_confirmed(Confirmed(1, ORIGIN, list(sequences)))


# Notes


@pytest.mark.parametrize("note", [Note(7, 5), Note(7, 5, (Cut(200, 1), Cut(1, 1_700_000_000_000)))])
def test_a_note_is_read_as_it_was_written(note: Note) -> None:
    assert read_note(7, write_note(note)) == note


@pytest.mark.parametrize("text", [None, "", "x", "2 5 1@1", "1 x ", "1 5 1", "1 5 0@1", "1 5 1@1,,x"])
def test_what_is_no_note_of_ours_is_none(text: str | None) -> None:
    assert read_note(7, text) == Note(7)


def test_the_longest_note_fits() -> None:
    assert len(write_note(Note(2**60, LOG, [Cut(10**9, LOG)] * BATCHES_MAX))) < 4096


# The way of a batch


def test_nothing_is_sent_before_it_is_noted() -> None:
    core = made()
    read(core, 0, 3)
    assert core.to_send(NOW_S, 0) == []
    notes = core.to_note(NOW_S, 60.0)
    assert notes == {AIR: Note(0, LOG, (Cut(3, LOG),))}
    assert core.to_send(NOW_S, 0) == []
    core.on_noted(notes, NOW_S)
    publisher = core._ours[AIR].publisher
    assert core.to_send(NOW_S, 0) == [
        Send("accesspoint-1", [Publications(1, ORIGIN, 1, 0, 0, publisher, NOW_S, [b"0", b"1", b"2"], None, LOG)])
    ]
    assert core.to_send(NOW_S, 0) == []


def test_sequences_are_offsets_and_the_watermark_is_what_may_be_committed() -> None:
    core = made(Note(100, LOG))
    read(core, 100, 250)
    note_all(core)
    assert sent(core.to_send(NOW_S, 0)) == [(101, 0, 100, 200), (301, 101, 100, 50)]
    confirm(core, 301)
    assert note_all(core).offset == 100
    confirm(core, 101)
    assert core.to_note(NOW_S, 60.0) == {}
    assert core.to_note(NOW_S, 0.0) == {AIR: Note(350, LOG)}
    read(core, 350, 1)
    assert note_all(core) == Note(350, LOG, (Cut(1, LOG),))
    assert sent(core.to_send(NOW_S, 0)) == [(351, 0, 350, 1)]


def test_what_is_confirmed_is_committed_with_the_next_note_or_in_time() -> None:
    core = made()
    read(core, 0, 2)
    note_all(core)
    core.to_send(NOW_S, 0)
    confirm(core, 1)
    assert core.to_note(NOW_S + 0.9, 1.0) == {}
    assert core.to_note(NOW_S + 1.0, 1.0) == {AIR: Note(2, LOG)}


def test_bad_records_are_passed_over() -> None:
    core = made()
    read(core, 0, 3, bad=(1,))
    read(core, 3, 2, bad=(3, 4))
    assert note_all(core) == Note(0, LOG, (Cut(3, LOG), Cut(2, LOG)))
    (send,) = core.to_send(NOW_S, 0)
    assert send.messages[0].contents == [b"0", b"2"]
    confirm(core, 1)
    assert note_all(core) == Note(5, LOG)
    read(core, 5, 1, bad=(5,))
    note_all(core)
    assert core.to_send(NOW_S, 0) == []
    assert note_all(core) == Note(6, LOG)


def test_offsets_without_records_belong_to_the_cut_around_them() -> None:
    core = made()
    core.on_read(AIR, [Read(3, b"a"), Read(9, b"b")], 12, NOW_S)
    assert note_all(core) == Note(0, LOG, (Cut(12, LOG),))
    core.to_send(NOW_S, 0)
    confirm(core, 1)
    core.on_read(AIR, (), 20, NOW_S)
    assert note_all(core) == Note(20, LOG)


def test_a_hole_of_any_size_is_one_step() -> None:
    """Of a compacted topic most may be missing; whoever counted the offsets would keep everybody waiting."""
    core = made()
    core.on_read(AIR, [Read(10**15, b"a")], 10**15 + 1, NOW_S)
    note_all(core)
    assert sent(core.to_send(NOW_S, 0)) == [(1, 0, 0, 1)]
    core.on_read(AIR, [Read(2 * 10**15, b"b")], 2 * 10**15 + 1, NOW_S)
    note_all(core)
    assert sent(core.to_send(NOW_S, 0)) == [(10**15 + 2, 1, 0, 1)]
    confirm(core, 1)
    (again,) = core.on_tick(NOW_S + 2.0)
    assert sent([again]) == [(10**15 + 2, 0, 10**15 + 1, 1)]
    confirm(core, 10**15 + 2)
    assert note_all(core) == Note(2 * 10**15 + 1, LOG)


def test_what_is_not_confirmed_is_sent_again_under_the_same_number() -> None:
    core = made()
    read(core, 0, 2)
    note_all(core)
    first = core.to_send(NOW_S, 0)
    (again,) = core.on_tick(NOW_S + 2.0)
    assert sent([again]) == sent(first)
    assert again.messages[0].attempt == LOG + 1


# Somebody else goes on


def test_whoever_takes_over_sends_the_same_batches() -> None:
    before = made()
    read(before, 0, 3)
    read(before, 3, 250, NOW_S + 1)
    note = note_all(before)
    sends = before.to_send(NOW_S + 1, 0)
    after = made(note)
    assert after.awaited() == [AIR]
    read(after, 0, 100, NOW_S + 50)
    assert sent(after.to_send(NOW_S + 50, 0)) == [(1, 0, 0, 3)]
    read(after, 100, 200, NOW_S + 50)
    again = after.to_send(NOW_S + 50, 0)
    assert after.awaited() == []
    assert [batches(some) for some in (sends[1:], again)] == [batches(again)] * 2
    assert len(again) == 2
    assert after.to_note(NOW_S, 60.0)[AIR].cuts[:3] == note.cuts


def test_a_note_that_was_written_and_not_known_to_be_is_as_good() -> None:
    """The one before noted and crashed, or lost the partition, before it sent anything."""
    before = made()
    read(before, 0, 5)
    note = before.to_note(NOW_S, 0.0)[AIR]
    after = made(note)
    read(after, 0, 9)
    assert sent(after.to_send(NOW_S, 0)) == [(1, 0, 0, 5)]
    assert note_all(after) == Note(0, LOG, (Cut(5, LOG), Cut(4, LOG)))
    assert sent(after.to_send(NOW_S, 0)) == [(6, 1, 0, 4)]


def test_a_cut_whose_last_records_are_gone_is_sent_without_them() -> None:
    core = made(Note(0, LOG, (Cut(5, LOG),)))
    read(core, 0, 2)
    assert core.to_send(NOW_S, 0) == []
    core.on_read(AIR, (), 5, NOW_S)
    assert sent(core.to_send(NOW_S, 0)) == [(1, 0, 0, 2)]


def test_an_offset_that_somebody_else_committed_begins_another_log() -> None:
    core = made(Note(40))
    read(core, 40, 1)
    note_all(core)
    (send,) = core.to_send(NOW_S, 0)
    assert send.messages[0].origin == ORIGIN
    again = SourceCore(SETTINGS)
    again.on_assigned(AIR, Note(40), NOW_S + 1)
    assert again._ours[AIR].log == LOG + 1000


def test_what_was_revoked_is_neither_sent_nor_counted_any_more() -> None:
    core = made()
    read(core, 0, 3)
    note_all(core)
    core.to_send(NOW_S, 0)
    core.on_revoked([AIR])
    assert (core.ours, core.window_publications) == ([], 0)
    assert core.on_tick(NOW_S + 100) == []
    assert core.to_note(NOW_S, 0.0) == {}
    core.on_noted({AIR: Note(3, LOG)}, NOW_S)  # it came too late
    confirm(core, 1)


# Records that are gone


def test_records_that_were_deleted_before_they_were_read_are_counted() -> None:
    core = made()
    read(core, 0, 2)
    note_all(core)
    core.to_send(NOW_S, 0)
    assert core.on_out_of_range(AIR, 50, 60, NOW_S) == 50
    assert core.lost == 48
    read(core, 50, 1)
    assert note_all(core) == Note(0, LOG, (Cut(2, LOG), Cut(49, LOG)))
    assert sent(core.to_send(NOW_S, 0)) == [(3, 1, 0, 1)]


def test_of_a_noted_cut_what_is_left_is_sent() -> None:
    core = made(Note(0, LOG, (Cut(5, LOG), Cut(5, LOG))))
    assert core.on_out_of_range(AIR, 7, 60, NOW_S) == 7
    read(core, 7, 3)
    assert sent(core.to_send(NOW_S, 0)) == [(6, 0, 5, 3)]


def test_a_topic_that_was_made_anew_is_another_log_and_the_one_before_is_seen_to() -> None:
    core = made(Note(1000, LOG))
    read(core, 1000, 2)
    note_all(core)
    core.to_send(NOW_S, 0)
    assert core.on_out_of_range(AIR, 0, 5, NOW_S + 1) == 0
    read(core, 0, 1)
    assert note_all(core).log == LOG + 1000
    (send,) = core.to_send(NOW_S, 0)
    assert (send.messages[0].origin, send.messages[0].sequence) == (f"source-air-0.{LOG + 1000:x}", 1)
    assert {m.origin for send in core.on_tick(NOW_S + 10) for m in send.messages} == {
        ORIGIN,
        f"source-air-0.{LOG + 1000:x}",
    }
    confirm(core, 1001)
    assert {m.origin for send in core.on_tick(NOW_S + 100) for m in send.messages} == {f"source-air-0.{LOG + 1000:x}"}


def test_a_log_that_lost_its_tail_goes_on_under_another_name_with_what_is_left_and_not_confirmed() -> None:
    core = made(Note(1000, LOG))
    for first in (1000, 1002, 1004):
        read(core, first, 2)
    note_all(core)
    assert sent(core.to_send(NOW_S, 0)) == [(1001, 0, 1000, 2), (1003, 1001, 1000, 2), (1005, 1003, 1000, 2)]
    confirm(core, 1001)
    assert core.on_out_of_range(AIR, 900, 1005, NOW_S + 1) == 1002
    core.on_read(AIR, records(1002, 4), 1006, NOW_S + 1)
    assert core.to_send(NOW_S + 1, 0) == [], "its name is noted first"
    assert note_all(core, NOW_S + 1) == Note(1002, LOG + 1000, (Cut(4, LOG + 1000),))
    assert sent(core.to_send(NOW_S + 1, 0)) == [(1003, 0, 1002, 4)]
    again = [(m.origin, m.sequence) for send in core.on_tick(NOW_S + 10) for m in send.messages]
    assert again == [(ORIGIN, 1005), (f"source-air-0.{LOG + 1000:x}", 1003)], "nobody else has all of it"


def test_of_one_that_lost_what_was_confirmed_only_what_follows_is_read() -> None:
    core = made(Note(1000, LOG))
    read(core, 1000, 5)
    note_all(core)
    core.to_send(NOW_S, 0)
    confirm(core, 1001)
    assert core.on_out_of_range(AIR, 900, 1003, NOW_S + 1) == 1003
    assert list(core._origins) == [f"source-air-0.{LOG + 1000:x}"]


def with_a_lost_tail() -> tuple[SourceCore, Note]:
    """Three cuts are sent, the first is confirmed. Kafka has one and a half of the others; no new name is noted."""
    core = made(Note(1000, LOG))
    for first in (1000, 1002, 1004):
        read(core, first, 2)
    note = note_all(core)
    core.to_send(NOW_S, 0)
    confirm(core, 1001)
    assert core.on_out_of_range(AIR, 900, 1005, NOW_S + 1) == 1002
    return core, note


def again(core: SourceCore, after_s: float) -> list[tuple[str, int, int]]:
    """Origin, sequence and watermark of what is sent again."""
    sends = core.on_tick(NOW_S + after_s)
    return [(m.origin, m.sequence, m.watermark) for send in sends for m in send.messages]


def test_what_is_read_again_stays_under_the_old_name_until_the_new_one_is_noted() -> None:
    """Whoever finds the old note sends it under the old name, and exit points must not have been told to forget it."""
    core, _ = with_a_lost_tail()
    assert again(core, 10) == [(ORIGIN, 1003, 1002), (ORIGIN, 1005, 1002)]
    assert core.window_publications == 4
    note_all(core, NOW_S + 11)
    assert core.window_publications == 2
    assert again(core, 100) == [(ORIGIN, 1005, 1002)]


def test_a_window_that_is_full_of_what_is_read_again_is_no_bar() -> None:
    core = made(settings=Ingress(window_publications_max=10))
    read(core, 0, 10)
    note_all(core)
    core.to_send(NOW_S, 0)
    core.on_read(AIR, (), 30, NOW_S)
    assert core.on_out_of_range(AIR, 0, 20, NOW_S + 1) == 0
    assert core.readable() == [], "it may have been made anew: nobody else has these"
    core = made(Note(5, LOG), settings=Ingress(window_publications_max=10))
    read(core, 5, 10)
    note_all(core)
    core.to_send(NOW_S, 0)
    core.on_read(AIR, (), 30, NOW_S)
    assert core.on_out_of_range(AIR, 5, 20, NOW_S + 1) == 5
    assert core.readable() == []
    assert core.to_note(NOW_S + 3, 1.0) == {AIR: Note(5, LOG + 1000)}
    note_all(core, NOW_S + 3)
    assert core.readable() == [AIR]


def test_one_that_is_ours_again_under_the_name_it_had_goes_on_with_what_was_sent_under_it() -> None:
    """Nothing of it leaves the window uncounted, and nothing of it is taken for confirmed."""
    core, note = with_a_lost_tail()
    core.on_revoked(core.ours)
    assert core.window_publications == 4, "nobody else may have it"
    assert core.on_assigned(AIR, note, NOW_S + 2) == 1006
    assert (core.window_publications, core.awaited(), core.offsets()) == (4, [], {AIR: 1002})
    (first, *_) = core.on_tick(NOW_S + 3)
    assert first.messages[0].attempt > LOG + 2000
    read(core, 1006, 1)
    assert note_all(core) == Note(1002, LOG, (Cut(2, LOG), Cut(2, LOG), Cut(1, LOG)))
    assert sent(core.to_send(NOW_S + 2, 0)) == [(1007, 1005, 1002, 1)]
    confirm(core, 1003, 1005)
    assert core.window_publications == 1
    assert note_all(core) == Note(1006, LOG, (Cut(1, LOG),))
    core.on_revoked(core.ours)
    assert (core.window_publications, core.window_bytes, core._origins) == (0, 0, {})


def test_its_tail_is_sent_until_it_is_confirmed_when_it_is_found_lost_once_more() -> None:
    core, note = with_a_lost_tail()
    for after_s in (2, 4):
        core.on_revoked(core.ours)
        assert core.on_assigned(AIR, note, NOW_S + after_s) == 1006
        assert core.on_out_of_range(AIR, 900, 1005, NOW_S + after_s + 1) == 1002
    core.on_read(AIR, records(1002, 3), 1005, NOW_S + 5)
    assert note_all(core, NOW_S + 5) == Note(1002, LOG + 5000, (Cut(3, LOG + 5000),))
    core.to_send(NOW_S + 5, 0)
    assert again(core, 100) == [(ORIGIN, 1005, 1002), (f"source-air-0.{LOG + 5000:x}", 1003, 1002)]
    confirm(core, 1005)
    core.on_revoked(core.ours)
    assert (core.window_publications, core._origins) == (0, {})


def test_what_somebody_else_saw_confirmed_meanwhile_is_dropped_and_what_it_noted_is_read() -> None:
    core, _ = with_a_lost_tail()
    core.on_revoked(core.ours)
    assert core.on_assigned(AIR, Note(1004, LOG, (Cut(2, LOG), Cut(3, LOG))), NOW_S + 2) == 1006
    assert (core.window_publications, core.awaited()) == (2, [AIR])
    read(core, 1006, 3)
    assert sent(core.to_send(NOW_S + 2, 0)) == [(1007, 1005, 1004, 3)]
    core.on_revoked(core.ours)
    core, _ = with_a_lost_tail()
    core.on_revoked(core.ours)
    assert core.on_assigned(AIR, Note(1050, LOG), NOW_S + 2) == 1050
    assert (core.window_publications, core.offsets()) == (0, {AIR: 1050})
    read(core, 1050, 1)
    note_all(core)
    assert sent(core.to_send(NOW_S + 2, 0)) == [(1051, 0, 1050, 1)]


def test_notes_that_kafka_has_forgotten_are_begun_anew_with() -> None:
    """What was sent behind them may be cut otherwise now; nothing of it stays in the window."""
    core, _ = with_a_lost_tail()
    core.on_revoked(core.ours)
    assert core.on_assigned(AIR, Note(1000, LOG, (Cut(2, LOG),)), NOW_S + 2) == 1000
    assert (core.window_publications, core.awaited()) == (0, [AIR])


def test_a_tail_that_is_lost_twice_before_a_name_is_noted() -> None:
    core, _ = with_a_lost_tail()
    read(core, 1002, 3)
    assert core.on_out_of_range(AIR, 900, 1003, NOW_S + 1) == 1002
    assert note_all(core, NOW_S + 2).log == LOG + 1001, "another name, in the same moment too"
    assert again(core, 100) == [(ORIGIN, 1003, 1002), (ORIGIN, 1005, 1002)], "Kafka has none of them any more"


# Bounds


def test_a_full_window_stops_reading_until_something_is_confirmed() -> None:
    core = made(settings=Ingress(window_publications_max=10))
    assert core.readable() == [AIR]
    read(core, 0, 10)
    note_all(core)
    core.to_send(NOW_S, 0)
    assert core.readable() == []
    confirm(core, 1)
    assert core.readable() == [AIR]


def test_no_more_is_cut_than_a_note_has_room_for() -> None:
    core = made()
    large = b"x" * 600_000
    core.on_read(AIR, [Read(n, large) for n in range(BATCHES_MAX + 3)], BATCHES_MAX + 3, NOW_S)
    assert core.readable() == []
    assert len(note_all(core).cuts) == BATCHES_MAX
    core.to_send(NOW_S, 0)
    confirm(core, *range(1, BATCHES_MAX + 1))
    assert note_all(core) == Note(BATCHES_MAX, LOG, (Cut(1, LOG),) * 3)
