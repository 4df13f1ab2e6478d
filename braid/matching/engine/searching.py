"""From the facts of publications to the subscriptions they match.

Three steps, each for a whole batch, because each needs memory that the one before can have fetched: which facts may be
keys, which of them are, and the search under the keys that a publication carries.
"""

from typing import Any

from numba import int64, uint64

from braid.matching.engine import attributes as attribute
from braid.matching.engine import key_records as key
from braid.matching.engine.counts import AGE, CANDIDATES, HOT, HOT_FIRST, HOT_MAX, KEY_SLOTS_MASK, STAMP
from braid.matching.engine.kernel import entry, kernel, prefetch, small_kernel
from braid.matching.engine.key_slots import ID_BITS, ID_MASK, find_key
from braid.matching.engine.key_statistics import count_carried, count_publication
from braid.matching.engine.keys import ROOT, child_bit, child_hash, may_have_child
from braid.matching.engine.memory import (
    ATTRIBUTES,
    CARRIED,
    COUNTS,
    EVENTS,
    FACTS,
    KEY_SLOTS,
    KEYS,
    NUMBERS,
    SCRATCH,
    WORDS,
    floats,
    integers,
)
from braid.matching.engine.pool import LIST_COUNT, LIST_FIRST
from braid.matching.engine.programs import MEMBERS
from braid.matching.engine.range_search import search_blocks
from braid.matching.engine.reading import (
    CARRIED_END,
    EVENT,
    FACTS_END,
    GOOD,
    MATCHED_END,
    NUMBER_WORDS,
    NUMBERS_END,
    PENDING_END,
    STATUS,
)
from braid.matching.engine.regions import integers_at
from braid.matching.engine.reporting import report
from braid.matching.engine.scratch import LIVE_NODES
from braid.matching.engine.verifying import accepts

HOT_FROM = 1 << 14  # programs verified in vain under one anchor before better places are looked for
_MATCHED_AT_ONCE = 1 << 22
_AHEAD = 8  # programs that are fetched while others are verified
_EVENTS_AHEAD = 4  # publications whose programs are looked at to fetch what they lead to
_FACTS_AHEAD = 16  # facts whose slots are fetched while those of others are looked at


@entry
def resolve(t: Any, count: int) -> None:
    """Which keys each of the publications that were read carries."""
    events, facts, carried = integers(t, EVENTS), integers(t, FACTS), integers(t, CARRIED)
    slots, keys = integers(t, KEY_SLOTS), integers(t, KEYS)
    mask = uint64(integers(t, COUNTS)[KEY_SLOTS_MASK])
    # First only what the slots say, so that the records of the keys can be fetched.
    total = events[(count - 1) * EVENT + FACTS_END]
    for fact in range(total):
        if fact + _FACTS_AHEAD < total:
            prefetch(t[KEY_SLOTS] + 8 * int64(uint64(facts[2 * (fact + _FACTS_AHEAD)]) & mask))
        first = uint64(facts[2 * fact])
        slot = first & mask
        found = int64(0)
        while slots[slot] != 0:
            if (uint64(slots[slot]) ^ first) >> uint64(ID_BITS) == 0:
                found = slots[slot] & ID_MASK
                prefetch(t[KEYS] + 8 * key.RECORD * found)
                break
            slot = (slot + uint64(1)) & mask
        carried[fact] = found
    end, fact = 0, 0
    for event in range(count):
        while fact < events[event * EVENT + FACTS_END]:
            found = carried[fact]
            if found != 0:
                at = found * key.RECORD
                if keys[at + key.HASH] != facts[2 * fact] or keys[at + key.CHECK] != facts[2 * fact + 1]:
                    found = find_key(t, uint64(facts[2 * fact]), uint64(facts[2 * fact + 1]))
            if found != 0:
                _fetch_programs(t, found)
                carried[end] = found
                end += 1
            fact += 1
        events[event * EVENT + CARRIED_END] = end


@small_kernel
def _fetch_programs(t: Any, found: int) -> None:
    listed = integers(t, KEYS)[found * key.RECORD + key.LIST]
    if listed < 0:
        prefetch(t[WORDS] - 8 * listed)
        prefetch(t[WORDS] - 8 * listed + 64)
    elif listed > 0:
        prefetch(t[WORDS] + 8 * listed)


@entry
def search(t: Any, first: int, count: int, extra_ends: Any, extra_keys: Any, now_s: float, counted: int) -> int:
    """Finds the matches of publications from number `first` on; returns the number of the first left out.

    `extra_keys` are keys that were found elsewhere; those of a publication end where `extra_ends` says. What is not
    `counted` does not count as a publication that was seen.
    """
    events, carried, counts = integers(t, EVENTS), integers(t, CARRIED), integers(t, COUNTS)
    live = integers_at(t[SCRATCH] + 8 * LIVE_NODES)
    matched, pending = 0, 0
    for event in range(first, count):
        at = event * EVENT
        begin = events[at - EVENT + CARRIED_END] if event > 0 else 0
        if event + _EVENTS_AHEAD < count:
            _fetch_members(t, event + _EVENTS_AHEAD)
        if events[at + STATUS] == GOOD:
            if counted:
                count_publication(t)
            counts[STAMP] += 1
            _load_numbers(t, event)
            end = _stamp(t, begin, events[at + CARRIED_END], counted)
            extra_begin = extra_ends[event - 1] if event > 0 else 0
            nodes = end - begin
            for i in range(nodes):
                live[i] = carried[begin + i]
            for i in range(extra_begin, extra_ends[event]):
                nodes = _stamp_extra(t, extra_keys[i], live, nodes, counted)
            matched, pending = _search(t, event, live, nodes, matched, pending, now_s)
        events[at + MATCHED_END] = matched
        events[at + PENDING_END] = pending
        if matched + pending > _MATCHED_AT_ONCE:
            return event + 1
    return count


@small_kernel
def _fetch_members(t: Any, event: int) -> None:
    """Of the programs that were fetched when the keys were found."""
    events, carried = integers(t, EVENTS), integers(t, CARRIED)
    keys, words = integers(t, KEYS), integers(t, WORDS)
    for i in range(events[(event - 1) * EVENT + CARRIED_END], events[event * EVENT + CARRIED_END]):
        listed = keys[carried[i] * key.RECORD + key.LIST]
        if listed < 0:
            members = words[MEMBERS - listed]
            if members < 0:
                prefetch(t[WORDS] - 8 * members)
                prefetch(t[WORDS] - 8 * members + 64)


@small_kernel
def _load_numbers(t: Any, event: int) -> None:
    """The numbers and texts of this publication, where the conditions on ranges look for them."""
    events, places, values = integers(t, EVENTS), integers(t, NUMBERS), floats(t, NUMBERS)
    stamps, bounds = integers(t, ATTRIBUTES), floats(t, ATTRIBUTES)
    stamp = integers(t, COUNTS)[STAMP]
    number = events[(event - 1) * EVENT + NUMBERS_END] if event > 0 else 0
    while number < events[event * EVENT + NUMBERS_END]:
        if places[number] > 0:
            at = places[number] * attribute.RECORD
            stamps[at + attribute.STAMP] = stamp
            bounds[at + attribute.LOW] = values[number + 1]
            bounds[at + attribute.HIGH] = values[number + 2]
        else:
            at = -places[number] * attribute.RECORD
            stamps[at + attribute.TEXT_STAMP] = stamp
            stamps[at + attribute.TEXT_BEGIN] = places[number + 1]
            stamps[at + attribute.TEXT_END] = places[number + 2]
        number += NUMBER_WORDS


@small_kernel
def _stamp(t: Any, begin: int, end: int, counted: int) -> int:
    """Marks the carried keys as those of this publication; what is carried twice is dropped."""
    carried, keys = integers(t, CARRIED), integers(t, KEYS)
    stamp, age = integers(t, COUNTS)[STAMP], integers(t, COUNTS)[AGE]
    kept = begin
    for i in range(begin, end):
        at = carried[i] * key.RECORD
        if keys[at + key.STAMP] != stamp:
            keys[at + key.STAMP] = stamp
            if counted:
                count_carried(t, carried[i], age)
            carried[kept] = carried[i]
            kept += 1
    return kept


@small_kernel
def _stamp_extra(t: Any, extra: int, live: Any, nodes: int, counted: int) -> int:
    keys = integers(t, KEYS)
    stamp = integers(t, COUNTS)[STAMP]
    at = extra * key.RECORD
    if keys[at + key.STAMP] != stamp:
        keys[at + key.STAMP] = stamp
        if counted:
            count_carried(t, extra, integers(t, COUNTS)[AGE])
        live[nodes] = extra
        nodes += 1
    return nodes


@kernel
def _search(t: Any, event: int, live: Any, carried: int, matched: int, pending: int, now_s: float) -> tuple[int, int]:
    """Visits every node that the carried keys lead to. The first `carried` of `live` are those keys."""
    keys = integers(t, KEYS)
    live[carried] = ROOT
    nodes = carried + 1
    visited = 0
    while visited < nodes:
        node = live[visited]
        at = node * key.RECORD
        visited += 1
        listed, blocks = keys[at + key.LIST], keys[at + key.BLOCKS]
        if listed != 0:
            matched, pending = _search_list(t, event, node, listed, matched, pending, now_s)
        if blocks != 0:
            matched, pending = search_blocks(t, event, node, blocks, matched, pending, now_s)
        children = uint64(keys[at + key.CHILDREN])
        if children != 0:
            for i in range(carried):
                if children & child_bit(live[i]) and may_have_child(t, node, live[i]):
                    first, second = child_hash(t, node, live[i])
                    child = find_key(t, first, second)
                    if child != 0:
                        live[nodes] = child
                        nodes += 1
    return matched, pending


@small_kernel
def _search_list(
    t: Any, event: int, node: int, listed: int, matched: int, pending: int, now_s: float
) -> tuple[int, int]:
    words = integers(t, WORDS)
    if listed < 0:
        integers(t, COUNTS)[CANDIDATES] += 1
        if accepts(t, -listed):
            return report(t, event, -listed, matched, pending, now_s)
        return matched, pending
    count = words[listed + LIST_COUNT]
    first = listed + LIST_FIRST
    vain = 0
    for i in range(count):
        if i + _AHEAD < count:
            ahead = t[WORDS] + 8 * words[first + i + _AHEAD]
            prefetch(ahead)
            prefetch(ahead + 64)
        program = words[first + i]
        if accepts(t, program):
            matched, pending = report(t, event, program, matched, pending, now_s)
        else:
            vain += 1
    integers(t, COUNTS)[CANDIDATES] += count
    if vain > 4:
        _note_waste(t, node, vain)
    return matched, pending


@kernel
def _note_waste(t: Any, node: int, vain: int) -> None:
    keys, counts = integers(t, KEYS), integers(t, COUNTS)
    at = node * key.RECORD + key.WASTED
    before = keys[at]
    keys[at] += vain
    if before < HOT_FROM <= keys[at]:
        if counts[HOT] < HOT_MAX:
            counts[HOT_FIRST + counts[HOT]] = node
            counts[HOT] += 1
        else:
            keys[at] = before  # so that it comes here again when there is room
