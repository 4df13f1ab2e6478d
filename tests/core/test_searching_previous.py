"""Searching with a filter that looks back: what came before a publication on its topic is found among what is kept."""

from msgspec.structs import replace

from services.matcher.storage.dual import DualDB
from tests.core.kept_cases import on_topic, question
from tests.core.matching_cases import content, record
from tests.core.test_searching import NOW_S, at, found, keep, small_slices, storage

__all__ = ["small_slices", "storage"]

FALLING = record("s-1", "price < prev(price)")


def test_what_came_before_is_looked_for_in_the_same_record(storage: DualDB) -> None:
    keep(storage, at(-1, 1, *(on_topic("a", price=price) for price in (5, 4, 6, 2))))
    assert found(storage, question(1, FALLING)) == [(1, 3), (1, 1)]


def test_what_came_before_is_looked_for_in_the_one_before(storage: DualDB) -> None:
    keep(storage, at(-3, 1, on_topic("a", price=9), on_topic("a", price=5)), at(-1, 2, on_topic("a", price=7)))
    assert found(storage, question(1, FALLING)) == [(1, 1)]
    keep(storage, at(-0.5, 3, on_topic("a", price=6)))
    assert found(storage, question(1, FALLING)) == [(3, 0), (1, 1)]


def test_what_came_before_may_lie_before_the_window(storage: DualDB) -> None:
    keep(storage, at(-3, 1, on_topic("a", price=9)), at(-1, 2, on_topic("a", price=7)))
    assert found(storage, question(1, FALLING, from_s=NOW_S - 2)) == [(2, 0)]


def test_only_the_same_topic_counts_as_before(storage: DualDB) -> None:
    keep(storage, at(-3, 1, on_topic("a", price=9), on_topic("a/b", price=9), content({"price": 9})))
    keep(storage, at(-2, 2, on_topic("b", price=7), content({"price": 7}), on_topic("a/b/c", price=7)))
    assert found(storage, question(1, FALLING)) == []
    keep(storage, at(-1, 3, on_topic("a", price=8)))
    assert found(storage, question(1, FALLING)) == [(3, 0)]


def test_what_others_were_given_depends_on_what_came_before_too(storage: DualDB) -> None:
    keep(storage, *(at(-9 + number, number, on_topic("a", price=price)) for number, price in enumerate((5, 4, 6, 2))))
    assert found(storage, question(without=[replace(FALLING, given_from_s=0.0)])) == [(2, 0), (0, 0)]


LATER = "2100-01-01T00:00:00Z"


def test_what_came_before_in_the_same_batch_may_lie_in_another_record(storage: DualDB) -> None:
    """It expires at another time, so it is another record of the same moment."""
    keep(storage, at(-1, 1, on_topic("a", price=10), content({"price": 5}, topic="a", expires=LATER)))
    assert found(storage, question(1, FALLING)) == [(1, 1)]
    keep(storage, at(-0.5, 2, on_topic("a", price=7)))
    assert found(storage, question(1, FALLING)) == [(1, 1)]


def test_of_two_batches_of_one_moment_the_later_one_has_the_other_before_it(storage: DualDB) -> None:
    keep(storage, *(at(-1, sequence, on_topic("a", price=price)) for sequence, price in ((1, 10), (2, 5))))
    assert found(storage, question(1, FALLING)) == [(2, 0)]


def test_very_many_of_one_moment(storage: DualDB) -> None:
    keep(storage, *(at(-1, sequence, on_topic("a", price=100 - sequence)) for sequence in range(1, 41)))
    assert sorted(found(storage, question(1, FALLING))) == [(sequence, 0) for sequence in range(2, 41)]
