"""The sizes that blocks of the pool come in."""

from typing import Any

from braid.matching.engine import pool
from braid.matching.engine.counts import COUNTS_WORDS, FREE_FIRST, TILE_KEYS_FIRST
from braid.matching.engine.memory import WORDS_MAX

size_class: Any = pool.size_class.py_func  # type: ignore[attr-defined]  # what numba compiled
size_of_class: Any = pool.size_of_class.py_func  # type: ignore[attr-defined]  # what numba compiled

SIZES = [*range(1, 5_000), *(1 << bits for bits in range(13, 31)), *((1 << bits) + 1 for bits in range(13, 31))]


def test_a_block_is_large_enough_and_no_smaller_one_is() -> None:
    for size in SIZES:
        place = size_class(size)
        assert size_of_class(place - 1) < size <= size_of_class(place)


def test_at_most_a_fifth_is_idle() -> None:
    for size in SIZES:
        taken = size_of_class(size_class(size))
        assert taken - size <= max(1, taken / 5)


def test_a_block_returns_to_the_class_that_it_came_from() -> None:
    for place in range(1, 110):
        assert size_class(size_of_class(place)) == place


def test_there_is_a_list_for_every_class() -> None:
    assert FREE_FIRST + size_class(WORDS_MAX) < TILE_KEYS_FIRST < COUNTS_WORDS
