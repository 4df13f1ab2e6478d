"""Bitmaps for many programs with ranges at one node.

A block holds up to some thousands of programs. The values of each of its axes are cut into buckets, and each bucket has
a row of bits: which programs of the block may accept a value in it. One more row says which may accept a publication
that has no such value. The rows for the values of a publication, joined by "and", leave the few programs that are worth
verifying.

Programs that have ranges over just the same axes share blocks of their own where there are many of them. All others go
into mixed blocks, whose axes are those that most of its programs have ranges over.

Programs come in columns of 64, one word of every row: to write a word costs the same for 64 programs as for one. What
is removed only loses its bit among the living; a block with little life in it is dissolved.
"""

from typing import Any

import numpy as np
from numba import int64

from braid.matching.engine.kernel import kernel, small_kernel
from braid.matching.engine.key_records import BLOCKS
from braid.matching.engine.key_records import RECORD as KEY_RECORD
from braid.matching.engine.memory import KEYS, SCRATCH, WORDS, integers
from braid.matching.engine.pool import allocate, free
from braid.matching.engine.programs import BLOCK, CONDITIONS, PLACE, SIZE, length_of_condition
from braid.matching.engine.range_axes import AXES_MAX, NO_AXIS, axis_of
from braid.matching.engine.range_cuts import (
    BUCKETS,
    CUTS,
    DEMANDED,
    FROM_ABOVE,
    FROM_BELOW,
    buckets_of,
    cuts_for,
    give_cuts_back,
)
from braid.matching.engine.regions import integers_at
from braid.matching.engine.scratch import AXES, COLUMN_CHANGES

# A block: its head, each axis and the position of its cuts, the programs, the row of the living, and the rows of each
# axis. USED: slots. IN_ORDER: those of them that were filled in order, see `range_sorting`.
NEXT, SIGNATURE, AXIS_COUNT, CAPACITY, LIVE, TOTAL, USED, CROWDED, IN_ORDER, AXES_FIRST = range(10)
MIXED = 2  # the signature of a block for programs of any signature; those of programs are odd
ROWS = BUCKETS + 1
ABSENT = BUCKETS  # the row for publications without a value
CAPACITY_MAX = 16384
COLUMN = 64  # programs
_CROWDED_SHARE = 8  # that an axis is demanded by at least one in so many programs of a column, before it can be crowded


@small_kernel
def axis_at(t: Any, block: int, place: int) -> int:
    return integers(t, WORDS)[block + AXES_FIRST + 2 * place]


@small_kernel
def cuts_at(t: Any, block: int, place: int) -> int:
    return integers(t, WORDS)[block + AXES_FIRST + 2 * place + 1]


@small_kernel
def slots_of(t: Any, block: int) -> int:
    return block + AXES_FIRST + 2 * integers(t, WORDS)[block + AXIS_COUNT]


@small_kernel
def alive_of(t: Any, block: int) -> int:
    return slots_of(t, block) + integers(t, WORDS)[block + CAPACITY]


@small_kernel
def rows_of(t: Any, block: int, place: int) -> int:
    """Where the rows of the block's axis at this place begin."""
    width = integers(t, WORDS)[block + CAPACITY] >> 6
    return alive_of(t, block) + width + place * ROWS * width


@kernel
def make_block(t: Any, node: int, sign: int, capacity: int, programs: Any, count: int) -> int:
    """An empty block over the axes in the scratch region, with cuts for these programs."""
    words, scratch, keys = integers(t, WORDS), integers(t, SCRATCH), integers(t, KEYS)
    axes = scratch[AXES]
    width = capacity >> 6
    total = AXES_FIRST + 2 * axes + capacity + width + axes * ROWS * width
    block = allocate(t, total)
    for i in range(total):
        words[block + i] = 0
    words[block + SIGNATURE] = sign
    words[block + AXIS_COUNT] = axes
    words[block + CAPACITY] = capacity
    words[block + TOTAL] = total
    for place in range(axes):
        axis = scratch[AXES + 1 + place]
        words[block + AXES_FIRST + 2 * place] = axis
        words[block + AXES_FIRST + 2 * place + 1] = cuts_for(t, axis, programs, count)
    words[block + NEXT] = keys[node * KEY_RECORD + BLOCKS]
    keys[node * KEY_RECORD + BLOCKS] = block
    return block


@kernel
def insert_column(t: Any, block: int, programs: Any, first: int, count: int) -> None:
    """Up to 64 programs, from place `first` of the list on. The block has room for a column."""
    words = integers(t, WORDS)
    column = words[block + USED] >> 6
    width = words[block + CAPACITY] >> 6
    changes = integers_at(t[SCRATCH] + 8 * COLUMN_CHANGES)
    crowded = words[block + SIGNATURE] == MIXED and _are_strange(t, block, programs, first, count)
    for place in range(words[block + AXIS_COUNT]):
        axis, cuts = axis_at(t, block, place), cuts_at(t, block, place)
        for row in range(ROWS):
            changes[row] = 0
        absent = np.int64(0)
        demanded, behind, before = 0, 0, 0
        for i in range(count):
            begin, end, bounded = buckets_of(t, programs[first + i], axis, cuts)
            if begin <= end:
                # Where the row of a bucket begins to hold the program, and where it no longer does.
                changes[begin] ^= np.int64(1) << i
                changes[end + 1] ^= np.int64(1) << i
            if bounded & DEMANDED:
                demanded += 1
                behind += begin == CUTS and bounded & FROM_BELOW != 0
                before += end == 0 and bounded & FROM_ABOVE != 0
            else:
                absent |= np.int64(1) << i
        crowded |= _CROWDED_SHARE * demanded >= count and 4 * max(behind, before) > 3 * demanded
        row, held = rows_of(t, block, place) + column, np.int64(0)
        for i in range(BUCKETS):
            held ^= changes[i]
            words[row + i * width] = held
        words[row + ABSENT * width] = absent
    slots = slots_of(t, block) + column * COLUMN
    for i in range(count):
        program = programs[first + i]
        words[slots + i] = program
        words[program + BLOCK] = block
        words[program + PLACE] = column * COLUMN + i
    words[alive_of(t, block) + column] = -1 if count == COLUMN else (np.int64(1) << count) - 1
    words[block + LIVE] += count
    words[block + USED] += COLUMN
    words[block + CROWDED] += int64(crowded)


@kernel
def _are_strange(t: Any, block: int, programs: Any, first: int, count: int) -> bool:
    """Whether most of these programs have ranges over axes that the block could have and has not."""
    words = integers(t, WORDS)
    if words[block + AXIS_COUNT] == AXES_MAX:
        return False
    strange = 0
    for i in range(first, first + count):
        at, end = programs[i] + CONDITIONS, programs[i] + words[programs[i] + SIZE]
        while at < end:
            axis = axis_of(words[at])
            if axis != NO_AXIS and not _has_axis(t, block, axis):
                strange += 1
                break
            at += length_of_condition(words[at])
    return 2 * strange > count


@small_kernel
def _has_axis(t: Any, block: int, axis: int) -> bool:
    place = integers(t, WORDS)[block + AXIS_COUNT] - 1
    while place >= 0 and axis_at(t, block, place) != axis:
        place -= 1
    return place >= 0


@kernel
def remove(t: Any, node: int, program: int) -> int:
    """Returns the block when it has become too empty to keep, else 0."""
    words = integers(t, WORDS)
    block, slot = words[program + BLOCK], words[program + PLACE]
    words[slots_of(t, block) + slot] = 0
    words[alive_of(t, block) + (slot >> 6)] &= ~(np.int64(1) << (slot & 63))
    words[block + LIVE] -= 1
    words[program + BLOCK] = 0
    if words[block + LIVE] == 0:
        unlink(t, node, block)
        return 0
    return block if 4 * words[block + LIVE] < words[block + USED] else 0


@kernel
def reopen(t: Any, block: int, programs: Any, count: int) -> int:
    """Takes the last column away if it is not full; its programs go behind the first `count` of the list.

    Returns how many the list holds then. So all columns but the last are full, but for what was removed.
    """
    words = integers(t, WORDS)
    if words[block + USED] == 0:
        return count
    column = (words[block + USED] >> 6) - 1
    alive = alive_of(t, block) + column
    if words[alive] == -1:
        return count
    slots = slots_of(t, block) + column * COLUMN
    for i in range(COLUMN):
        if words[slots + i] != 0:
            programs[count] = words[slots + i]
            words[slots + i] = 0
            words[block + LIVE] -= 1
            count += 1
    words[alive] = 0
    words[block + USED] -= COLUMN
    return count


@kernel
def used_when_reopened(t: Any, block: int) -> int:
    """How many slots are used when those of the last column are not counted that can be filled up."""
    words = integers(t, WORDS)
    used = words[block + USED]
    if used == 0 or words[alive_of(t, block) + (used >> 6) - 1] == -1:
        return used
    free_slots = 0
    for slot in range(used - COLUMN, used):
        free_slots += words[slots_of(t, block) + slot] == 0
    return used - free_slots


@kernel
def living(t: Any, block: int, programs: Any) -> int:
    """Lists the programs of the block; returns how many there are."""
    words = integers(t, WORDS)
    slots = slots_of(t, block)
    count = 0
    for slot in range(words[block + USED]):
        if words[slots + slot] != 0:
            programs[count] = words[slots + slot]
            count += 1
    return count


@kernel
def find_block(t: Any, node: int, sign: int) -> int:
    """A block of this signature, with room if there is one, else the smallest; 0 when there is none."""
    words = integers(t, WORDS)
    found = 0
    block = integers(t, KEYS)[node * KEY_RECORD + BLOCKS]
    while block != 0:
        if words[block + SIGNATURE] == sign:
            if found == 0 or words[block + CAPACITY] < words[found + CAPACITY]:
                found = block
            if words[block + USED] < words[block + CAPACITY]:
                return block
        block = words[block + NEXT]
    return found


@kernel
def unlink(t: Any, node: int, block: int) -> None:
    words, keys = integers(t, WORDS), integers(t, KEYS)
    if keys[node * KEY_RECORD + BLOCKS] == block:
        keys[node * KEY_RECORD + BLOCKS] = words[block + NEXT]
    else:
        before = keys[node * KEY_RECORD + BLOCKS]
        while words[before + NEXT] != block:
            before = words[before + NEXT]
        words[before + NEXT] = words[block + NEXT]
    for place in range(words[block + AXIS_COUNT]):
        give_cuts_back(t, axis_at(t, block, place), cuts_at(t, block, place))
    free(t, block, words[block + TOTAL])
