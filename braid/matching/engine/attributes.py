"""The attributes that subscriptions speak of. Others are skipped when a publication is read.

A record also holds the value that the publication being searched for has: a number as the floats next to it, of a text
where it begins and ends. READ says in which publication the attribute was read last, so that one that names it twice is
noticed.
"""

from typing import Any

from numba import uint64

from braid.matching.engine.counts import (
    ATTRIBUTE_SLOTS_MASK,
    ATTRIBUTES_FREE,
    ATTRIBUTES_LIVE,
    ATTRIBUTES_USED,
)
from braid.matching.engine.kernel import kernel, small_kernel
from braid.matching.engine.memory import ATTRIBUTE_SLOTS, ATTRIBUTES, COUNTS, integers
from braid.matching.engine.pool import free

RECORD = 24  # words, in whole lines of the cache
HASH, CHECK, REFERENCES, USES, PREFIXES, SUFFIXES, PIECES, STAMP, LOW, HIGH = range(10)
TEXT_STAMP, TEXT_BEGIN, TEXT_END = range(10, 13)
CUTS, BUCKET_STAMP, BUCKET = range(13, 16)  # the cuts that blocks of ranges share, and the bucket of the value by them
READ = 16

# Bits of USES: what about this attribute is asked for. They stay while the attribute is known.
EQUALITY, RANGE, EXISTENCE, TYPE, ORDER = 1, 2, 4, 8, 16

NONE = 0  # stands for no attribute
SHARED_CUTS_WORDS = 64  # in the pool: how many hold the cuts, which CUTS is the position behind, then the cuts


@small_kernel
def find_attribute(t: Any, first: Any, second: Any) -> int:
    slots, attributes = integers(t, ATTRIBUTE_SLOTS), integers(t, ATTRIBUTES)
    mask = integers(t, COUNTS)[ATTRIBUTE_SLOTS_MASK]
    slot = first & uint64(mask)
    while True:
        attribute = slots[slot]
        if attribute == 0:
            return 0
        at = attribute * RECORD
        if uint64(attributes[at + HASH]) == first and uint64(attributes[at + CHECK]) == second:
            return attribute
        slot = (slot + uint64(1)) & uint64(mask)


@kernel
def add_attribute(t: Any, first: Any, second: Any) -> int:
    """The attribute of this hash; a new one has no references yet."""
    attribute = find_attribute(t, first, second)
    if attribute != 0:
        return attribute
    counts, attributes = integers(t, COUNTS), integers(t, ATTRIBUTES)
    if 2 * counts[ATTRIBUTES_LIVE] >= counts[ATTRIBUTE_SLOTS_MASK]:
        _grow(t)
    attribute = counts[ATTRIBUTES_FREE]
    if attribute != 0:
        counts[ATTRIBUTES_FREE] = attributes[attribute * RECORD + HASH]
    else:
        counts[ATTRIBUTES_USED] += 1
        attribute = counts[ATTRIBUTES_USED]
    at = attribute * RECORD
    for word in range(RECORD):
        attributes[at + word] = 0
    attributes[at + HASH] = first
    attributes[at + CHECK] = second
    attributes[at + REFERENCES] = 0
    _insert(t, attribute)
    counts[ATTRIBUTES_LIVE] += 1
    return attribute


@kernel
def release_attribute(t: Any, attribute: int) -> None:
    counts, attributes = integers(t, COUNTS), integers(t, ATTRIBUTES)
    at = attribute * RECORD
    attributes[at + REFERENCES] -= 1
    if attributes[at + REFERENCES] > 0:
        return
    if attributes[at + CUTS] != 0:
        free(t, attributes[at + CUTS] - 1, SHARED_CUTS_WORDS)
    slots = integers(t, ATTRIBUTE_SLOTS)
    mask = counts[ATTRIBUTE_SLOTS_MASK]
    slot = attributes[at + HASH] & mask
    while slots[slot] != attribute:
        slot = (slot + 1) & mask
    # What follows moves up, so that no search stops too early.
    hole = slot
    while True:
        slot = (slot + 1) & mask
        other = slots[slot]
        if other == 0:
            break
        home = attributes[other * RECORD + HASH] & mask
        if ((slot - home) & mask) >= ((slot - hole) & mask):
            slots[hole] = other
            hole = slot
    slots[hole] = 0
    attributes[at + HASH] = counts[ATTRIBUTES_FREE]
    attributes[at + REFERENCES] = -1
    counts[ATTRIBUTES_FREE] = attribute
    counts[ATTRIBUTES_LIVE] -= 1


@small_kernel
def _insert(t: Any, attribute: int) -> None:
    slots = integers(t, ATTRIBUTE_SLOTS)
    mask = integers(t, COUNTS)[ATTRIBUTE_SLOTS_MASK]
    slot = integers(t, ATTRIBUTES)[attribute * RECORD + HASH] & mask
    while slots[slot] != 0:
        slot = (slot + 1) & mask
    slots[slot] = attribute


@kernel
def _grow(t: Any) -> None:
    counts, slots, attributes = integers(t, COUNTS), integers(t, ATTRIBUTE_SLOTS), integers(t, ATTRIBUTES)
    mask = 2 * counts[ATTRIBUTE_SLOTS_MASK] + 1
    counts[ATTRIBUTE_SLOTS_MASK] = mask
    for slot in range(mask + 1):
        slots[slot] = 0
    for attribute in range(1, counts[ATTRIBUTES_USED] + 1):
        if attributes[attribute * RECORD + REFERENCES] >= 0:
            _insert(t, attribute)
