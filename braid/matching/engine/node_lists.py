"""The programs of a node: one alone, a list of them, and those in blocks of ranges."""

from typing import Any

from braid.matching.engine import ranges
from braid.matching.engine.kernel import kernel
from braid.matching.engine.key_records import LIST, RECORD, REFERENCES
from braid.matching.engine.memory import KEYS, SCRATCH, WORDS, integers
from braid.matching.engine.pool import LIST_COUNT, LIST_FIRST, append, free_list
from braid.matching.engine.programs import BLOCK, NODE, PLACE
from braid.matching.engine.regions import integers_at
from braid.matching.engine.scratch import BLOCK_PROGRAMS


@kernel
def put_at_node(t: Any, node: int, program: int) -> None:
    integers(t, KEYS)[node * RECORD + REFERENCES] += 1
    integers(t, WORDS)[program + NODE] = node
    put_into_list(t, node, program)


@kernel
def put_into_list(t: Any, node: int, program: int) -> None:
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
def take_from_node(t: Any, node: int, program: int) -> None:
    keys, words = integers(t, KEYS), integers(t, WORDS)
    if words[program + BLOCK] != 0:
        sparse = ranges.remove(t, node, program)
        if sparse != 0:
            dissolve(t, node, sparse)
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
def listed(t: Any, node: int) -> int:
    block = integers(t, KEYS)[node * RECORD + LIST]
    if block <= 0:
        return 1 if block < 0 else 0
    return integers(t, WORDS)[block + LIST_COUNT]


@kernel
def dissolve(t: Any, node: int, block: int) -> None:
    """The programs of a block that has little life in it go back to the list."""
    programs = integers_at(t[SCRATCH] + 8 * BLOCK_PROGRAMS)
    count = ranges.living(t, block, programs)
    ranges.unlink(t, node, block)
    for i in range(count):
        integers(t, WORDS)[programs[i] + BLOCK] = 0
        put_into_list(t, node, programs[i])
