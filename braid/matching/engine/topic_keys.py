"""Keys of topics.

A pattern of topics is a number of levels, some of which may be anything, and demands either just such a node or any
node at or below it: its shape. The shapes in use are few, so a publication is asked for each that fits the depth of its
topic: the hash of its first levels, leaving out those that may be anything.
"""

from typing import Any

import numpy as np
from numba import int64, uint64

from braid.matching.engine.counts import KEY_SLOTS_MASK, TOPIC_SELF_ENDS, TOPIC_SHAPES_FIRST, TOPIC_UNDER_ENDS
from braid.matching.engine.hashing import hash_octets, key_hash, mix, secret_of
from braid.matching.engine.kernel import entry, kernel, octet_at, prefetch, small_kernel
from braid.matching.engine.key_records import TOPIC_SELF, TOPIC_UNDER
from braid.matching.engine.memory import COUNTS, FACTS, KEY_SLOTS, SCRATCH, integers
from braid.matching.engine.regions import integers_at
from braid.matching.engine.scratch import TOPIC_LEVELS

LEVELS_MAX = 32  # of topics

# A shape: mask of the levels that may be anything << 7 | number of levels << 1 | whether what lies below counts.
# They stand in the order of numbers of levels, first those of nodes themselves, then those with what lies below.
MASK_SHIFT = 7


@small_kernel
def bits_of(value: float) -> int:
    bits: int = np.float64(value).view(np.int64)  # type: ignore[assignment]  # an integer of numba
    return bits


@kernel
def add_topic_facts(t: Any, begin: int, finish: int, facts: int) -> int:
    counts = integers(t, COUNTS)
    if begin == finish:
        return facts
    separator = 0x2E
    for at in range(begin, finish):
        if octet_at(at) != 0x2E and not 0x30 <= octet_at(at) <= 0x39:
            separator = 0x2F
            break
    levels = integers_at(t[SCRATCH] + 8 * TOPIC_LEVELS)
    depth = 0
    start = begin
    for at in range(begin, finish + 1):
        if at == finish or octet_at(at) == separator:
            if depth == LEVELS_MAX:
                return facts
            first, second = hash_octets(secret_of(t), start, at - start)
            levels[2 * depth] = int64(first)
            levels[2 * depth + 1] = int64(second)
            depth += 1
            start = at + 1
    for i in range(counts[TOPIC_SELF_ENDS + depth - 1], counts[TOPIC_SELF_ENDS + depth]):
        first, second = shape_hash(levels, depth, counts[TOPIC_SHAPES_FIRST + i] >> MASK_SHIFT)
        facts = add_fact(t, first, second, TOPIC_SELF, facts)
    for i in range(counts[TOPIC_SELF_ENDS + LEVELS_MAX], counts[TOPIC_UNDER_ENDS + depth]):
        shape = counts[TOPIC_SHAPES_FIRST + i]
        first, second = shape_hash(levels, (shape >> 1) & 63, shape >> MASK_SHIFT)
        facts = add_fact(t, first, second, TOPIC_UNDER, facts)
    return facts


@small_kernel
def shape_hash(levels: Any, depth: int, mask: int) -> tuple[Any, Any]:
    first, second = uint64(depth), uint64(mask)
    for level in range(depth):
        if mask >> level & 1:
            first = mix(first + uint64(1))
            second = mix(second + uint64(1))
        else:
            first = mix(first ^ uint64(levels[2 * level]))
            second = mix(second ^ uint64(levels[2 * level + 1]))
    return first, second


@small_kernel
def add_fact(t: Any, first: Any, second: Any, kind: int, facts: int) -> int:
    store = integers(t, FACTS)
    first, second = key_hash(first, second, kind, 0)
    prefetch(t[KEY_SLOTS] + 8 * int64(first & uint64(integers(t, COUNTS)[KEY_SLOTS_MASK])))
    store[2 * facts] = int64(first)
    store[2 * facts + 1] = int64(second)
    return facts + 1


@entry
def hash_of_topic(t: Any, address: int, ends: Any, depth: int, mask: int) -> tuple[int, int]:
    """The hash of a pattern: its levels stand one after another behind the address and end where `ends` says."""
    secret = secret_of(t)
    levels = integers_at(t[SCRATCH] + 8 * TOPIC_LEVELS)
    start = 0
    for i in range(depth):
        first, second = hash_octets(secret, address + start, ends[i] - start)
        levels[2 * i] = int64(first)
        levels[2 * i + 1] = int64(second)
        start = ends[i]
    first, second = shape_hash(levels, depth, mask)
    return int64(first), int64(second)
