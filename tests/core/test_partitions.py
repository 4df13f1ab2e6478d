"""Seeing to partitions of Kafka: whose they are, what is sent of them, what is committed."""

import pytest

from braid.messages import Publications, Send
from services.connpoint.committed import Committed
from services.connpoint.partitions import PartitionsCore, Record
from tests.core.ingress_cases import CONFIGURATION, EVEN, ODD, SETTINGS, sent
from tests.core.partition_cases import (
    BEGAN_MS,
    NAME,
    OTHER,
    OURS,
    PARTITIONS,
    commit,
    confirm,
    name,
    read,
    reading,
    record,
)

ORIGIN = f"ingress-0.{BEGAN_MS:x}"
RENAMED = f"ingress-0.{200_000:x}"

# Whose it is


def test_the_only_connection_point_sees_to_all_and_one_of_two_to_its_share() -> None:
    core = PartitionsCore(NAME, PARTITIONS, SETTINGS)
    assert 0 < len(OURS) < PARTITIONS
    assert core.on_connpoints([NAME, OTHER]) == core.wanted() == OURS
    assert core.on_connpoints([NAME]) == [p for p in range(PARTITIONS) if p not in OURS]
    assert core.wanted() == list(range(PARTITIONS))
    assert core.on_connpoints([NAME, OTHER]) == []
    assert list(core.claims()) == OURS


def test_whoever_is_not_registered_sees_to_nothing() -> None:
    core = reading()
    read(core, record(0, EVEN))
    assert core.on_connpoints([OTHER]) == core.wanted() == []
    assert (core.claims(), core.positions(), core.window_publications, core.window_bytes) == ({}, {}, 0, 0)
    assert confirm(core, 1) == []
    assert core.on_tick(1000.0) == []
    assert core.on_connpoints(()) == []


def test_nothing_is_read_before_it_is_known_what_is_committed() -> None:
    core = reading(partition=3, committed=Committed(70, BEGAN_MS))
    assert core.positions() == {3: 70}
    assert core.wanted() == [0, 1, 2, 4, 5, 6, 7]
    core.on_committed(3, Committed(1, BEGAN_MS), 0, 100.0)  # asked twice
    assert core.positions() == {3: 70}


def test_what_fell_to_us_again_is_claimed_anew_and_read_from_what_is_committed() -> None:
    core = reading()
    read(core, record(0, EVEN), record(1, EVEN))
    before = core.claims()[0]
    core.on_connpoints(())
    core.on_connpoints([NAME])
    assert core.claims()[0] != before
    core.on_committed(0, Committed(1, BEGAN_MS), 0, 100.0)
    assert core.positions() == {0: 1}
    assert sent(read(core, record(1, EVEN))) == [("accesspoint-1", 2, 0, 1)]


# What is in it


def test_a_record_is_sent_under_its_partition_and_its_offset_plus_one() -> None:
    core = reading(now_s=50.0)
    assert read(core, record(0, ODD, b"one", b"two")) == [
        Send("accesspoint-2", [Publications(1, ORIGIN, 1, 0, 0, ODD, 40.0, [b"one", b"two"], None, attempt=50_000)])
    ]
    assert (core.window_publications, core.window_bytes) == (2, 6)


def test_order_and_watermark_are_those_of_the_log() -> None:
    core = reading()
    assert sent(read(core, record(0, EVEN), record(1, ODD), record(2, EVEN))) == [
        ("accesspoint-1", 1, 0, 0),
        ("accesspoint-2", 2, 0, 0),
        ("accesspoint-1", 3, 1, 0),
    ]
    assert confirm(core, 1) == [1]
    assert sent(read(core, record(3, EVEN))) == [("accesspoint-1", 4, 3, 1)]


def test_two_that_see_to_the_same_partition_send_the_same() -> None:
    """Not the attempts, which are not mixed; nor `previous` and the watermark, each of which is true."""
    records = [record(0, EVEN), record(1, EVEN), record(2, ODD)]
    one, other = reading(now_s=60.0), reading(now_s=61.0)
    sends = [[send.messages[0] for send in read(core, *records)] for core in (one, other)]
    assert [m.attempt for m in sends[0]] == [60_000] * 3
    assert [m.attempt for m in sends[1]] == [61_000] * 3
    for message in (*sends[0], *sends[1]):
        message.attempt = 0
    assert sends[0] == sends[1]


def test_without_a_configuration_it_waits() -> None:
    core = PartitionsCore(NAME, PARTITIONS, SETTINGS)
    core.on_connpoints([NAME])
    core.on_committed(0, None, 0, 100.0)
    assert read(core, record(0, EVEN)) == []
    core.on_configuration(CONFIGURATION)
    assert sent(core.on_tick(100.0)) == [("accesspoint-1", 1, 0, 0)]


def test_a_successor_goes_on_from_what_is_committed_without_what_the_note_names() -> None:
    core = reading(committed=Committed(4, BEGAN_MS, ((6, 7), (9, 9))))
    sends = read(core, *(record(offset, EVEN) for offset in range(4, 11)))
    assert sent(sends) == [
        ("accesspoint-1", 5, 0, 4),
        ("accesspoint-1", 6, 5, 4),
        ("accesspoint-1", 9, 6, 4),
        ("accesspoint-1", 11, 9, 4),
    ]
    assert {send.messages[0].origin for send in sends} == {ORIGIN}
    assert confirm(core, 5, 6) == [5, 6]
    assert commit(core) == {0: Committed(8, BEGAN_MS, ((9, 9),))}


def test_what_cannot_be_read_counts_as_done() -> None:
    core = reading()
    assert read(core, Record(0, BEGAN_MS, b"what is this"), Record(1, BEGAN_MS, None)) == []
    assert core.unreadable == 2
    assert sent(read(core, record(2, EVEN))) == [("accesspoint-1", 3, 0, 2)]


def test_offsets_that_nobody_has_are_passed() -> None:
    """Somebody wrote into the topic with transactions, whose markers have offsets too."""
    core = reading()
    read(core, record(0, EVEN), record(5, EVEN))
    assert confirm(core, 1, 6) == [1, 6]
    assert commit(core) == {0: Committed(6, BEGAN_MS)}


def test_the_window_is_full() -> None:
    core = reading()
    read(core, record(0, EVEN, *[b"x"] * 9))
    assert not core.is_full
    read(core, record(1, EVEN))
    assert core.is_full
    confirm(core, 2)
    assert not core.is_full


# What is lost


def test_records_that_were_deleted_before_they_were_read() -> None:
    core = reading(committed=Committed(10, BEGAN_MS))
    core.on_lost(0, 25, 40, None, 100.0)
    assert (core.positions(), core.missing) == ({0: 25}, 15)
    assert sent(read(core, record(25, EVEN))) == [("accesspoint-1", 26, 0, 25)]
    confirm(core, 26)
    assert commit(core) == {0: Committed(26, BEGAN_MS)}


def test_a_log_that_was_made_anew_has_another_origin() -> None:
    core = reading(committed=Committed(10, BEGAN_MS - 5))
    read(core, record(10, EVEN))
    core.on_lost(0, 0, 3, first_ms=BEGAN_MS, now_s=200.0)
    assert (core.positions(), core.missing) == ({0: 0}, 0)
    assert core.to_commit(200.0) == {}
    assert name(core, 200.0) == {0: Committed(0, 200_000)}
    (send,) = read(core, record(0, EVEN))
    assert (send.messages[0].origin, send.messages[0].sequence, send.messages[0].watermark) == (RENAMED, 1, 0)


def test_what_went_with_it_is_sent_until_it_is_confirmed_or_the_partition_falls_to_another() -> None:
    """Nobody else has it."""
    core = reading(committed=Committed(10, BEGAN_MS))
    read(core, record(10, EVEN), record(11, EVEN))
    core.on_lost(0, 0, 3, first_ms=BEGAN_MS + 9, now_s=200.0)
    name(core, 200.0)
    read(core, record(0, ODD))
    assert [send.messages[0].origin for send in core.on_tick(300.0)] == [ORIGIN, ORIGIN, RENAMED]
    assert confirm(core, 11) == [11]
    assert [send.messages[0].sequence for send in core.on_tick(400.0)] == [12, 1]
    core.on_connpoints(())
    assert (core.window_publications, core.on_tick(500.0)) == (0, [])


def cut_off(begins: int = 0, ends: int = 4, first_ms: int | None = BEGAN_MS) -> PartitionsCore:
    """Six were read, all but the third and the sixth confirmed; then Kafka has lost the last two."""
    core = reading()
    read(core, *(record(offset, EVEN) for offset in range(6)))
    confirm(core, 1, 2, 4, 5)
    commit(core)
    core.on_lost(0, begins, ends, first_ms, now_s=200.0)
    return core


@pytest.mark.parametrize(("begins", "first_ms"), [(0, BEGAN_MS), (1, BEGAN_MS + 1)])
def test_a_log_that_lost_its_tail_goes_on_under_another_name(begins: int, first_ms: int) -> None:
    """Its numbers are given again, and exit points have forgotten what lies below the watermark."""
    core = cut_off(begins, first_ms=first_ms)
    assert core.positions() == {0: 2}
    assert name(core, 200.0) == {0: Committed(2, 200_000, ((3, 3),))}
    sends = read(core, *(record(offset, EVEN) for offset in range(2, 6)))
    assert [(m.origin, m.sequence) for send in sends for m in send.messages] == [(RENAMED, n) for n in (3, 5, 6)]
    assert [(m.origin, m.sequence) for send in core.on_tick(300.0) for m in send.messages] == [
        (ORIGIN, 6),
        *[(RENAMED, n) for n in (3, 5, 6)],
    ], "of those that are gone, what was not confirmed is only here"


def test_what_was_deleted_and_is_not_confirmed_is_kept_with_what_is_cut_off() -> None:
    """Kafka has neither; only what is still there is read again."""
    core = cut_off(begins=3, ends=5, first_ms=BEGAN_MS + 3)
    assert core.positions() == {0: 3}
    assert name(core, 200.0) == {0: Committed(3, 200_000, ((3, 4),))}
    read(core, *(record(offset, EVEN) for offset in (3, 4, 5)))
    assert [(m.origin, m.sequence) for send in core.on_tick(300.0) for m in send.messages] == [
        (ORIGIN, 3),
        (ORIGIN, 6),
        (RENAMED, 6),
    ]
    core = reading()
    read(core, *(record(offset, EVEN) for offset in range(100)))
    core.on_lost(0, 60, 90, BEGAN_MS + 60, 200.0)
    assert name(core, 200.0) == {0: Committed(60, 200_000)}
    assert [*core._origins[ORIGIN].pending] == [*range(1, 61), *range(91, 101)]


def test_what_was_committed_of_the_log_before_does_not_come_back() -> None:
    core = cut_off()
    core.on_commit({0: Committed(2, BEGAN_MS)}, 200.0)  # it was under way
    assert core.to_commit(9000.0) == {}
    name(core, 9000.0)
    assert core.to_commit(9000.0) == {}


def test_one_that_lost_its_tail_before_it_was_claimed() -> None:
    core = reading(committed=Committed(9, BEGAN_MS, ((11, 12),)))
    core.on_lost(0, 0, 7, BEGAN_MS, 200.0)
    assert name(core, 200.0) == {0: Committed(7, 200_000)}
    (send,) = read(core, record(7, EVEN))
    assert (send.messages[0].origin, send.messages[0].watermark) == (RENAMED, 7)


def test_nothing_is_sent_under_a_name_that_is_not_committed() -> None:
    core = cut_off()
    with pytest.raises(AssertionError, match="another name"):
        read(core, record(4, EVEN))


def test_what_is_still_there_is_not_lost() -> None:
    core = reading()
    read(core, record(0, EVEN))
    core.on_lost(0, 0, 9, None, 100.0)
    core.on_lost(5, 3, 9, None, 100.0)  # of which nothing is known yet
    assert (core.positions(), core.missing, core.window_publications) == ({0: 1}, 0, 1)


@pytest.mark.parametrize("now_s", [200.0, 300.0])
def test_an_offset_that_was_set_by_hand_begins_another_origin_each_time(now_s: float) -> None:
    core = reading(committed=Committed(2), now_s=now_s)
    assert commit(core) == {}
    assert name(core, now_s) == {0: Committed(2, int(now_s * 1000))}
    (send,) = read(core, record(2, EVEN))
    assert send.messages[0].origin == f"ingress-0.{int(now_s * 1000):x}"
    assert name(core, now_s) == {}


def pairs(sends: list[Send]) -> list[tuple[str, int]]:
    return [(message.origin, message.sequence) for send in sends for message in send.messages]


def test_until_the_name_is_committed_all_is_sent_under_the_old_one() -> None:
    """Whoever finds the old note sends what is still there under the old name: no watermark may have passed it."""
    core = cut_off()
    assert sent(core.on_tick(300.0)) == [("accesspoint-1", 3, 0, 2), ("accesspoint-1", 6, 3, 2)]
    assert confirm(core, 6) == [6]
    assert sent(core.on_tick(400.0)) == [("accesspoint-1", 3, 0, 2)]


def test_no_watermark_passes_what_is_sent_under_another_name() -> None:
    """Somebody who has not heard of the other name may still send it."""
    core = reading()
    read(core, *(record(offset, EVEN) for offset in range(8)))
    confirm(core, 1, 2, 4, 5)
    core.on_lost(0, 0, 4, BEGAN_MS, 200.0)
    name(core, 200.0)
    confirm(core, 6)
    assert sent(core.on_tick(300.0)) == [("accesspoint-1", 7, 0, 2), ("accesspoint-1", 8, 7, 2)]


def test_what_is_confirmed_before_the_name_is_committed_is_not_sent_under_it() -> None:
    core = cut_off()
    found = core.to_name()
    confirm(core, 3, 6)
    core.on_named(found, 200.0)
    assert core.window_publications == 0
    assert core.to_commit(200.0) == {}
    assert pairs(read(core, *(record(offset, EVEN) for offset in range(2, 5)))) == [(RENAMED, 5)]
    confirm(core, 5, origin=RENAMED)
    assert commit(core) == {0: Committed(5, 200_000)}


def test_nothing_is_left_of_the_old_name_when_all_of_it_is_still_there() -> None:
    core = reading()
    read(core, *(record(offset, EVEN) for offset in range(6)))
    confirm(core, 1, 2, 5, 6)
    core.on_lost(0, 0, 4, BEGAN_MS, 200.0)
    assert (core.window_publications, [*core._origins]) == (2, [ORIGIN])
    name(core, 200.0)
    assert (core.window_publications, [*core._origins]) == (0, [])


# What is lost twice


def test_a_second_tail_does_not_take_the_first_with_it() -> None:
    core = cut_off()
    name(core, 200.0)
    read(core, *(record(offset, EVEN) for offset in range(2, 6)))
    core.on_lost(0, 0, 5, BEGAN_MS, 210.0)
    gone = [(ORIGIN, 6), (RENAMED, 6)]
    assert pairs(core.on_tick(300.0)) == [(ORIGIN, 6), *[(RENAMED, n) for n in (3, 5, 6)]]
    name(core, 300.0)
    assert pairs(core.on_tick(400.0)) == gone
    core.on_connpoints(())
    assert (core.window_publications, core.on_tick(500.0)) == (0, [])


@pytest.mark.parametrize(
    ("begins", "ends", "first_ms", "position", "kept"),
    [
        (0, 1, BEGAN_MS, 1, [3, 6]),
        (0, 3, BEGAN_MS, 2, [6]),
        (3, 4, BEGAN_MS + 3, 3, [3, 6]),  # nothing more is cut off: retention has deleted something
        (0, 1, 250_000, 0, [3, 6]),  # made anew
    ],
)
def test_a_tail_that_is_lost_before_the_name_is_committed(
    begins: int, ends: int, first_ms: int, position: int, kept: list[int]
) -> None:
    """What Kafka has no more now is kept, and what is written in its places is new."""
    core = cut_off()
    before = core.to_name()
    core.on_lost(0, begins, ends, first_ms, now_s=210.0)
    assert core.positions() == {0: position}
    if ends < 4:
        core.on_named(before, 210.0)
        assert core.to_name(), "that was the name of a log which had more"
        assert pairs(core.on_tick(300.0)) == [(ORIGIN, 3), (ORIGIN, 6)]
    (named,) = name(core, 210.0).values()
    assert named.offset == position
    new = range(ends, ends + 2)
    log = f"ingress-0.{named.log:x}"
    assert pairs(read(core, *(record(o, ODD) for o in new))) == [(log, o + 1) for o in new]
    assert [n for origin, n in pairs(core.on_tick(400.0)) if origin == ORIGIN] == kept


def test_a_second_tail_of_which_nothing_was_confirmed() -> None:
    core = reading()
    read(core, *(record(offset, EVEN) for offset in range(6)))
    core.on_lost(0, 0, 5, BEGAN_MS, 200.0)
    core.on_lost(0, 0, 3, BEGAN_MS, 210.0)
    assert name(core, 210.0) == {0: Committed(0, 210_000)}
    assert [*core._origins[ORIGIN].pending] == [4, 5, 6]


def test_a_log_of_which_nothing_is_left_is_not_shorter_once_more() -> None:
    core = cut_off(begins=0, ends=0)
    named = core.to_name()
    core.on_lost(0, 0, 0, None, 210.0)
    assert core.to_name() == named == {0: Committed(0, 200_000)}


def test_a_log_that_ends_before_what_its_note_names_is_shorter() -> None:
    """What is written there now must not be taken for confirmed."""
    core = reading(committed=Committed(3, BEGAN_MS, ((6, 7),)))
    core.on_lost(0, 5, 6, BEGAN_MS + 5, 200.0)
    assert name(core, 200.0) == {0: Committed(5, 200_000)}
    assert pairs(read(core, record(5, EVEN), record(6, EVEN))) == [(RENAMED, 6), (RENAMED, 7)]


# What is confirmed


def test_nothing_is_committed_before_something_was_read() -> None:
    core = reading()
    assert commit(core) == {}
    core = reading(committed=Committed(9, BEGAN_MS))
    assert commit(core) == {}


def test_what_is_committed_is_confirmed() -> None:
    core = reading()
    read(core, *(record(offset, EVEN) for offset in range(6)))
    confirm(core, 1, 2, 4, 6)
    assert commit(core) == {0: Committed(2, BEGAN_MS, ((3, 3), (5, 5)))}
    assert commit(core) == {}
    confirm(core, 3, 5)
    assert commit(core) == {0: Committed(6, BEGAN_MS)}


def test_what_was_not_written_is_committed_with_the_next() -> None:
    core = reading()
    read(core, record(0, EVEN))
    confirm(core, 1)
    assert core.to_commit(100.0) == core.to_commit(100.2) == {0: Committed(1, BEGAN_MS)}


def test_a_note_is_not_replaced_by_one_that_knows_less() -> None:
    core = reading(committed=Committed(0, BEGAN_MS, ((1, 3),)))
    read(core, record(0, EVEN), record(1, EVEN))
    confirm(core, 1)
    assert commit(core) == {}
    read(core, record(2, EVEN), record(3, EVEN))
    assert commit(core) == {0: Committed(4, BEGAN_MS)}


def test_it_is_repeated_before_kafka_forgets_it() -> None:
    core = reading(committed=Committed(0, BEGAN_MS), now_s=100.0)
    read(core, record(0, EVEN))
    confirm(core, 1)
    assert commit(core, 100.0) == {0: Committed(1, BEGAN_MS)}
    assert commit(core, 3699.0) == {}
    assert commit(core, 3700.0) == {0: Committed(1, BEGAN_MS)}


def test_it_is_written_down_again_when_kafka_has_forgotten_it() -> None:
    core = reading()
    read(core, record(0, 1))
    confirm(core, 1)
    written = commit(core)
    assert core.committed() == {0}
    core.on_forgotten(0, ends=0)
    assert commit(core) == {}, "the log is gone, too"
    core.on_forgotten(0, ends=1)
    assert commit(core) == written
    assert commit(core) == {}


def test_that_of_a_partition_in_which_nothing_happens_is_repeated_too() -> None:
    """By whoever took it over: else all that the log still has would be sent again once Kafka has forgotten it."""
    found = Committed(5, BEGAN_MS, ((7, 8),))
    core = reading(committed=found, now_s=100.0)
    assert commit(core, 3699.0) == {}
    assert commit(core, 3700.0) == {0: found}
    read(core, record(5, EVEN))
    assert commit(core, 7300.0) == {0: found}, "the note knows more"


def test_a_commit_of_what_is_no_longer_ours_changes_nothing() -> None:
    core = reading()
    read(core, record(0, EVEN))
    confirm(core, 1)
    written = core.to_commit(100.0)
    core.on_connpoints(())
    core.on_commit(written, 100.0)
    assert core.to_commit(5000.0) == {}
