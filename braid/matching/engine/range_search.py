"""Searches the blocks of ranges of a node."""

from typing import Any

from numba import int64, uint64

from braid.matching.engine import attributes as attribute
from braid.matching.engine import ranges
from braid.matching.engine.counts import CANDIDATES, STAMP
from braid.matching.engine.kernel import kernel, prefetch, small_kernel, trailing_zeros
from braid.matching.engine.memory import ATTRIBUTES, COUNTS, SCRATCH, WORDS, floats, integers
from braid.matching.engine.range_axes import OF_TEXTS
from braid.matching.engine.range_cuts import BUCKETS, bucket_of_number
from braid.matching.engine.regions import integers_at
from braid.matching.engine.reporting import report
from braid.matching.engine.scratch import COLUMNS_LEFT, JOINED_ROWS, PROGRAMS_LEFT, ROWS_TO_JOIN
from braid.matching.engine.text_order import bucket_of_text
from braid.matching.engine.verifying import accepts


@kernel
def search_blocks(
    t: Any, event: int, node: int, block: int, matched: int, pending: int, now_s: float
) -> tuple[int, int]:
    words, counts = integers(t, WORDS), integers(t, COUNTS)
    programs = integers_at(t[SCRATCH] + 8 * PROGRAMS_LEFT)
    while block != 0:
        count = _programs_left(t, block)
        for i in range(count):
            if accepts(t, programs[i]):
                matched, pending = report(t, event, programs[i], matched, pending, now_s)
        counts[CANDIDATES] += count
        block = words[block + ranges.NEXT]
    return matched, pending


@small_kernel
def _programs_left(t: Any, block: int) -> int:
    """Puts the programs of the block that no row rules out into the scratch region, and has them fetched."""
    words, programs = integers(t, WORDS), integers_at(t[SCRATCH] + 8 * PROGRAMS_LEFT)
    joined, left = integers_at(t[SCRATCH] + 8 * JOINED_ROWS), integers_at(t[SCRATCH] + 8 * COLUMNS_LEFT)
    slots = ranges.slots_of(t, block)
    count = 0
    for i in range(_join_rows(t, block)):
        rest = uint64(joined[i])
        while rest != 0:
            program = words[slots + 64 * left[i] + int64(trailing_zeros(rest))]
            rest &= rest - uint64(1)
            prefetch(t[WORDS] + 8 * program)
            prefetch(t[WORDS] + 8 * program + 64)
            programs[count] = program
            count += 1
    return count


@kernel
def _join_rows(t: Any, block: int) -> int:
    """Puts the columns of the block in which no row rules out all programs, and which ones are left in each, into the
    scratch region; returns how many."""
    words, stamp = integers(t, WORDS), integers(t, COUNTS)[STAMP]
    count, width = words[block + ranges.AXIS_COUNT], words[block + ranges.USED] >> 6
    if words[block + ranges.SIGNATURE] != ranges.MIXED:
        for place in range(count):
            if not _has_value(t, ranges.axis_at(t, block, place), stamp):
                return 0
    joined, left = integers_at(t[SCRATCH] + 8 * JOINED_ROWS), integers_at(t[SCRATCH] + 8 * COLUMNS_LEFT)
    alive, row = integers_at(t[WORDS] + 8 * ranges.alive_of(t, block)), integers_at(_row(t, block, 0, stamp))
    for i in range(width):
        joined[i] = alive[i] & row[i]
    columns = 0
    for i in range(width):
        left[columns] = i
        columns += joined[i] != 0
    if 2 * columns > width:
        for i in range(width):
            left[i] = i
        for place in range(1, count):
            row = integers_at(_row(t, block, place, stamp))
            for i in range(width):
                joined[i] &= row[i]
        return width
    for i in range(columns):
        joined[i] = joined[left[i]]
    _join_few(t, block, count, columns)
    return columns


@small_kernel
def _join_few(t: Any, block: int, count: int, columns: int) -> None:
    """The rows of all axes but the first, only in the columns that it has left."""
    stamp = integers(t, COUNTS)[STAMP]
    joined, left = integers_at(t[SCRATCH] + 8 * JOINED_ROWS), integers_at(t[SCRATCH] + 8 * COLUMNS_LEFT)
    rows = integers_at(t[SCRATCH] + 8 * ROWS_TO_JOIN)
    # Each row lies elsewhere, so all of them are fetched at once.
    for place in range(1, count):
        rows[place] = _row(t, block, place, stamp)
        prefetch(rows[place] + 8 * left[0])
    for place in range(1, count):
        row = integers_at(rows[place])
        for i in range(columns):
            joined[i] &= row[left[i]]


@small_kernel
def _has_value(t: Any, axis: int, stamp: int) -> bool:
    at = (axis >> 1) * attribute.RECORD + (attribute.TEXT_STAMP if axis & OF_TEXTS else attribute.STAMP)
    has: bool = integers(t, ATTRIBUTES)[at] == stamp
    return has


@small_kernel
def _row(t: Any, block: int, place: int, stamp: int) -> int:
    """The address of that row of an axis which is for the value of the publication."""
    words = integers(t, WORDS)
    axis, cuts = ranges.axis_at(t, block, place), ranges.cuts_at(t, block, place)
    at = (axis >> 1) * attribute.RECORD
    if not _has_value(t, axis, stamp):
        row = ranges.ABSENT
    elif axis & OF_TEXTS:
        texts = integers(t, ATTRIBUTES)
        begin, end = texts[at + attribute.TEXT_BEGIN], texts[at + attribute.TEXT_END]
        row = bucket_of_text(t[WORDS] + 8 * cuts, BUCKETS, begin, end)
    else:
        row = _bucket(t, at, cuts, stamp)
    address: int = t[WORDS] + 8 * (ranges.rows_of(t, block, place) + row * (words[block + ranges.CAPACITY] >> 6))
    return address


@small_kernel
def _bucket(t: Any, at: int, cuts: int, stamp: int) -> int:
    """Of the number that the publication has for the attribute with the record `at`."""
    attributes = integers(t, ATTRIBUTES)
    if attributes[at + attribute.CUTS] != cuts:
        return bucket_of_number(t, cuts, floats(t, ATTRIBUTES)[at + attribute.LOW])
    if attributes[at + attribute.BUCKET_STAMP] != stamp:
        attributes[at + attribute.BUCKET_STAMP] = stamp
        attributes[at + attribute.BUCKET] = bucket_of_number(t, cuts, floats(t, ATTRIBUTES)[at + attribute.LOW])
    return attributes[at + attribute.BUCKET]
