"""Bitmaps for many programs with ranges over the same attributes under one anchor.

A block holds up to some thousands of such programs. The values of each attribute are cut into buckets, and each bucket
has a row of bits: which programs of the block may accept a value in it. The rows of a publication's values, joined by
"and", leave the few programs that are worth verifying.

Programs come in columns of 64, one word of every row: to write a word costs the same for 64 programs as for one. What
is removed only loses its bit among the living; a block with little life in it is dissolved.
"""

from typing import Any

import numpy as np
from numba import int64, uint64

from braid.matching.engine.conditions import OUTSIDE, WITHIN
from braid.matching.engine.hashing import mix
from braid.matching.engine.kernel import kernel, small_kernel
from braid.matching.engine.keys import BLOCKS
from braid.matching.engine.keys import RECORD as KEY_RECORD
from braid.matching.engine.memory import KEYS, SCRATCH, WORDS, floats, integers
from braid.matching.engine.pool import allocate, free
from braid.matching.engine.programs import BLOCK, CONDITIONS, PLACE, SIZE, length_of_condition
from braid.matching.engine.regions import integers_at
from braid.matching.engine.scratch import BLOCK_PROGRAMS, COLUMN_CHANGES, ENDPOINTS
from braid.matching.engine.scratch import SIGNATURE as SIGNATURE_AT

# A block: its head, then the cuts, the programs, the row of the living, and the rows of each attribute.
NEXT, SIGNATURE, ATTRIBUTE_COUNT, CAPACITY, LIVE, TOTAL, USED, CROWDED, ATTRIBUTES_FIRST = range(9)  # USED: slots
ATTRIBUTES_MAX = 6  # ranges on further attributes are only verified
HEAD = ATTRIBUTES_FIRST + ATTRIBUTES_MAX + 1
BUCKETS = 64
CUTS = BUCKETS - 1
_CROWDED_MAX = 4  # columns that came to lie mostly before or behind all cuts before others are made
CAPACITY_FIRST, CAPACITY_MAX = 256, 16384
_POINTS_MAX = 4096  # endpoints that the cuts are made from
COLUMN = 64  # programs


@kernel
def signature(t: Any, program: int) -> int:
    """A number for the set of attributes the program has ranges on, 0 without any.

    The attributes themselves are left in the scratch region, in order, behind their number.
    """
    words, scratch = integers(t, WORDS), integers(t, SCRATCH)
    count = 0
    at, end = program + CONDITIONS, program + words[program + SIZE]
    while at < end:
        word = words[at]
        if word & 7 == WITHIN and not word >> 3 & OUTSIDE:
            attribute = word >> 6
            place = 0
            while place < count and scratch[SIGNATURE_AT + 1 + place] < attribute:
                place += 1
            known = place < count and scratch[SIGNATURE_AT + 1 + place] == attribute
            if not known and count < ATTRIBUTES_MAX:
                for i in range(count, place, -1):
                    scratch[SIGNATURE_AT + 1 + i] = scratch[SIGNATURE_AT + i]
                scratch[SIGNATURE_AT + 1 + place] = attribute
                count += 1
        at += length_of_condition(word)
    scratch[SIGNATURE_AT] = count
    if count == 0:
        return 0
    hash = np.uint64(0)
    for i in range(count):
        hash = mix(hash ^ np.uint64(scratch[SIGNATURE_AT + 1 + i]))
    sign: int = int64(hash | uint64(1))
    return sign


@small_kernel
def cuts_of(block: int) -> int:
    return block + HEAD


@small_kernel
def slots_of(t: Any, block: int) -> int:
    return block + HEAD + CUTS * integers(t, WORDS)[block + ATTRIBUTE_COUNT]


@small_kernel
def alive_of(t: Any, block: int) -> int:
    return slots_of(t, block) + integers(t, WORDS)[block + CAPACITY]


@small_kernel
def rows_of(t: Any, block: int, place: int) -> int:
    """Where the rows of the block's attribute at this place begin."""
    width = integers(t, WORDS)[block + CAPACITY] >> 6
    return alive_of(t, block) + width + place * BUCKETS * width


@small_kernel
def bucket(t: Any, cuts: int, value: float) -> int:
    """How many cuts are at most this value."""
    numbers = floats(t, WORDS)
    low = 0
    step = BUCKETS >> 1
    while step > 0:
        if numbers[cuts + low + step - 1] <= value:
            low += step
        step >>= 1
    return low


@kernel
def bounds(t: Any, program: int, attribute: int) -> tuple[float, float]:
    """The range that all the program's conditions on this attribute leave."""
    words, numbers = integers(t, WORDS), floats(t, WORDS)
    low, high = -np.inf, np.inf
    at, end = program + CONDITIONS, program + words[program + SIZE]
    while at < end:
        word = words[at]
        if word & 7 == WITHIN and word >> 6 == attribute and not word >> 3 & OUTSIDE:
            low = max(low, numbers[at + 1])
            high = min(high, numbers[at + 2])
        at += length_of_condition(word)
    return low, high


@kernel
def make_block(t: Any, node: int, sign: int, program: int, capacity: int) -> int:
    """An empty block for programs with ranges on the same attributes as this one."""
    words, scratch, keys = integers(t, WORDS), integers(t, SCRATCH), integers(t, KEYS)
    signature(t, program)
    count = scratch[SIGNATURE_AT]
    width = capacity >> 6
    total = HEAD + count * CUTS + capacity + width + count * BUCKETS * width
    block = allocate(t, total)
    for i in range(total):
        words[block + i] = 0
    words[block + SIGNATURE] = sign
    words[block + ATTRIBUTE_COUNT] = count
    words[block + CAPACITY] = capacity
    words[block + TOTAL] = total
    for place in range(count):
        words[block + ATTRIBUTES_FIRST + place] = scratch[SIGNATURE_AT + 1 + place]
    words[block + NEXT] = keys[node * KEY_RECORD + BLOCKS]
    keys[node * KEY_RECORD + BLOCKS] = block
    return block


@kernel
def _set_cuts(t: Any, block: int, place: int, count: int) -> None:
    """Cuts so that about as many of the endpoints, `count` floats in the scratch region, fall between any two."""
    numbers, scratch = floats(t, WORDS), floats(t, SCRATCH)
    # Shell's sort: short, in place, and fast enough for what happens once in thousands of changes.
    gap = count // 2
    while gap > 0:
        for i in range(gap, count):
            point = scratch[ENDPOINTS + i]
            hole = i
            while hole >= gap and scratch[ENDPOINTS + hole - gap] > point:
                scratch[ENDPOINTS + hole] = scratch[ENDPOINTS + hole - gap]
                hole -= gap
            scratch[ENDPOINTS + hole] = point
        gap //= 2
    cuts = cuts_of(block) + place * CUTS
    for i in range(CUTS):
        numbers[cuts + i] = np.inf if count == 0 else scratch[ENDPOINTS + (i + 1) * count // BUCKETS]


@kernel
def insert_column(t: Any, block: int, programs: Any, first: int, count: int) -> None:
    """Up to 64 programs, from place `first` of the list on. The block has room for a column."""
    words = integers(t, WORDS)
    column = words[block + USED] >> 6
    width = words[block + CAPACITY] >> 6
    changes = integers_at(t[SCRATCH] + 8 * COLUMN_CHANGES)
    crowded = False
    for place in range(words[block + ATTRIBUTE_COUNT]):
        attribute, cuts = words[block + ATTRIBUTES_FIRST + place], cuts_of(block) + place * CUTS
        for row in range(BUCKETS + 1):
            changes[row] = 0
        behind, before = 0, 0
        for i in range(count):
            low, high = bounds(t, programs[first + i], attribute)
            if low <= high:
                begin, end = bucket(t, cuts, low), bucket(t, cuts, high)
                # Where the row of a bucket begins to hold the program, and where it no longer does.
                changes[begin] ^= np.int64(1) << i
                changes[end + 1] ^= np.int64(1) << i
                behind += begin == CUTS and low > -np.inf
                before += end == 0 and high < np.inf
        crowded |= 4 * max(behind, before) > 3 * count
        row, held = rows_of(t, block, place) + column, np.int64(0)
        for i in range(BUCKETS):
            held ^= changes[i]
            words[row + i * width] = held
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
    free(t, block, words[block + TOTAL])


@kernel
def block_with_room(t: Any, node: int, sign: int, programs: Any, count: int) -> int:
    """A block for a column of these programs, which all have the signature: one with room, one made anew, or a new one.

    Cuts are made from the programs that go into a block when it is made.
    """
    words = integers(t, WORDS)
    block = find_block(t, node, sign)
    if block != 0 and words[block + LIVE] == 0:
        # Its only column was taken away to be filled up.
        unlink(t, node, block)
        block = 0
    if block == 0:
        return _make_with(t, node, sign, CAPACITY_FIRST, programs, count)
    capacity = words[block + CAPACITY]
    if words[block + USED] < capacity:
        if words[block + CROWDED] < _CROWDED_MAX:
            return block
    elif 2 * words[block + LIVE] >= capacity:
        if capacity == CAPACITY_MAX:
            return _make_with(t, node, sign, CAPACITY_FIRST, programs, count)
        capacity *= 4
    held = integers_at(t[SCRATCH] + 8 * BLOCK_PROGRAMS)
    taken = living(t, block, held)
    unlink(t, node, block)
    anew = _make_with(t, node, sign, capacity, held, taken)
    for first in range(0, taken, COLUMN):
        insert_column(t, anew, held, first, min(COLUMN, taken - first))
    # Where other cuts do not help, they are not tried again soon.
    columns = words[anew + USED] >> 6
    words[anew + CROWDED] = -columns if 2 * words[anew + CROWDED] > columns else 0
    return anew


@kernel
def _make_with(t: Any, node: int, sign: int, capacity: int, programs: Any, count: int) -> int:
    """An empty block with cuts for these programs."""
    block = make_block(t, node, sign, programs[0], capacity)
    _fit_cuts(t, block, programs, count)
    return block


@kernel
def _fit_cuts(t: Any, block: int, programs: Any, count: int) -> None:
    """Cuts from the endpoints of these programs."""
    words, scratch = integers(t, WORDS), floats(t, SCRATCH)
    for place in range(words[block + ATTRIBUTE_COUNT]):
        points = 0
        for i in range(0, count, 1 + 2 * count // _POINTS_MAX):
            low, high = bounds(t, programs[i], words[block + ATTRIBUTES_FIRST + place])
            if low > -np.inf:
                scratch[ENDPOINTS + points] = low
                points += 1
            if high < np.inf:
                scratch[ENDPOINTS + points] = high
                points += 1
        _set_cuts(t, block, place, points)
