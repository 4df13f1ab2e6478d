"""Keys of places: nodes of the tree of topics, and tiles of the map.

A pattern of topics is a number of levels, some of which may be anything, and demands either just such a node or any
node at or below it: its shape. The shapes in use are few, so a publication is asked for each of them: the hash of its
first levels, leaving out those that may be anything.
"""

from typing import Any

import numpy as np
from numba import int64, uint64

from braid.matching.engine.counts import KEY_SLOTS_MASK, TILE_LEVELS, TOPIC_SHAPES, TOPIC_SHAPES_FIRST
from braid.matching.engine.hashing import hash_octets, hash_word, key_hash, mix, secret_of
from braid.matching.engine.kernel import entry, kernel, octet_at, prefetch, small_kernel
from braid.matching.engine.keys import TILE, TOPIC_SELF, TOPIC_UNDER
from braid.matching.engine.memory import COUNTS, FACTS, KEY_SLOTS, SCRATCH, integers
from braid.matching.engine.regions import integers_at
from braid.matching.engine.scratch import TOPIC_LEVELS

LEVELS_MAX = 32  # of topics
TILE_LEVELS_MAX = 24

# A shape: mask of the levels that may be anything << 7 | number of levels << 1 | whether what lies below counts.
_MASK_SHIFT = 7


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
    for i in range(counts[TOPIC_SHAPES]):
        shape = counts[TOPIC_SHAPES_FIRST + i]
        wanted = (shape >> 1) & 63
        below = shape & 1
        if wanted == depth or (below and wanted < depth):
            first, second = shape_hash(levels, wanted, shape >> _MASK_SHIFT)
            facts = _add(t, first, second, TOPIC_UNDER if below else TOPIC_SELF, facts)
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


@kernel
def add_tile_facts(t: Any, latitude: float, longitude: float, facts: int) -> int:
    counts = integers(t, COUNTS)
    rest = counts[TILE_LEVELS]
    level = 0
    while rest != 0:
        if rest & 1:
            x, y = tile_of(level, latitude, longitude)
            first, second = tile_hash(secret_of(t), level, x, y)
            facts = _add(t, first, second, TILE, facts)
        rest >>= 1
        level += 1
    return facts


@small_kernel
def tile_of(level: int, latitude: float, longitude: float) -> tuple[int, int]:
    across = int64(1) << level
    x = min(max(int64(np.floor((longitude + 180.0) / 360.0 * across)), 0), across - 1)
    y = min(max(int64(np.floor((latitude + 90.0) / 180.0 * across)), 0), across - 1)
    return x, y


@small_kernel
def tile_hash(secret: Any, level: int, x: int, y: int) -> tuple[Any, Any]:
    return hash_word(secret, uint64(level) << uint64(56) | uint64(x) << uint64(28) | uint64(y))


@small_kernel
def _add(t: Any, first: Any, second: Any, kind: int, facts: int) -> int:
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


@entry
def hashes_of_tiles(t: Any, tiles: Any, hashes: Any) -> None:
    """For each tile, given as level, x and y."""
    secret = secret_of(t)
    for i in range(len(tiles)):
        first, second = tile_hash(secret, tiles[i, 0], tiles[i, 1], tiles[i, 2])
        hashes[i, 0] = int64(first)
        hashes[i, 1] = int64(second)
