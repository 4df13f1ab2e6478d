"""Where a program is kept: under its most selective key, and deeper when many are kept there.

Invariant: a program lies at exactly one node, and the path to the node consists of keys the program demands. So a
publication that satisfies the program reaches it, and reaches it once.
"""

from typing import Any

from braid.matching.engine import ranges
from braid.matching.engine.conditions import HAS
from braid.matching.engine.counts import STAMP
from braid.matching.engine.kernel import kernel
from braid.matching.engine.keys import (
    CHILDREN,
    LIST,
    OWN,
    PARENT,
    RECORD,
    REFERENCES,
    ROOT,
    SPLIT_AT,
    SPLIT_FIRST,
    add_child,
    frequency,
    is_on_path,
    release_key,
)
from braid.matching.engine.memory import COUNTS, KEYS, SCRATCH, WORDS, integers
from braid.matching.engine.pool import LIST_COUNT, LIST_FIRST, append, free_list
from braid.matching.engine.programs import BLOCK, CONDITIONS, NODE, PLACE, SIZE, length_of_condition
from braid.matching.engine.regions import integers_at
from braid.matching.engine.scratch import (
    BLOCK_PROGRAMS,
    SPLIT_LISTED,
    SPLIT_PROGRAMS,
    SPLIT_SIGNATURES,
    SPLIT_SKETCH,
    SPLIT_WAITING,
)

_CLEARLY = 0.9
_WORTH_A_CHILD = 0.5  # a key that more publications than this carry does not help to find a program
_SKETCH = 1 << 14
_SIGNATURES_AT_ONCE = 64  # the others wait for the next split
_WAITING_MAX = 4096


@kernel
def best_key(t: Any, program: int, node: int) -> int:
    """The rarest key the program demands that is not on the path to the node; 0 without any."""
    words = integers(t, WORDS)
    best, best_frequency = 0, 2.0
    at, end = program + CONDITIONS, program + words[program + SIZE]
    while at < end:
        word = words[at]
        if word & 7 == HAS:
            key = word >> 3
            rate = frequency(t, key)
            # Only what is clearly rarer counts, so that like programs come to like places.
            if rate < _CLEARLY * best_frequency and not is_on_path(t, node, key):
                best, best_frequency = key, rate
        at += length_of_condition(word)
    return best


@kernel
def place(t: Any, program: int) -> None:
    keys = integers(t, KEYS)
    key = best_key(t, program, 0)
    node = key if key != 0 else ROOT
    while keys[node * RECORD + CHILDREN] != 0:
        key = best_key(t, program, node)
        if key == 0 or frequency(t, key) >= _WORTH_A_CHILD:
            break
        node = add_child(t, node, key)
    _put(t, node, program)
    if _listed(t, node) > keys[node * RECORD + SPLIT_AT]:
        split(t, node)


@kernel
def displace(t: Any, program: int) -> None:
    """Takes the program away from its node."""
    node = integers(t, WORDS)[program + NODE]
    _take(t, node, program)
    release_key(t, node)


@kernel
def split(t: Any, node: int) -> None:
    """Programs that demand further keys go to children, those with like ranges into bitmaps, the others stay."""
    keys, words = integers(t, KEYS), integers(t, WORDS)
    waiting = integers_at(t[SCRATCH] + 8 * SPLIT_WAITING)  # children that have become too long meanwhile
    waiting[0] = node
    count = 1
    while count > 0:
        count -= 1
        node = waiting[count]
        block = keys[node * RECORD + LIST]
        for i in range(words[block + LIST_COUNT] - 1, -1, -1):
            program = words[keys[node * RECORD + LIST] + LIST_FIRST + i]
            key = best_key(t, program, node)
            if key != 0 and frequency(t, key) < _WORTH_A_CHILD:
                child = add_child(t, node, key)
                _take(t, node, program)
                keys[node * RECORD + REFERENCES] -= 1
                _put(t, child, program)
                if count < _WAITING_MAX and _listed(t, child) == SPLIT_FIRST + 1:
                    waiting[count] = child
                    count += 1
        if keys[node * RECORD + LIST] > 0:
            _gather_ranges(t, node)
        keys[node * RECORD + SPLIT_AT] = max(
            SPLIT_FIRST, _listed(t, node) + max(ranges.COLUMN // 2, _listed(t, node) // 4)
        )


@kernel
def _gather_ranges(t: Any, node: int) -> None:
    """Many programs of the same signature go into blocks; the others stay."""
    keys, words = integers(t, KEYS), integers(t, WORDS)
    block = keys[node * RECORD + LIST]
    count = words[block + LIST_COUNT]
    programs, signs = integers_at(t[SCRATCH] + 8 * SPLIT_LISTED), integers_at(t[SCRATCH] + 8 * SPLIT_SIGNATURES)
    alike, sketch = integers_at(t[SCRATCH] + 8 * SPLIT_PROGRAMS), integers_at(t[SCRATCH] + 8 * SPLIT_SKETCH)
    for i in range(_SKETCH):
        sketch[i] = 0
    for i in range(count):
        programs[i] = words[block + LIST_FIRST + i]
        signs[i] = ranges.signature(t, programs[i])
        sketch[signs[i] >> 32 & (_SKETCH - 1)] += 1
    looked = 0
    for i in range(count):
        sign = signs[i]
        if sign == 0 or looked == _SIGNATURES_AT_ONCE:
            continue
        begun = ranges.find_block(t, node, sign)
        if begun == 0 and sketch[sign >> 32 & (_SKETCH - 1)] < ranges.COLUMN:
            continue
        looked += 1
        found = 0
        for other in range(i, count):
            if signs[other] == sign:
                signs[other] = 0
                alike[found] = programs[other]
                found += 1
        if begun == 0 and found < ranges.COLUMN:
            continue
        for taken in range(found):
            _take(t, node, alike[taken])
        if begun != 0:
            found = ranges.reopen(t, begun, alike, found)
        for first in range(0, found, ranges.COLUMN):
            room = ranges.block_with_room(t, node, sign, alike, found)
            ranges.insert_column(t, room, alike, first, min(ranges.COLUMN, found - first))


@kernel
def _dissolve(t: Any, node: int, block: int) -> None:
    """The programs of a block that has little life in it go back to the list."""
    programs = integers_at(t[SCRATCH] + 8 * BLOCK_PROGRAMS)
    count = ranges.living(t, block, programs)
    ranges.unlink(t, node, block)
    for i in range(count):
        integers(t, WORDS)[programs[i] + BLOCK] = 0
        _list(t, node, programs[i])


@kernel
def _put(t: Any, node: int, program: int) -> None:
    integers(t, KEYS)[node * RECORD + REFERENCES] += 1
    integers(t, WORDS)[program + NODE] = node
    _list(t, node, program)


@kernel
def _list(t: Any, node: int, program: int) -> None:
    keys, words = integers(t, KEYS), integers(t, WORDS)
    at = node * RECORD
    words[program + PLACE] = 0
    block = keys[at + LIST]
    if block == 0:
        keys[at + LIST] = -program
        return
    if block < 0:
        block = append(t, 0, -block)
    words[program + PLACE] = words[block + LIST_COUNT]
    keys[at + LIST] = append(t, block, program)


@kernel
def _take(t: Any, node: int, program: int) -> None:
    keys, words = integers(t, KEYS), integers(t, WORDS)
    if words[program + BLOCK] != 0:
        sparse = ranges.remove(t, node, program)
        if sparse != 0:
            _dissolve(t, node, sparse)
        return
    at = node * RECORD
    block = keys[at + LIST]
    if block < 0:
        keys[at + LIST] = 0
        return
    count = words[block + LIST_COUNT] - 1
    hole = words[program + PLACE]
    last = words[block + LIST_FIRST + count]
    words[block + LIST_FIRST + hole] = last
    words[last + PLACE] = hole
    words[block + LIST_COUNT] = count
    if count == 0:
        free_list(t, block)
        keys[at + LIST] = 0


@kernel
def _listed(t: Any, node: int) -> int:
    block = integers(t, KEYS)[node * RECORD + LIST]
    if block <= 0:
        return 1 if block < 0 else 0
    return integers(t, WORDS)[block + LIST_COUNT]


@kernel
def find_better_places(t: Any, node: int, limit: int) -> int:
    """Programs of this node for which publications have shown a much rarer key go there; how many did."""
    keys, words = integers(t, KEYS), integers(t, WORDS)
    top = node
    while keys[top * RECORD + PARENT] != 0:
        top = keys[top * RECORD + PARENT]
    moved = 0
    # Of a long list another part every time.
    i = integers(t, COUNTS)[STAMP] % max(1, _listed(t, node) - limit + 1)
    last = i + limit
    keys[node * RECORD + REFERENCES] += 1  # it must not be forgotten meanwhile
    while i < _listed(t, node) and i + moved < last:
        block = keys[node * RECORD + LIST]
        program = -block if block < 0 else words[block + LIST_FIRST + i]
        key = best_key(t, program, 0)
        if key != 0 and 2.0 * frequency(t, key) < frequency(t, keys[top * RECORD + OWN]):
            displace(t, program)
            place(t, program)
            moved += 1
        else:
            i += 1
    release_key(t, node)
    return moved
