"""Keys: what a publication can carry and a subscription can demand.

A value of an attribute, a beginning of its text, a word, a topic, a tile: each that any subscription speaks of has one
record here. A key is also an anchor: the programs found under it hang on its record. An anchor with many programs is
split into children, each the key of (anchor, another key); so anchors form tries, as words do in trie matching.
"""

from typing import Any

from numba import int64, uint64

from braid.matching.engine.attributes import RECORD as ATTRIBUTE_RECORD
from braid.matching.engine.attributes import REFERENCES as ATTRIBUTE_REFERENCES
from braid.matching.engine.attributes import release_attribute
from braid.matching.engine.counts import KEYS_FREE, KEYS_LIVE, KEYS_USED
from braid.matching.engine.hashing import hash_word, key_hash, secret_of
from braid.matching.engine.kernel import kernel, small_kernel
from braid.matching.engine.key_records import (
    BEFORE,
    BEHIND,
    CHECK,
    CHILD,
    CHILDREN,
    FIRST_CHILD,
    HASH,
    KIND,
    OWN,
    PARENT,
    PRIOR,
    RECORD,
    REFERENCES,
    SPLIT_AT,
    attribute_of,
)
from braid.matching.engine.key_slots import find_key, leave_out, make_room, take_in
from braid.matching.engine.key_statistics import begin_counting
from braid.matching.engine.key_uses import note_coming, note_leaving
from braid.matching.engine.memory import (
    ATTRIBUTES,
    CHILD_SIEVE,
    CHILD_SIEVE_COUNTS,
    COUNTS,
    KEYS,
    floats,
    integers,
)
from braid.matching.engine.sieves import may_hold, put_into, take_from

ROOT = 1  # the key that every publication carries
SPLIT_FIRST = 96  # programs under an anchor before it is split
_FEW_CHILDREN = 8  # of which it is looked anew which bits they set


@kernel
def add_key(t: Any, first: Any, second: Any, kind: int, owner: int, prior: float) -> int:
    """The key of this hash; a new one has no references yet. Of the owner see `key_records`."""
    key = find_key(t, first, second)
    if key != 0:
        return key
    counts, keys = integers(t, COUNTS), integers(t, KEYS)
    make_room(t)
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
    keys[at + OWN] = key
    floats(t, KEYS)[at + PRIOR] = prior
    keys[at + SPLIT_AT] = SPLIT_FIRST
    keys[at + KIND] = owner << 8 | kind
    begin_counting(t, key)
    attribute = attribute_of(keys[at + KIND])
    if attribute != 0:
        integers(t, ATTRIBUTES)[attribute * ATTRIBUTE_RECORD + ATTRIBUTE_REFERENCES] += 1
    take_in(t, key)
    note_coming(t, key)
    counts[KEYS_LIVE] += 1
    return key


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
    return may_hold(t, CHILD_SIEVE, _child_place(node, key))


@small_kernel
def _child_place(node: int, key: int) -> Any:
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
        put_into(t, CHILD_SIEVE, CHILD_SIEVE_COUNTS, _child_place(node, key))
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


@kernel
def _unlink(t: Any, parent: int, child: int) -> None:
    keys = integers(t, KEYS)
    before, behind = keys[child * RECORD + BEFORE], keys[child * RECORD + BEHIND]
    if before == 0:
        keys[parent * RECORD + FIRST_CHILD] = behind
    else:
        keys[before * RECORD + BEHIND] = behind
    if behind != 0:
        keys[behind * RECORD + BEFORE] = before
    take_from(t, CHILD_SIEVE, CHILD_SIEVE_COUNTS, _child_place(parent, keys[child * RECORD + OWN]))
    _note_children(t, parent)


@small_kernel
def _note_children(t: Any, parent: int) -> None:
    """Which bits the children of a node set, where there are so few that some are clear."""
    keys = integers(t, KEYS)
    bits, count = uint64(0), 0
    child = keys[parent * RECORD + FIRST_CHILD]
    while child != 0:
        if count == _FEW_CHILDREN:
            return
        bits |= child_bit(keys[child * RECORD + OWN])
        child = keys[child * RECORD + BEHIND]
        count += 1
    keys[parent * RECORD + CHILDREN] = int64(bits)


@small_kernel
def is_on_path(t: Any, node: int, key: int) -> bool:
    """Whether everything found at this node carries the key anyway."""
    keys = integers(t, KEYS)
    while node != 0:
        if keys[node * RECORD + OWN] == key:
            return True
        node = keys[node * RECORD + PARENT]
    return False


@kernel
def _forget(t: Any, key: int) -> None:
    counts, keys = integers(t, COUNTS), integers(t, KEYS)
    at = key * RECORD
    leave_out(t, key)
    note_leaving(t, key)
    attribute = attribute_of(keys[at + KIND])
    if attribute != 0:
        release_attribute(t, attribute)
    keys[at + HASH] = counts[KEYS_FREE]
    keys[at + REFERENCES] = -1
    counts[KEYS_FREE] = key
    counts[KEYS_LIVE] -= 1
