"""Which subscriptions lie under an anchor, and which anchors there are."""

from typing import Any

from braid.matching.engine import ranges
from braid.matching.engine.counts import KEYS_USED
from braid.matching.engine.kernel import entry, kernel
from braid.matching.engine.key_records import (
    BEHIND,
    BLOCKS,
    CHILDREN,
    FIRST_CHILD,
    LIST,
    OWN,
    PARENT,
    RECORD,
    REFERENCES,
)
from braid.matching.engine.memory import COUNTS, KEYS, MATCHED, SUBSCRIPTIONS, WORDS, integers
from braid.matching.engine.pool import LIST_COUNT, LIST_FIRST
from braid.matching.engine.programs import MEMBER_SHIFT, MEMBERS, NODE, PROGRAMS, SUBSCRIPTION, program_held


@entry
def anchors(t: Any) -> int:
    """Puts the keys that have programs under them into the region of matches; returns how many."""
    keys, found = integers(t, KEYS), integers(t, MATCHED)
    count = 0
    for key in range(1, integers(t, COUNTS)[KEYS_USED] + 1):
        at = key * RECORD
        used = keys[at + LIST] != 0 or keys[at + BLOCKS] != 0 or keys[at + FIRST_CHILD] != 0
        if used and keys[at + REFERENCES] > 0 and keys[at + PARENT] == 0:
            found[count] = key
            count += 1
    return count


@entry
def under(t: Any, anchor: int, limit: int) -> int:
    """Puts the subscriptions under this anchor into the region of matches, up to a limit; returns how many.

    One with several programs there is put several times.
    """
    keys, words = integers(t, KEYS), integers(t, WORDS)
    count = 0
    node = anchor
    while node != 0:
        at = node * RECORD
        listed = keys[at + LIST]
        if listed < 0:
            count = _put_members(t, -listed, count, limit)
        elif listed > 0:
            for i in range(words[listed + LIST_COUNT]):
                count = _put_members(t, words[listed + LIST_FIRST + i], count, limit)
        block = keys[at + BLOCKS]
        while block != 0:
            slots = ranges.slots_of(t, block)
            for slot in range(words[block + ranges.CAPACITY]):
                if words[slots + slot] != 0:
                    count = _put_members(t, words[slots + slot], count, limit)
            block = words[block + ranges.NEXT]
        if count >= limit:
            break
        node = _node_behind(t, node, anchor)
    return count


@kernel
def _node_behind(t: Any, node: int, anchor: int) -> int:
    """The next node of the trie, parents before children; 0 behind the last."""
    keys = integers(t, KEYS)
    if keys[node * RECORD + CHILDREN] != 0 and keys[node * RECORD + FIRST_CHILD] != 0:
        return keys[node * RECORD + FIRST_CHILD]
    while node != anchor:
        if keys[node * RECORD + BEHIND] != 0:
            return keys[node * RECORD + BEHIND]
        node = keys[node * RECORD + PARENT]
    return 0


@kernel
def _put_members(t: Any, program: int, count: int, limit: int) -> int:
    words, found = integers(t, WORDS), integers(t, MATCHED)
    members = words[program + MEMBERS]
    if members > 0:
        if count < limit:
            found[count] = members >> MEMBER_SHIFT
            count += 1
        return count
    for i in range(words[LIST_COUNT - members]):
        if count < limit:
            found[count] = words[LIST_FIRST - members + i] >> MEMBER_SHIFT
            count += 1
    return count


@entry
def anchors_of(t: Any, subscription: int) -> int:
    """Puts the anchors of the subscription's programs into the region of matches; returns how many."""
    words, found, keys = integers(t, WORDS), integers(t, MATCHED), integers(t, KEYS)
    held = integers(t, SUBSCRIPTIONS)[subscription * SUBSCRIPTION + PROGRAMS]
    programs = 1 if held > 0 else words[LIST_COUNT - held]
    for i in range(programs):
        node = words[(held if held > 0 else program_held(words[LIST_FIRST - held + i])) + NODE]
        while keys[node * RECORD + PARENT] != 0:
            node = keys[node * RECORD + PARENT]
        found[i] = keys[node * RECORD + OWN]
    return programs
