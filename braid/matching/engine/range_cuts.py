"""Cuts: where the values of an axis are cut into buckets, so that about as many ends of ranges fall into each.

Cuts of numbers are floats. Cuts of texts are the first words of texts, so texts that begin alike are cut as well as any
others, unless they begin alike for longer than a cut is.
"""

from typing import Any

import numpy as np
from numba import int64

from braid.matching.engine import attributes as attribute
from braid.matching.engine.conditions import text_range
from braid.matching.engine.kernel import kernel, small_kernel
from braid.matching.engine.memory import ATTRIBUTES, SCRATCH, WORDS, floats, integers
from braid.matching.engine.pool import allocate, free
from braid.matching.engine.programs import CONDITIONS, SIZE, length_of_condition
from braid.matching.engine.range_axes import OF_TEXTS, axis_of
from braid.matching.engine.regions import integers_at
from braid.matching.engine.scratch import COLUMN_CHANGES, ENDPOINTS
from braid.matching.engine.text_order import CUT_WORDS, bucket_of_text, compare_texts, cut_word

BUCKETS = 64
CUTS = BUCKETS - 1
_POINTS_MAX = 4096  # endpoints that cuts of numbers are made from
_TEXT_POINTS_MAX = 1024  # and those of texts
_UNEVEN_MAX, _UNEVEN_FEW = 3, 4  # how much more than its share a bucket may hold: times so many, and so many more

# What ranges a program has over an axis, in bits.
DEMANDED, FROM_BELOW, FROM_ABOVE = 1, 2, 4  # some range; a lower bound; an upper bound


@small_kernel
def words_of_cuts(axis: int) -> int:
    return CUTS * CUT_WORDS if axis & OF_TEXTS else CUTS


@small_kernel
def bucket_of_number(t: Any, cuts: int, value: float) -> int:
    """How many cuts are at most this value."""
    numbers = floats(t, WORDS)
    low = 0
    step = BUCKETS >> 1
    while step > 0:
        low += step * int64(numbers[cuts + low + step - 1] <= value)  # without a branch that nobody can foresee
        step >>= 1
    return low


@kernel
def buckets_of(t: Any, program: int, axis: int, cuts: int) -> tuple[int, int, int]:
    """The first and last bucket in which the program may accept a value, and what ranges it has over the axis."""
    words, numbers = integers(t, WORDS), floats(t, WORDS)
    first, last, bounded = 0, CUTS, 0
    at, end = program + CONDITIONS, program + words[program + SIZE]
    while at < end:
        if axis_of(words[at]) == axis:
            bounded |= DEMANDED
            if axis & OF_TEXTS:
                low, low_end, high, high_end = text_range(t[WORDS] + 8 * at, words[at + 1])
                if low_end > low:
                    first = max(first, bucket_of_text(t[WORDS] + 8 * cuts, BUCKETS, low, low_end))
                    bounded |= FROM_BELOW
                if high_end >= high:
                    last = min(last, bucket_of_text(t[WORDS] + 8 * cuts, BUCKETS, high, high_end))
                    bounded |= FROM_ABOVE
            else:
                first = max(first, bucket_of_number(t, cuts, numbers[at + 1]))
                last = min(last, bucket_of_number(t, cuts, numbers[at + 2]))
                bounded |= FROM_BELOW if numbers[at + 1] > -np.inf else 0
                bounded |= FROM_ABOVE if numbers[at + 2] < np.inf else 0
        at += length_of_condition(words[at])
    return first, last, bounded


@kernel
def cuts_for(t: Any, axis: int, programs: Any, count: int) -> int:
    """Where cuts stand that suit the ranges that these programs have over the axis; see `give_cuts_back`.

    Those of numbers are shared with other blocks where they suit both, so that a publication looks for its bucket once.
    """
    words, attributes = integers(t, WORDS), integers(t, ATTRIBUTES)
    if axis & OF_TEXTS:
        cuts = allocate(t, 1 + words_of_cuts(axis)) + 1
        words[cuts - 1] = 1
        _fit_cuts_of_texts(t, axis, cuts, programs, count)
        return cuts
    shared = (axis >> 1) * attribute.RECORD + attribute.CUTS
    points = _ends_of_numbers(t, axis, programs, count)
    if attributes[shared] != 0:
        if _suit(t, attributes[shared], points):
            words[attributes[shared] - 1] += 1
            return attributes[shared]
        give_cuts_back(t, axis, attributes[shared])
    cuts = allocate(t, attribute.SHARED_CUTS_WORDS) + 1
    words[cuts - 1] = 2
    attributes[shared] = cuts
    attributes[(axis >> 1) * attribute.RECORD + attribute.BUCKET_STAMP] = 0
    _fit_cuts_of_numbers(t, cuts, points)
    return cuts


@kernel
def give_cuts_back(t: Any, axis: int, cuts: int) -> None:
    words = integers(t, WORDS)
    words[cuts - 1] -= 1
    if words[cuts - 1] == 0:
        free(t, cuts - 1, 1 + words_of_cuts(axis))


@kernel
def _suit(t: Any, cuts: int, points: int) -> bool:
    """Whether no bucket holds many more than its share of these ends of ranges."""
    ends, held = floats(t, SCRATCH), integers_at(t[SCRATCH] + 8 * COLUMN_CHANGES)
    for bucket in range(BUCKETS):
        held[bucket] = 0
    fullest = 0
    for i in range(points):
        bucket = bucket_of_number(t, cuts, ends[ENDPOINTS + i])
        held[bucket] += 1
        fullest = max(fullest, held[bucket])
    return fullest <= _UNEVEN_MAX * points // BUCKETS + _UNEVEN_FEW


@kernel
def _ends_of_numbers(t: Any, axis: int, programs: Any, count: int) -> int:
    """Puts ends of the programs' ranges over the axis into the scratch region; returns how many."""
    words, numbers, points = integers(t, WORDS), floats(t, WORDS), floats(t, SCRATCH)
    found = 0
    for i in range(0, count, 1 + 2 * count // _POINTS_MAX):
        at, end = programs[i] + CONDITIONS, programs[i] + words[programs[i] + SIZE]
        while at < end and found + 2 <= _POINTS_MAX:
            if axis_of(words[at]) == axis:
                for bound in range(at + 1, at + 3):
                    if abs(numbers[bound]) < np.inf:
                        points[ENDPOINTS + found] = numbers[bound]
                        found += 1
            at += length_of_condition(words[at])
    return found


@kernel
def _fit_cuts_of_numbers(t: Any, cuts: int, found: int) -> None:
    numbers, points = floats(t, WORDS), floats(t, SCRATCH)
    # Shell's sort: short, in place, and fast enough for what happens once in thousands of changes.
    gap = found // 2
    while gap > 0:
        for i in range(gap, found):
            point = points[ENDPOINTS + i]
            hole = i
            while hole >= gap and points[ENDPOINTS + hole - gap] > point:
                points[ENDPOINTS + hole] = points[ENDPOINTS + hole - gap]
                hole -= gap
            points[ENDPOINTS + hole] = point
        gap //= 2
    for i in range(CUTS):
        numbers[cuts + i] = np.inf if found == 0 else points[ENDPOINTS + (i + 1) * found // BUCKETS]


@kernel
def _fit_cuts_of_texts(t: Any, axis: int, cuts: int, programs: Any, count: int) -> None:
    words, points = integers(t, WORDS), integers(t, SCRATCH)
    found = 0  # pairs of addresses: where an endpoint begins and ends
    for i in range(0, count, 1 + 2 * count // _TEXT_POINTS_MAX):
        at, end = programs[i] + CONDITIONS, programs[i] + words[programs[i] + SIZE]
        while at < end and found + 2 <= _TEXT_POINTS_MAX:
            if axis_of(words[at]) == axis:
                low, low_end, high, high_end = text_range(t[WORDS] + 8 * at, words[at + 1])
                if low_end > low:
                    points[ENDPOINTS + 2 * found] = low
                    points[ENDPOINTS + 2 * found + 1] = low_end
                    found += 1
                if high_end > high:
                    points[ENDPOINTS + 2 * found] = high
                    points[ENDPOINTS + 2 * found + 1] = high_end
                    found += 1
            at += length_of_condition(words[at])
    gap = found // 2
    while gap > 0:
        for i in range(gap, found):
            begin, end = points[ENDPOINTS + 2 * i], points[ENDPOINTS + 2 * i + 1]
            hole = i
            while hole >= gap and _comes_later(points, hole - gap, begin, end):
                points[ENDPOINTS + 2 * hole] = points[ENDPOINTS + 2 * (hole - gap)]
                points[ENDPOINTS + 2 * hole + 1] = points[ENDPOINTS + 2 * (hole - gap) + 1]
                hole -= gap
            points[ENDPOINTS + 2 * hole] = begin
            points[ENDPOINTS + 2 * hole + 1] = end
        gap //= 2
    for i in range(CUTS):
        point = ENDPOINTS + 2 * ((i + 1) * found // BUCKETS)
        for word in range(CUT_WORDS):
            # Behind every text, where there is nothing to cut.
            cut = -1 if found == 0 else int64(cut_word(points[point], points[point + 1], word))
            words[cuts + i * CUT_WORDS + word] = cut


@small_kernel
def _comes_later(points: Any, place: int, begin: int, end: int) -> bool:
    at = ENDPOINTS + 2 * place
    return compare_texts(points[at], points[at + 1], begin, end) > 0
