"""Keys: what a publication can carry and a subscription can demand.

A value of an attribute, a beginning of its text, a word, a topic, a tile: each that any subscription speaks of has one
record here. A key is also an anchor: the programs found under it hang on its record. An anchor with many programs is
split into children, each the key of (anchor, another key); so anchors form tries, as words do in trie matching.

Keys are found by a table of slots. Before it is too full, one of twice the size is filled beside it, a little with each
key that comes, and takes its place when it is needed: to fill it all at once would keep everybody waiting. What is in
both tables is every living key up to `KEYS_BESIDE`.
"""

from typing import Any

from numba import int64, uint64

from braid.matching.engine.attributes import RECORD as ATTRIBUTE_RECORD
from braid.matching.engine.attributes import REFERENCES as ATTRIBUTE_REFERENCES
from braid.matching.engine.attributes import release_attribute
from braid.matching.engine.counts import (
    EVENTS_SEEN,
    KEY_SLOTS_CLEARED,
    KEY_SLOTS_MASK,
    KEYS_BESIDE,
    KEYS_FREE,
    KEYS_LIVE,
    KEYS_USED,
    PROGRAMS_LIVE,
    TILE_KEYS_FIRST,
    TILE_LEVELS,
    WORD_KEYS,
    WORD_KEYS_CHANGED,
)
from braid.matching.engine.hashing import hash_word, key_hash, secret_of
from braid.matching.engine.kernel import kernel, small_kernel
from braid.matching.engine.memory import (
    ATTRIBUTES,
    CHILD_BLOOM,
    COUNTS,
    KEY_SLOTS,
    KEY_SLOTS_BESIDE,
    KEYS,
    floats,
    integers,
)

RECORD = 16  # words: the first eight are one line of the processor's cache
HASH, CHECK, STAMP, SEEN, LIST, CHILDREN, BLOCKS, REFERENCES = range(8)
BORN, PARENT, OWN, PRIOR, SPLIT_AT, WASTED, KIND, FIRST_CHILD = range(8, 16)  # KIND: (attribute or tile) << 8 | kind
BEFORE, BEHIND = BORN, PRIOR  # what a child has in their place: the other children of its parent

# Kinds of keys.
STRING, NUMBER, BOOLEAN, PREFIX, SUFFIX, PIECE, EXISTS, IS_STRING, IS_NUMBER, IS_BOOLEAN = range(1, 11)
WORD, TOPIC_UNDER, TOPIC_SELF, TILE, CHILD, EVERY, INTEGER = range(11, 18)

# The code of a tile: level << TILE_LEVEL_SHIFT | x << TILE_X_SHIFT | y.
TILE_LEVEL_SHIFT, TILE_X_SHIFT = 48, 24

ROOT = 1  # the key that every publication carries
SPLIT_FIRST = 96  # programs under an anchor before it is split
ID_BITS = 26
ID_MASK = (1 << ID_BITS) - 1
_NAMED_ENOUGH = 100.0  # programs before it tells something which keys they demand
_SEEN_ENOUGH = 64  # publications before what they carried counts more than what was assumed
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
def add_key(t: Any, first: Any, second: Any, kind: int, owner: int, prior: float) -> int:
    """The key of this hash; a new one has no references yet. `owner` is its attribute, or the code of a tile."""
    key = find_key(t, first, second)
    if key != 0:
        return key
    counts, keys = integers(t, COUNTS), integers(t, KEYS)
    if 8 * counts[KEYS_LIVE] >= 3 * counts[KEY_SLOTS_MASK]:
        _prepare(t)
    if 2 * counts[KEYS_LIVE] >= counts[KEY_SLOTS_MASK]:
        _grow(t)
    key = counts[KEYS_FREE]
    if key != 0:
        counts[KEYS_FREE] = keys[key * RECORD + HASH]
    else:
        counts[KEYS_USED] += 1
        key = counts[KEYS_USED]
    at = key * RECORD
    for word in range(RECORD):
        keys[at + word] = 0
    keys[at + HASH] = first
    keys[at + CHECK] = second
    keys[at + BORN] = counts[EVENTS_SEEN]
    keys[at + OWN] = key
    floats(t, KEYS)[at + PRIOR] = prior
    keys[at + SPLIT_AT] = SPLIT_FIRST
    keys[at + KIND] = owner << 8 | kind
    if _has_attribute(keys[at + KIND]):
        integers(t, ATTRIBUTES)[owner * ATTRIBUTE_RECORD + ATTRIBUTE_REFERENCES] += 1
    _insert(t, KEY_SLOTS, counts[KEY_SLOTS_MASK], key)
    if key <= counts[KEYS_BESIDE]:
        _insert(t, KEY_SLOTS_BESIDE, _mask_beside(t), key)
    _count_use(t, kind, owner, 1)
    counts[KEYS_LIVE] += 1
    return key


@small_kernel
def _has_attribute(kind_word: int) -> bool:
    return kind_word >> 8 != 0 and kind_word & 255 != TILE


@small_kernel
def _count_use(t: Any, kind: int, owner: int, change: int) -> None:
    """Readers of publications look for words, and for tiles of a level, only while there are any."""
    counts = integers(t, COUNTS)
    if kind == WORD:
        counts[WORD_KEYS] += change
        counts[WORD_KEYS_CHANGED] += 1
    elif kind == TILE:
        level = owner >> TILE_LEVEL_SHIFT
        counts[TILE_KEYS_FIRST + level] += change
        if counts[TILE_KEYS_FIRST + level] == 0:
            counts[TILE_LEVELS] &= ~(1 << level)
        else:
            counts[TILE_LEVELS] |= 1 << level


@small_kernel
def child_hash(t: Any, node: int, key: int) -> tuple[Any, Any]:
    first, second = hash_word(secret_of(t), (uint64(node) << uint64(32)) | uint64(key))
    return key_hash(first, second, CHILD, 0)


@small_kernel
def child_bit(key: int) -> Any:
    """The bit that a child of this key sets in the record of its parent."""
    return uint64(1) << ((uint64(key) * uint64(0x9E3779B97F4A7C15)) >> uint64(58))


@small_kernel
def may_have_child(t: Any, node: int, key: int) -> bool:
    """Nearly always False where there is none, and much faster than to look for it."""
    bit = _bloom_bit(node, key)
    found: bool = (uint64(integers(t, CHILD_BLOOM)[bit >> uint64(6)]) >> (bit & uint64(63))) & uint64(1) != 0
    return found


@small_kernel
def _bloom_bit(node: int, key: int) -> Any:
    mixed = (uint64(node) << uint64(32) ^ uint64(key)) * uint64(0x9E3779B97F4A7C15)
    return (mixed ^ (mixed >> uint64(29))) * uint64(0xBF58476D1CE4E5B9) >> uint64(44)


@kernel
def add_child(t: Any, node: int, key: int) -> int:
    """The node under `node` for programs that demand `key` too."""
    first, second = child_hash(t, node, key)
    keys = integers(t, KEYS)
    child = find_key(t, first, second)
    if child == 0:
        child = add_key(t, first, second, CHILD, 0, 0.0)
        keys[child * RECORD + PARENT] = node
        keys[child * RECORD + OWN] = key
        keys[node * RECORD + REFERENCES] += 1
        keys[node * RECORD + CHILDREN] |= int64(child_bit(key))
        bit = _bloom_bit(node, key)
        integers(t, CHILD_BLOOM)[bit >> uint64(6)] |= int64(uint64(1) << (bit & uint64(63)))
        behind = keys[node * RECORD + FIRST_CHILD]
        keys[child * RECORD + BEFORE] = 0
        keys[child * RECORD + BEHIND] = behind
        if behind != 0:
            keys[behind * RECORD + BEFORE] = child
        keys[node * RECORD + FIRST_CHILD] = child
    return child


@kernel
def release_key(t: Any, key: int) -> None:
    """One reference less; what nothing refers to is forgotten, and perhaps its parent too."""
    keys = integers(t, KEYS)
    while key != 0:
        at = key * RECORD
        keys[at + REFERENCES] -= 1
        if keys[at + REFERENCES] > 0:
            return
        parent = keys[at + PARENT]
        if parent != 0:
            _unlink(t, parent, key)
        _forget(t, key)
        key = parent


@small_kernel
def _unlink(t: Any, parent: int, child: int) -> None:
    keys = integers(t, KEYS)
    before, behind = keys[child * RECORD + BEFORE], keys[child * RECORD + BEHIND]
    if before == 0:
        keys[parent * RECORD + FIRST_CHILD] = behind
    else:
        keys[before * RECORD + BEHIND] = behind
    if behind != 0:
        keys[behind * RECORD + BEFORE] = before


@small_kernel
def is_on_path(t: Any, node: int, key: int) -> bool:
    """Whether everything found at this node carries the key anyway."""
    keys = integers(t, KEYS)
    while node != 0:
        if keys[node * RECORD + OWN] == key:
            return True
        node = keys[node * RECORD + PARENT]
    return False


@small_kernel
def frequency(t: Any, key: int) -> float:
    """The share of publications that carry this key: as seen, or as assumed while too few were seen.

    Values that many subscriptions name are assumed to be the frequent ones.
    """
    keys = integers(t, KEYS)
    at = key * RECORD
    events = integers(t, COUNTS)[EVENTS_SEEN] - keys[at + BORN]
    if events >= _SEEN_ENOUGH:
        return (keys[at + SEEN] + 0.5) / (events + 1.0)
    prior = floats(t, KEYS)[at + PRIOR]
    named = keys[at + REFERENCES] / (integers(t, COUNTS)[PROGRAMS_LIVE] + _NAMED_ENOUGH)
    return prior + (1.0 - prior) * min(named, 1.0)


@kernel
def _forget(t: Any, key: int) -> None:
    counts, keys = integers(t, COUNTS), integers(t, KEYS)
    at = key * RECORD
    _take_out(t, KEY_SLOTS, counts[KEY_SLOTS_MASK], key)
    if key <= counts[KEYS_BESIDE]:
        _take_out(t, KEY_SLOTS_BESIDE, _mask_beside(t), key)
    kind, owner = keys[at + KIND] & 255, keys[at + KIND] >> 8
    _count_use(t, kind, owner, -1)
    if _has_attribute(keys[at + KIND]):
        release_attribute(t, owner)
    keys[at + HASH] = counts[KEYS_FREE]
    keys[at + REFERENCES] = -1
    counts[KEYS_FREE] = key
    counts[KEYS_LIVE] -= 1


# Tables of slots


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
