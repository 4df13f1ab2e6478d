"""What was lost, came twice or out of order is seen by the marks of publications."""

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.arrivals import UNWANTED, Arrivals, Ledger, first_mark


def ledger_of(*marks: int) -> Ledger:
    arrivals = Arrivals()
    arrivals.take(marks)
    return arrivals.ledger


def test_everything_once_and_in_order() -> None:
    second = first_mark(1)
    assert ledger_of(0, 1, second, 2, second + 1) == Ledger(5, 0, 0)


def test_what_is_missing_is_not_received() -> None:
    assert ledger_of(0, 3) == Ledger(2, 0, 0)
    assert ledger_of(2) == Ledger(1, 0, 0)


def test_what_comes_late_is_out_of_order_once_and_then_twice() -> None:
    assert ledger_of(0, 2, 1) == Ledger(3, 0, 1)
    assert ledger_of(0, 2, 1, 1) == Ledger(3, 1, 1)


def test_a_repetition_is_seen() -> None:
    assert ledger_of(0, 0, 1) == Ledger(2, 1, 0)
    assert ledger_of(*[0, 1, 2], *[0, 1, 2]) == Ledger(3, 3, 0)


def test_what_nobody_wants_is_counted_apart() -> None:
    assert ledger_of(0, UNWANTED, 1, UNWANTED) == Ledger(2, 0, 0, 2)


def test_what_is_no_delivery_is_told_by_its_place() -> None:
    arrivals = Arrivals()
    assert arrivals.take([0, 0, 2, UNWANTED, 1, 1, 3]) == [1, 3, 5]
    assert arrivals.take([4, 3]) == [1]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12)), max_size=60))
def test_it_counts_what_counting_by_hand_does(arrivals: list[tuple[int, int]]) -> None:
    found = ledger_of(*(first_mark(publisher) + number for publisher, number in arrivals))
    seen: dict[int, set[int]] = {}
    late = 0
    for publisher, number in arrivals:
        of = seen.setdefault(publisher, set())
        late += number not in of and any(number < other for other in of)
        of.add(number)
    different = sum(map(len, seen.values()))
    assert found == Ledger(different, len(arrivals) - different, late)
