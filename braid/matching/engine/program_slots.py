"""The tables of slots by which programs are found: one for each beginning of their hashes.

A table that is half full moves all it has into one of twice the size. Sixteen tables do so one by one, so that nobody
waits for more than a sixteenth of it: a million programs at once took 60 ms.
"""

from typing import Any

from numba import int64, uint64

from braid.matching.engine.counts import PROGRAM_MASKS_FIRST, PROGRAMS_LIVE, PROGRAMS_LIVE_FIRST
from braid.matching.engine.kernel import kernel, small_kernel
from braid.matching.engine.memory import COUNTS, KEYS_MAX, PROGRAM_SLOTS, SCRATCH, integers
from braid.matching.engine.regions import Integers, integers_at
from braid.matching.engine.scratch import PROGRAMS_ASIDE

TABLES = 16
TABLE_MASK_FIRST = 15
POSITION_BITS = 31
POSITION_MASK = (1 << POSITION_BITS) - 1

_TABLE_SHIFT = 60  # of the hash
_TABLE_BYTES = 16 * KEYS_MAX // TABLES  # of address space


@small_kernel
def table_of(hash: Any) -> int:
    table: int = int64(uint64(hash) >> uint64(_TABLE_SHIFT))
    return table


@small_kernel
def slots_of(t: Any, table: int) -> Integers:
    return integers_at(t[PROGRAM_SLOTS] + _TABLE_BYTES * table)


@small_kernel
def slot_address(t: Any, hash: int) -> int:
    """Where a program of this hash would be, were no other there before."""
    table = table_of(hash)
    mask = integers(t, COUNTS)[PROGRAM_MASKS_FIRST + table]
    address: int = t[PROGRAM_SLOTS] + _TABLE_BYTES * table + 8 * (hash & mask)
    return address


@kernel
def make_room_for_program(t: Any, table: int, words: Any, hash_at: int) -> None:
    """Before another one comes. The hash of a program is `hash_at` words behind its position in the pool."""
    counts = integers(t, COUNTS)
    if 2 * counts[PROGRAMS_LIVE_FIRST + table] < counts[PROGRAM_MASKS_FIRST + table]:
        return
    slots, aside = slots_of(t, table), integers_at(t[SCRATCH] + 8 * PROGRAMS_ASIDE)
    live = 0
    for slot in range(counts[PROGRAM_MASKS_FIRST + table] + 1):
        if slots[slot] != 0:
            aside[live] = slots[slot]
            live += 1
    mask = 2 * counts[PROGRAM_MASKS_FIRST + table] + 1
    counts[PROGRAM_MASKS_FIRST + table] = mask
    for slot in range(mask + 1):
        slots[slot] = 0
    for i in range(live):
        slot = words[(aside[i] & POSITION_MASK) + hash_at] & mask
        while slots[slot] != 0:
            slot = (slot + 1) & mask
        slots[slot] = aside[i]


@small_kernel
def put_program(t: Any, slot: Any, hash: Any, program: int) -> None:
    """Into the free slot that the search for it ended at."""
    counts, table = integers(t, COUNTS), table_of(hash)
    slots_of(t, table)[slot] = int64(hash & ~uint64(POSITION_MASK)) | program
    counts[PROGRAMS_LIVE] += 1
    counts[PROGRAMS_LIVE_FIRST + table] += 1


@kernel
def take_program_out(t: Any, program: int, words: Any, hash_at: int) -> None:
    counts = integers(t, COUNTS)
    hash = words[program + hash_at]
    table = table_of(hash)
    slots, mask = slots_of(t, table), counts[PROGRAM_MASKS_FIRST + table]
    slot = hash & mask
    while slots[slot] & POSITION_MASK != program:
        slot = (slot + 1) & mask
    # What follows moves up, so that no search stops too early.
    hole = slot
    while True:
        slot = (slot + 1) & mask
        entry = slots[slot]
        if entry == 0:
            break
        home = words[(entry & POSITION_MASK) + hash_at] & mask
        if ((slot - home) & mask) >= ((slot - hole) & mask):
            slots[hole] = entry
            hole = slot
    slots[hole] = 0
    counts[PROGRAMS_LIVE] -= 1
    counts[PROGRAMS_LIVE_FIRST + table] -= 1
