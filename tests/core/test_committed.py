"""The note beside a committed offset: what is confirmed behind it, as far as there is room."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.connpoint.committed import NOTE_LENGTH_MAX, Committed, note_of, ranges_between, read_note


def test_a_note_tells_the_log_and_ranges_counted_from_the_offset() -> None:
    committed = Committed(1000, 0x19A, ((1003, 1005), (1009, 1009)))
    assert note_of(committed) == "1 19a 3-5,9"
    assert read_note(1000, "1 19a 3-5,9") == committed
    assert note_of(Committed(7, 0x19A)) == "1 19a "
    assert read_note(7, "1 19a ") == Committed(7, 0x19A)


@pytest.mark.parametrize("note", [None, "", "by hand", "2 19a 3-5", "1 xyz 3", "1 19a three"])
def test_a_note_that_cannot_be_read_is_as_good_as_none(note: str | None) -> None:
    assert read_note(5, note) == Committed(5)


def test_what_does_not_fit_is_left_out_from_the_end() -> None:
    ranges = tuple((10_000_000 + 3 * n, 10_000_000 + 3 * n + 1) for n in range(2000))
    note = note_of(Committed(9_000_000, 0x19A1B2C3D4E, ranges))
    assert NOTE_LENGTH_MAX - 100 < len(note) <= NOTE_LENGTH_MAX
    kept = read_note(9_000_000, note).confirmed
    assert kept == ranges[: len(kept)]
    assert len(kept) > 100


def test_what_lies_between() -> None:
    assert ranges_between([3, 4, 8], 3, 12) == ((5, 7), (9, 11))
    assert ranges_between([5], 3, 6) == ((3, 4),)
    assert ranges_between([], 3, 3) == ()


@given(st.sets(st.integers(0, 60)), st.integers(0, 60), st.integers(0, 60))
def test_numbers_and_ranges_cover_everything_once(numbers: set[int], first: int, length: int) -> None:
    end = first + length
    inside = sorted(number for number in numbers if first <= number < end)
    ranges = ranges_between(inside, first, end)
    covered = [offset for start, last in ranges for offset in range(start, last + 1)]
    assert sorted([*covered, *inside]) == list(range(first, end))
    assert read_note(first, note_of(Committed(first, 1, ranges))).confirmed == ranges
