"""Blocks of words in one region, and lists in such blocks.

A block of n words is one of a few sizes; a freed block waits in the list of its size for the next one.
Position 0 is no block.
"""

from typing import Any

from braid.matching.engine.counts import FREE_FIRST, POOL_FREE, POOL_USED
from braid.matching.engine.kernel import kernel, small_kernel
from braid.matching.engine.memory import COUNTS, WORDS, integers

LIST_CAPACITY, LIST_COUNT, LIST_FIRST = 0, 1, 2


@small_kernel
def size_class(size: int) -> int:
    """Four sizes for each doubling, so that at most a fifth of a block is idle."""
    if size <= 8:
        return (size + 1) // 2
    shift = 0
    rest = size - 1
    while rest >= 8:
        rest >>= 1
        shift += 1
    return 4 * shift + rest - 3


@small_kernel
def size_of_class(place: int) -> int:
    if place <= 4:
        return 2 * place
    shift = (place - 1) // 4
    return ((place - 1) % 4 + 5) << shift


@kernel
def allocate(t: Any, size: int) -> int:
    counts = integers(t, COUNTS)
    words = integers(t, WORDS)
    place = size_class(size)
    size = size_of_class(place)
    block = counts[FREE_FIRST + place]
    if block != 0:
        counts[FREE_FIRST + place] = words[block]
        counts[POOL_FREE] -= size
        return block
    block = counts[POOL_USED]
    counts[POOL_USED] = block + size
    return block


@kernel
def free(t: Any, block: int, size: int) -> None:
    counts = integers(t, COUNTS)
    words = integers(t, WORDS)
    place = size_class(size)
    words[block] = counts[FREE_FIRST + place]
    counts[FREE_FIRST + place] = block
    counts[POOL_FREE] += size_of_class(place)


@kernel
def append(t: Any, block: int, value: int) -> int:
    """The list after the value was put at its end; the list may have moved."""
    words = integers(t, WORDS)
    if block == 0:
        block = allocate(t, 4)
        words[block + LIST_CAPACITY] = 2
        words[block + LIST_COUNT] = 0
    count = words[block + LIST_COUNT]
    if count == words[block + LIST_CAPACITY]:
        place = size_class(2 * count + LIST_FIRST)
        larger = allocate(t, 2 * count + LIST_FIRST)
        words[larger + LIST_CAPACITY] = size_of_class(place) - LIST_FIRST
        words[larger + LIST_COUNT] = count
        for i in range(count):
            words[larger + LIST_FIRST + i] = words[block + LIST_FIRST + i]
        free(t, block, words[block + LIST_CAPACITY] + LIST_FIRST)
        block = larger
    words[block + LIST_FIRST + count] = value
    words[block + LIST_COUNT] = count + 1
    return block


@kernel
def free_list(t: Any, block: int) -> None:
    free(t, block, integers(t, WORDS)[block + LIST_CAPACITY] + LIST_FIRST)
