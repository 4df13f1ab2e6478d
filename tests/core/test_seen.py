"""The memory of sequences: exact above the watermark, bounded."""

from hypothesis import given, settings
from hypothesis import strategies as st

from braid.seen import SeenSequences


def test_everything_up_to_the_watermark_counts_as_seen() -> None:
    seen = SeenSequences()
    assert 1 not in seen
    assert 0 in seen
    seen.advance(5)
    assert 5 in seen
    assert 6 not in seen


def test_above_the_watermark_only_what_was_added() -> None:
    seen = SeenSequences()
    seen.add(7)
    assert 7 in seen
    assert 6 not in seen
    seen.add(7)
    assert len(seen) == 1


def test_the_watermark_never_goes_back() -> None:
    seen = SeenSequences()
    seen.advance(5)
    seen.advance(3)
    assert seen.watermark == 5
    assert 4 in seen


def test_below_the_watermark_nothing_is_remembered() -> None:
    seen = SeenSequences()
    seen.advance(5)
    seen.add(3)
    assert len(seen) == 0


def test_memory_follows_the_window_not_the_number_of_sequences() -> None:
    seen, window, largest = SeenSequences(), 1000, 0
    for sequence in range(1, 50_001):
        seen.add(sequence)
        seen.advance(sequence - window)
        largest = max(largest, len(seen))
    assert largest <= window + 4096
    assert 49_001 in seen
    assert 50_001 not in seen


@settings(derandomize=True, deadline=None, max_examples=200, database=None)
@given(st.lists(st.tuples(st.sampled_from(["add", "advance"]), st.integers(0, 60)), max_size=60))
def test_equals_a_set_that_never_forgets(steps: list[tuple[str, int]]) -> None:
    seen, added, watermark = SeenSequences(), set[int](), 0
    for step, number in steps:
        if step == "add":
            seen.add(number)
            added.add(number)
        else:
            seen.advance(number)
            watermark = max(watermark, number)
        assert [n in seen for n in range(62)] == [n <= watermark or n in added for n in range(62)]
