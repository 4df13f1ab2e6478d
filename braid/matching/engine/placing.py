"""Where a program is kept: under its most selective key, and deeper when many are kept there.

Invariant: a program lies at exactly one node, and the path to the node consists of keys the program demands. So a
publication that satisfies the program reaches it, and reaches it once.
"""

from typing import Any

from braid.matching.engine import ranges
from braid.matching.engine.conditions import HAS
from braid.matching.engine.counts import STAMP
from braid.matching.engine.kernel import kernel
from braid.matching.engine.key_records import (
    BLOCKS,
    CHILDREN,
    IS_NUMBER,
    IS_STRING,
    KIND,
    LIST,
    OWN,
    PARENT,
    RECORD,
    REFERENCES,
    SPLIT_AT,
    attribute_of,
)
from braid.matching.engine.key_statistics import frequency
from braid.matching.engine.keys import ROOT, SPLIT_FIRST, add_child, is_on_path, release_key
from braid.matching.engine.memory import COUNTS, KEYS, SCRATCH, WORDS, integers
from braid.matching.engine.node_lists import listed, put_at_node, take_from_node
from braid.matching.engine.pool import LIST_COUNT, LIST_FIRST
from braid.matching.engine.programs import CONDITIONS, NODE, SIZE, length_of_condition
from braid.matching.engine.range_axes import OF_TEXTS, axis_of
from braid.matching.engine.range_gathering import gather_ranges
from braid.matching.engine.regions import integers_at
from braid.matching.engine.scratch import SPLIT_WAITING

_CLEARLY = 0.9
_WORTH_A_CHILD = 0.5  # a key that more publications than this carry does not help to find a program
_WORTH_A_CHILD_OF_RANGES = 0.05  # and one that only says that there is a value for a range, as bitmaps do too
_WAITING_MAX = 4096


@kernel
def best_key(t: Any, program: int, node: int) -> int:
    """The rarest key the program demands that is not on the path to the node; 0 without any."""
    words = integers(t, WORDS)
    best, best_frequency = 0, 2.0
    at, end = program + CONDITIONS, program + words[program + SIZE]
    while at < end:
        word = words[at]
        if word & 7 == HAS:
            key = word >> 3
            rate = frequency(t, key)
            # Only what is clearly rarer counts, so that like programs come to like places.
            if rate < _CLEARLY * best_frequency and not is_on_path(t, node, key):
                best, best_frequency = key, rate
        at += length_of_condition(word)
    return best


@kernel
def _is_worth_a_child(t: Any, program: int, key: int) -> bool:
    rate = frequency(t, key)
    if rate >= _WORTH_A_CHILD:
        return False
    if rate < _WORTH_A_CHILD_OF_RANGES:
        return True
    kind_word = integers(t, KEYS)[key * RECORD + KIND]
    kind = kind_word & 255
    if kind not in (IS_NUMBER, IS_STRING):
        return True
    wanted = attribute_of(kind_word) << 1 | (OF_TEXTS if kind == IS_STRING else 0)
    words = integers(t, WORDS)
    at, end = program + CONDITIONS, program + words[program + SIZE]
    while at < end:
        if axis_of(words[at]) == wanted:
            return False
        at += length_of_condition(words[at])
    return True


@kernel
def place(t: Any, program: int) -> None:
    keys = integers(t, KEYS)
    key = best_key(t, program, 0)
    node = key if key != 0 else ROOT
    while keys[node * RECORD + CHILDREN] != 0:
        key = best_key(t, program, node)
        if key == 0 or not _is_worth_a_child(t, program, key):
            break
        node = add_child(t, node, key)
    put_at_node(t, node, program)
    if listed(t, node) > keys[node * RECORD + SPLIT_AT]:
        split(t, node)


@kernel
def displace(t: Any, program: int) -> None:
    """Takes the program away from its node."""
    node = integers(t, WORDS)[program + NODE]
    take_from_node(t, node, program)
    release_key(t, node)


@kernel
def split(t: Any, node: int) -> None:
    """Programs that demand further keys go to children, those with ranges into bitmaps, the others stay."""
    keys, words = integers(t, KEYS), integers(t, WORDS)
    waiting = integers_at(t[SCRATCH] + 8 * SPLIT_WAITING)  # children that have become too long meanwhile
    waiting[0] = node
    count = 1
    while count > 0:
        count -= 1
        node = waiting[count]
        block = keys[node * RECORD + LIST]
        for i in range(words[block + LIST_COUNT] - 1, -1, -1):
            program = words[keys[node * RECORD + LIST] + LIST_FIRST + i]
            key = best_key(t, program, node)
            if key != 0 and _is_worth_a_child(t, program, key):
                child = add_child(t, node, key)
                take_from_node(t, node, program)
                keys[node * RECORD + REFERENCES] -= 1
                put_at_node(t, child, program)
                if count < _WAITING_MAX and listed(t, child) == SPLIT_FIRST + 1:
                    waiting[count] = child
                    count += 1
        if keys[node * RECORD + LIST] > 0:
            gather_ranges(t, node)
        rest = listed(t, node)
        # Where there are blocks, few wait for the next split: each of them is verified for every publication.
        fewest = 0 if keys[node * RECORD + BLOCKS] != 0 else SPLIT_FIRST
        keys[node * RECORD + SPLIT_AT] = max(fewest, rest + max(ranges.COLUMN // 2, rest // 4))


@kernel
def find_better_places(t: Any, node: int, limit: int) -> int:
    """Programs of this node for which publications have shown a much rarer key go there; how many did."""
    keys, words = integers(t, KEYS), integers(t, WORDS)
    top = node
    while keys[top * RECORD + PARENT] != 0:
        top = keys[top * RECORD + PARENT]
    moved = 0
    # Of a long list another part every time.
    i = integers(t, COUNTS)[STAMP] % max(1, listed(t, node) - limit + 1)
    last = i + limit
    keys[node * RECORD + REFERENCES] += 1  # it must not be forgotten meanwhile
    while i < listed(t, node) and i + moved < last:
        block = keys[node * RECORD + LIST]
        program = -block if block < 0 else words[block + LIST_FIRST + i]
        key = best_key(t, program, 0)
        if key != 0 and 2.0 * frequency(t, key) < frequency(t, keys[top * RECORD + OWN]):
            displace(t, program)
            place(t, program)
            moved += 1
        else:
            i += 1
    release_key(t, node)
    return moved
