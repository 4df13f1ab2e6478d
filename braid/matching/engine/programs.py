"""Programs: conjunctions of conditions, each kept once however many subscriptions demand it.

A program lies in the pool; its position there is its name. `MEMBERS` is one member, or the negative position of a list
of them. A member is a subscription with four bits that say what is left to do when the program accepts.
"""

from typing import Any

from numba import int64, uint64

from braid.matching.engine.attributes import RECORD as ATTRIBUTE_RECORD
from braid.matching.engine.attributes import REFERENCES as ATTRIBUTE_REFERENCES
from braid.matching.engine.attributes import release_attribute
from braid.matching.engine.conditions import (
    NONE_OF,
    ONE_OF,
    TEXT_WITHIN,
    WITHIN,
    attribute_of_text_range,
    length_of_text_range,
)
from braid.matching.engine.counts import PROGRAM_MASKS_FIRST
from braid.matching.engine.hashing import mix
from braid.matching.engine.kernel import kernel, small_kernel
from braid.matching.engine.key_records import RECORD as KEY_RECORD
from braid.matching.engine.key_records import REFERENCES as KEY_REFERENCES
from braid.matching.engine.keys import release_key
from braid.matching.engine.memory import (
    ATTRIBUTES,
    COUNTS,
    KEYS,
    SCRATCH,
    SUBSCRIPTIONS,
    WORDS,
    integers,
)
from braid.matching.engine.pool import LIST_COUNT, LIST_FIRST, allocate, append, free, free_list
from braid.matching.engine.program_slots import (
    POSITION_BITS,
    POSITION_MASK,
    make_room_for_program,
    put_program,
    slots_of,
    table_of,
    take_program_out,
)
from braid.matching.engine.scratch import EMITTED

# A program: its head, then the words of its conditions.
SIZE, HASH, MEMBERS, NODE, PLACE, BLOCK, CONDITIONS = range(7)

# A member: subscription << 4 | flags.
MEMBER_SHIFT = 4
WINDOWED = 1  # its window must be open
REPEATED = 2  # it has several programs, and is reported once
CHECKED = 4  # the whole subscription must be evaluated
ZONED = 8  # its zone must meet that of the publication

# The record of a subscription. HOME: its place among the members of its program << HOME_BITS | its home. PROGRAMS: its
# program, or, when it is REPEATED, the negative position of a list of them: place among the members << 31 | program.
SUBSCRIPTION = 4  # words
PROGRAMS, FROM, UNTIL, HOME = range(4)
HOME_BITS = 24
HOME_MASK = (1 << HOME_BITS) - 1


@kernel
def find_or_make_program(t: Any, count: int) -> tuple[int, bool]:
    """The program of the words put together in the scratch region, and whether it is new."""
    scratch, words, counts = integers(t, SCRATCH), integers(t, WORDS), integers(t, COUNTS)
    hash = uint64(count)
    for i in range(count):
        hash = mix(hash ^ uint64(scratch[EMITTED + i])) + uint64(i)
    table = table_of(hash)
    make_room_for_program(t, table, words, HASH)
    slots, mask = slots_of(t, table), uint64(counts[PROGRAM_MASKS_FIRST + table])
    slot = hash & mask
    while slots[slot] != 0:
        entry = uint64(slots[slot])
        if (entry ^ hash) >> uint64(POSITION_BITS) == 0:
            program = int64(entry & uint64(POSITION_MASK))
            if words[program + SIZE] == CONDITIONS + count:
                same = True
                for i in range(count):
                    same &= words[program + CONDITIONS + i] == scratch[EMITTED + i]
                if same:
                    return program, False
        slot = (slot + uint64(1)) & mask
    program = allocate(t, CONDITIONS + count)
    words[program + SIZE] = CONDITIONS + count
    words[program + HASH] = int64(hash)
    words[program + MEMBERS] = 0
    words[program + BLOCK] = 0
    for i in range(count):
        words[program + CONDITIONS + i] = scratch[EMITTED + i]
    put_program(t, slot, hash, program)
    _hold_conditions(t, program)
    return program, True


@kernel
def forget_program(t: Any, program: int) -> None:
    """It is placed nowhere any more and has no members."""
    words = integers(t, WORDS)
    take_program_out(t, program, words, HASH)
    _release_conditions(t, program)
    free(t, program, words[program + SIZE])


@small_kernel
def program_held(entry: int) -> int:
    """The program in an entry of a subscription's list."""
    return entry & POSITION_MASK


@small_kernel
def place_held(entry: int) -> int:
    """Its place among the members of that program."""
    return entry >> POSITION_BITS


@kernel
def add_member(t: Any, program: int, member: int) -> None:
    words = integers(t, WORDS)
    members = words[program + MEMBERS]
    if members == 0:
        words[program + MEMBERS] = member
        _note_place(t, member, program, 0)
        return
    members = append(t, 0, members) if members > 0 else -members
    _note_place(t, member, program, words[members + LIST_COUNT])
    words[program + MEMBERS] = -append(t, members, member)


@small_kernel
def last_member(t: Any, program: int) -> int:
    """The one that came last, unless some have gone meanwhile; the program has members."""
    words = integers(t, WORDS)
    members = words[program + MEMBERS]
    return members if members > 0 else words[LIST_FIRST - members + words[LIST_COUNT - members] - 1]


@small_kernel
def _note_place(t: Any, member: int, program: int, place: int) -> None:
    """So that a member is found at once among many."""
    records, words = integers(t, SUBSCRIPTIONS), integers(t, WORDS)
    at = (member >> MEMBER_SHIFT) * SUBSCRIPTION
    if not member & REPEATED:
        records[at + HOME] = place << HOME_BITS | (records[at + HOME] & HOME_MASK)
        return
    block = -records[at + PROGRAMS]
    entry = block + LIST_FIRST + words[block + LIST_COUNT] - 1
    while words[entry] & POSITION_MASK != program:
        entry -= 1
    words[entry] = place << POSITION_BITS | program


@kernel
def remove_member(t: Any, program: int, place: int) -> bool:
    """Removes the member at this place; whether the program has no members left."""
    words = integers(t, WORDS)
    members = words[program + MEMBERS]
    if members >= 0:
        words[program + MEMBERS] = 0
        return True
    block = -members
    count = words[block + LIST_COUNT]
    first = block + LIST_FIRST
    if place != count - 1:
        last = words[first + count - 1]
        words[first + place] = last
        _note_place(t, last, program, place)
    words[block + LIST_COUNT] = count - 1
    if count == 1:
        free_list(t, block)
        words[program + MEMBERS] = 0
    return count == 1


@small_kernel
def length_of_condition(word: int) -> int:
    operation = word & 7
    if operation == WITHIN:
        return 3
    if operation in (ONE_OF, NONE_OF):
        return 1 + (word >> 3)
    if operation == TEXT_WITHIN:
        return length_of_text_range(word)
    return 1


@kernel
def _hold_conditions(t: Any, program: int) -> None:
    words, keys, attributes = integers(t, WORDS), integers(t, KEYS), integers(t, ATTRIBUTES)
    at, end = program + CONDITIONS, program + words[program + SIZE]
    while at < end:
        word = words[at]
        operation = word & 7
        if operation == WITHIN:
            attributes[(word >> 6) * ATTRIBUTE_RECORD + ATTRIBUTE_REFERENCES] += 1
        elif operation == TEXT_WITHIN:
            attributes[attribute_of_text_range(word) * ATTRIBUTE_RECORD + ATTRIBUTE_REFERENCES] += 1
        elif operation in (ONE_OF, NONE_OF):
            for i in range(word >> 3):
                keys[words[at + 1 + i] * KEY_RECORD + KEY_REFERENCES] += 1
        else:
            keys[(word >> 3) * KEY_RECORD + KEY_REFERENCES] += 1
        at += length_of_condition(word)


@kernel
def _release_conditions(t: Any, program: int) -> None:
    words = integers(t, WORDS)
    at, end = program + CONDITIONS, program + words[program + SIZE]
    while at < end:
        word = words[at]
        operation = word & 7
        if operation == WITHIN:
            release_attribute(t, word >> 6)
        elif operation == TEXT_WITHIN:
            release_attribute(t, attribute_of_text_range(word))
        elif operation in (ONE_OF, NONE_OF):
            for i in range(word >> 3):
                release_key(t, words[at + 1 + i])
        else:
            release_key(t, word >> 3)
        at += length_of_condition(word)
