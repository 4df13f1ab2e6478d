"""Gathers the programs with ranges that have come together in the list of a node into blocks.

Blocks for one signature search the fastest, but each costs some time of its own. So only a signature that many programs
of the node have gets blocks of its own; all other programs go into mixed blocks. A mixed block that is full goes back
into the list and is gathered anew, so that signatures which have become frequent leave it.
"""

from typing import Any

from braid.matching.engine import ranges
from braid.matching.engine.kernel import kernel, small_kernel
from braid.matching.engine.key_records import LIST, RECORD
from braid.matching.engine.memory import KEYS, SCRATCH, WORDS, integers
from braid.matching.engine.node_lists import dissolve, listed, take_from_node
from braid.matching.engine.pool import LIST_FIRST
from braid.matching.engine.range_axes import choose_axes, signature
from braid.matching.engine.range_sorting import sort_for
from braid.matching.engine.regions import integers_at
from braid.matching.engine.scratch import (
    AXES,
    BLOCK_PROGRAMS,
    SPLIT_LISTED,
    SPLIT_PROGRAMS,
    SPLIT_SIGNATURES,
    SPLIT_SKETCH,
)

_SKETCH = 1 << 14
_SIGNATURES_AT_ONCE = 64  # that are looked at in one list; programs of the others go into mixed blocks
_SHARE_MIN = 16  # one in so many programs of a node must have a signature that gets blocks of its own
_MANY = 1024  # programs, which are enough whatever their share is
_CAPACITY_FIRST, _MIXED_CAPACITY_FIRST = 256, 128
_MESS_MAX = 512  # slots that may be filled out of order, or a quarter of those in order if that is more
_CROWDED_MAX = 4  # columns that came to lie mostly before or behind all cuts before others are made


@kernel
def gather_ranges(t: Any, node: int) -> None:
    """What cannot be gathered stays in the list."""
    keys, words = integers(t, KEYS), integers(t, WORDS)
    _reopen_mixed_block(t, node)
    block, count = keys[node * RECORD + LIST], listed(t, node)
    if block <= 0:
        return
    programs, signs = integers_at(t[SCRATCH] + 8 * SPLIT_LISTED), integers_at(t[SCRATCH] + 8 * SPLIT_SIGNATURES)
    sketch = integers_at(t[SCRATCH] + 8 * SPLIT_SKETCH)
    for i in range(_SKETCH):
        sketch[i] = 0
    for i in range(count):
        programs[i] = words[block + LIST_FIRST + i]
        signs[i] = signature(t, programs[i])
        sketch[signs[i] >> 32 & (_SKETCH - 1)] += 1
    looked = 0
    for i in range(count):
        if signs[i] != 0 and looked < _SIGNATURES_AT_ONCE:
            begun = ranges.find_block(t, node, signs[i])
            if begun != 0 or sketch[signs[i] >> 32 & (_SKETCH - 1)] >= _fewest(count):
                looked += 1
                _gather_signature(t, node, signs[i], begun, i, count)
    _gather_mixed(t, node, count)


@small_kernel
def _fewest(count: int) -> int:
    """How many of so many programs must have a signature that gets blocks of its own."""
    return max(ranges.COLUMN, min(_MANY, count // _SHARE_MIN))


@kernel
def _gather_signature(t: Any, node: int, sign: int, begun: int, first: int, count: int) -> None:
    """Programs of this signature among those listed from `first` on; `begun` is a block of theirs, if there is one."""
    programs, signs = integers_at(t[SCRATCH] + 8 * SPLIT_LISTED), integers_at(t[SCRATCH] + 8 * SPLIT_SIGNATURES)
    alike = integers_at(t[SCRATCH] + 8 * SPLIT_PROGRAMS)
    found = 0
    for other in range(first, count):
        if signs[other] == sign:
            alike[found] = programs[other]
            found += 1
    if begun == 0 and found < _fewest(count):
        return
    for other in range(first, count):
        if signs[other] == sign:
            signs[other] = 0
    for taken in range(found):
        take_from_node(t, node, alike[taken])
    if begun != 0:
        found = ranges.reopen(t, begun, alike, found)
    for start in range(0, found, ranges.COLUMN):
        room = _block_with_room(t, node, sign, alike, found)
        ranges.insert_column(t, room, alike, start, min(ranges.COLUMN, found - start))


@kernel
def _block_with_room(t: Any, node: int, sign: int, programs: Any, count: int) -> int:
    """A block for a column of these programs, which all have the signature: one with room, one made anew, or a new one.

    Cuts are made from the programs that go into a block when it is made.
    """
    words = integers(t, WORDS)
    signature(t, programs[0])
    block = ranges.find_block(t, node, sign)
    if block != 0 and words[block + ranges.LIVE] == 0:
        # Its only column was taken away to be filled up.
        ranges.unlink(t, node, block)
        block = 0
    if block == 0:
        return ranges.make_block(t, node, sign, _CAPACITY_FIRST, programs, count)
    capacity = words[block + ranges.CAPACITY]
    if words[block + ranges.USED] < capacity:
        if words[block + ranges.CROWDED] < _CROWDED_MAX:
            return block
    elif 2 * words[block + ranges.LIVE] >= capacity:
        if capacity == ranges.CAPACITY_MAX:
            return ranges.make_block(t, node, sign, _CAPACITY_FIRST, programs, count)
        capacity *= 4
    held = integers_at(t[SCRATCH] + 8 * BLOCK_PROGRAMS)
    taken = ranges.living(t, block, held)
    ranges.unlink(t, node, block)
    anew = ranges.make_block(t, node, sign, capacity, held, taken)
    sort_for(t, anew, held, 0, taken)
    for first in range(0, taken, ranges.COLUMN):
        ranges.insert_column(t, anew, held, first, min(ranges.COLUMN, taken - first))
    _settle(t, anew)
    return anew


@kernel
def _settle(t: Any, block: int) -> None:
    """A new block is filled. Where other cuts or axes do not help, they are not tried again soon."""
    words = integers(t, WORDS)
    words[block + ranges.IN_ORDER] = words[block + ranges.USED]
    columns = words[block + ranges.USED] >> 6
    words[block + ranges.CROWDED] = -columns if 2 * words[block + ranges.CROWDED] > columns else 0


@kernel
def _reopen_mixed_block(t: Any, node: int) -> None:
    """One with too little room for what is listed, with many programs out of order, or whose cuts or axes suit them no
    longer."""
    words = integers(t, WORDS)
    block = ranges.find_block(t, node, ranges.MIXED)
    if block == 0:
        return
    capacity = words[block + ranges.CAPACITY]
    is_full = ranges.used_when_reopened(t, block) + listed(t, node) > capacity
    sparse = 2 * words[block + ranges.LIVE] < capacity
    in_order = words[block + ranges.IN_ORDER]
    messy = words[block + ranges.USED] - in_order > max(in_order // 4, _MESS_MAX)
    crowded = words[block + ranges.CROWDED] >= _CROWDED_MAX
    if messy or crowded or (is_full and (capacity < ranges.CAPACITY_MAX or sparse)):
        dissolve(t, node, block)


@kernel
def _gather_mixed(t: Any, node: int, count: int) -> None:
    """Those that have a signature and were not gathered by it."""
    words = integers(t, WORDS)
    programs, signs = integers_at(t[SCRATCH] + 8 * SPLIT_LISTED), integers_at(t[SCRATCH] + 8 * SPLIT_SIGNATURES)
    rest = integers_at(t[SCRATCH] + 8 * SPLIT_PROGRAMS)
    found = 0
    for i in range(count):
        if signs[i] != 0:
            rest[found] = programs[i]
            found += 1
    choose_axes(t, rest, found)
    block = ranges.find_block(t, node, ranges.MIXED)
    if found == 0 or (block == 0 and (found < ranges.COLUMN or integers(t, SCRATCH)[AXES] == 0)):
        return
    for i in range(found):
        take_from_node(t, node, rest[i])
    if block != 0:
        found = ranges.reopen(t, block, rest, found)
        if words[block + ranges.LIVE] == 0:
            ranges.unlink(t, node, block)
            block = 0
    begun = 0
    for first in range(0, found, ranges.COLUMN):
        if block == 0 or words[block + ranges.USED] == words[block + ranges.CAPACITY]:
            if begun != 0:
                _settle(t, begun)
            capacity = _mixed_capacity(found - first)
            block = ranges.make_block(t, node, ranges.MIXED, capacity, rest, found)
            begun = block
            sort_for(t, block, rest, first, min(found - first, capacity))
        ranges.insert_column(t, block, rest, first, min(ranges.COLUMN, found - first))
    if begun != 0:
        _settle(t, begun)


@kernel
def _mixed_capacity(count: int) -> int:
    """Room for a quarter more."""
    capacity = _MIXED_CAPACITY_FIRST
    while capacity < count + count // 4 and capacity < ranges.CAPACITY_MAX:
        capacity *= 2
    return capacity
