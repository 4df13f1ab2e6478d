"""The table of slots by which keys are found.

Before it is too full, one of twice the size is filled beside it, a little with each key that comes, and takes its place
when it is needed: to fill it all at once would keep everybody waiting. What is in both tables is every living key up to
`KEYS_BESIDE`.
"""

from typing import Any

from numba import int64, uint64

from braid.matching.engine.counts import (
    KEY_SLOTS_CLEARED,
    KEY_SLOTS_MASK,
    KEYS_BESIDE,
    KEYS_LIVE,
    KEYS_USED,
)
from braid.matching.engine.kernel import kernel, small_kernel
from braid.matching.engine.key_records import CHECK, HASH, RECORD, REFERENCES
from braid.matching.engine.memory import COUNTS, KEY_SLOTS, KEY_SLOTS_BESIDE, KEYS, integers

ID_BITS = 26
ID_MASK = (1 << ID_BITS) - 1
# With each key that comes. A table doubles when half of its slots are taken. The next one is begun at three eighths,
# and is ready a sixteenth later.
_CLEARED_AT_ONCE = 64  # slots of the next table
_COPIED_AT_ONCE = 16  # keys


@small_kernel
def find_key(t: Any, first: Any, second: Any) -> int:
    """The key of this hash, 0 when there is none."""
    slots, keys = integers(t, KEY_SLOTS), integers(t, KEYS)
    mask = uint64(integers(t, COUNTS)[KEY_SLOTS_MASK])
    slot = first & mask
    while True:
        entry = uint64(slots[slot])
        if entry == 0:
            return 0
        if (entry ^ first) >> uint64(ID_BITS) == 0:
            key: int = int64(entry & uint64(ID_MASK))
            at = key * RECORD
            if uint64(keys[at + HASH]) == first and uint64(keys[at + CHECK]) == second:
                return key
        slot = (slot + uint64(1)) & mask


@kernel
def make_room(t: Any) -> None:
    """Before another key comes."""
    counts = integers(t, COUNTS)
    if 8 * counts[KEYS_LIVE] >= 3 * counts[KEY_SLOTS_MASK]:
        _prepare(t)
    if 2 * counts[KEYS_LIVE] >= counts[KEY_SLOTS_MASK]:
        _grow(t)


@kernel
def take_in(t: Any, key: int) -> None:
    """A key whose hash is in its record can be found from now on."""
    counts = integers(t, COUNTS)
    _insert(t, KEY_SLOTS, counts[KEY_SLOTS_MASK], key)
    if key <= counts[KEYS_BESIDE]:
        _insert(t, KEY_SLOTS_BESIDE, _mask_beside(t), key)


@kernel
def leave_out(t: Any, key: int) -> None:
    counts = integers(t, COUNTS)
    _take_out(t, KEY_SLOTS, counts[KEY_SLOTS_MASK], key)
    if key <= counts[KEYS_BESIDE]:
        _take_out(t, KEY_SLOTS_BESIDE, _mask_beside(t), key)


@small_kernel
def _insert(t: Any, table: int, mask: int, key: int) -> None:
    slots = integers(t, table)
    hash = integers(t, KEYS)[key * RECORD + HASH]
    slot = hash & mask
    while slots[slot] != 0:
        slot = (slot + 1) & mask
    slots[slot] = (hash & ~ID_MASK) | key


@kernel
def _take_out(t: Any, table: int, mask: int, key: int) -> None:
    keys, slots = integers(t, KEYS), integers(t, table)
    slot = keys[key * RECORD + HASH] & mask
    while slots[slot] & ID_MASK != key:
        slot = (slot + 1) & mask
    # What follows moves up, so that no search stops too early.
    hole = slot
    while True:
        slot = (slot + 1) & mask
        entry = slots[slot]
        if entry == 0:
            break
        home = keys[(entry & ID_MASK) * RECORD + HASH] & mask
        if ((slot - home) & mask) >= ((slot - hole) & mask):
            slots[hole] = entry
            hole = slot
    slots[hole] = 0


@small_kernel
def _mask_beside(t: Any) -> int:
    return 2 * integers(t, COUNTS)[KEY_SLOTS_MASK] + 1


@kernel
def _prepare(t: Any) -> bool:
    """Goes on with the next table; whether there was anything left to do."""
    counts, keys = integers(t, COUNTS), integers(t, KEYS)
    mask = _mask_beside(t)
    first = counts[KEY_SLOTS_CLEARED]
    if first <= mask:
        slots = integers(t, KEY_SLOTS_BESIDE)
        for slot in range(first, first + _CLEARED_AT_ONCE):  # the number of slots is a multiple of it
            slots[slot] = 0
        counts[KEY_SLOTS_CLEARED] = first + _CLEARED_AT_ONCE
        return True
    first = counts[KEYS_BESIDE]
    last = min(first + _COPIED_AT_ONCE, counts[KEYS_USED])
    for key in range(first + 1, last + 1):
        if keys[key * RECORD + REFERENCES] >= 0:
            _insert(t, KEY_SLOTS_BESIDE, mask, key)
    counts[KEYS_BESIDE] = last
    return last > first


@kernel
def _grow(t: Any) -> None:
    """Whoever holds the address of the table must ask for it again."""
    counts = integers(t, COUNTS)
    while _prepare(t):
        pass
    t[KEY_SLOTS], t[KEY_SLOTS_BESIDE] = t[KEY_SLOTS_BESIDE], t[KEY_SLOTS]
    counts[KEY_SLOTS_MASK] = _mask_beside(t)
    counts[KEY_SLOTS_CLEARED] = 0
    counts[KEYS_BESIDE] = 0
