"""Fetches what a subscription with many programs will touch: for all of them at once, instead of one after another."""

from typing import Any

from numba import int64, uint64

from braid.matching.engine.conditions import COUNT, FIRST, KIND, NAME_FIRST, ROW, SECOND
from braid.matching.engine.counts import KEY_SLOTS_MASK
from braid.matching.engine.hashing import key_hash
from braid.matching.engine.kernel import kernel, prefetch
from braid.matching.engine.key_records import LIST, RECORD
from braid.matching.engine.key_slots import ID_BITS, ID_MASK
from braid.matching.engine.memory import COUNTS, KEY_SLOTS, KEYS, SCRATCH, WORDS, integers
from braid.matching.engine.pool import LIST_COUNT, LIST_FIRST
from braid.matching.engine.program_slots import slot_address
from braid.matching.engine.programs import HASH, MEMBERS
from braid.matching.engine.regions import integers_at
from braid.matching.engine.scratch import FETCHED


@kernel
def fetch_items(t: Any, row: int) -> None:
    """The keys of the items of a ONE_OF row, the programs that lie alone under them, and the ends of their members.

    Only of keys without attributes: those are tiles, of which a zone has up to sixteen.
    """
    rows, counts = integers(t, SCRATCH), integers(t, COUNTS)
    if rows[(row + 1) * ROW + NAME_FIRST] != 0:
        return
    items = rows[row * ROW + COUNT]
    found = integers_at(t[SCRATCH] + 8 * FETCHED)
    mask = uint64(counts[KEY_SLOTS_MASK])
    for i in range(items):
        at = (row + 1 + i) * ROW
        first, _ = key_hash(uint64(rows[at + FIRST]), uint64(rows[at + SECOND]), rows[at + KIND], 0)
        found[i] = int64(first)
        prefetch(t[KEY_SLOTS] + 8 * int64(first & mask))
    slots = integers(t, KEY_SLOTS)
    for i in range(items):
        first = uint64(found[i])
        entry = uint64(slots[first & mask])
        found[i] = int64(entry & uint64(ID_MASK)) if (entry ^ first) >> uint64(ID_BITS) == 0 else 0
        prefetch(t[KEYS] + 8 * RECORD * found[i])
    _fetch_programs(t, found, items)


@kernel
def _fetch_programs(t: Any, found: Any, items: int) -> None:
    """`found` are keys, 0 where none was found at once."""
    keys, words = integers(t, KEYS), integers(t, WORDS)
    for i in range(items):
        listed = keys[found[i] * RECORD + LIST]
        found[i] = -listed if found[i] != 0 and listed < 0 else 0
        prefetch(t[WORDS] + 8 * found[i])
    for i in range(items):
        members = 0
        if found[i] != 0:
            prefetch(slot_address(t, words[found[i] + HASH]))
            members = words[found[i] + MEMBERS]
        found[i] = -members if members < 0 else 0
        prefetch(t[WORDS] + 8 * found[i])
    for i in range(items):
        if found[i] != 0:
            prefetch(t[WORDS] + 8 * (found[i] + LIST_FIRST + words[found[i] + LIST_COUNT]))
