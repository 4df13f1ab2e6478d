"""Adding and removing subscriptions, and what publications teach about where they are best kept."""

from typing import Any

from numba import uint64

from braid.matching.engine.conditions import COUNT, END, HAS, KIND, ONE_OF, OPERATION, ROW, STOP, is_strong
from braid.matching.engine.counts import HOT, HOT_FIRST
from braid.matching.engine.emitting import emit
from braid.matching.engine.fetching import fetch_items
from braid.matching.engine.filter_reading import read_filter
from braid.matching.engine.given_rows import take_rows
from braid.matching.engine.kernel import entry, kernel
from braid.matching.engine.key_records import EVERY, RECORD, REFERENCES, WASTED
from braid.matching.engine.keys import add_key
from braid.matching.engine.memory import CHANGES, COUNTS, INPUT, KEYS, SCRATCH, SUBSCRIPTIONS, WORDS, floats, integers
from braid.matching.engine.placing import displace, find_better_places, place
from braid.matching.engine.pool import LIST_COUNT, LIST_FIRST, append, free_list
from braid.matching.engine.programs import (
    FROM,
    HOME,
    HOME_BITS,
    MEMBER_SHIFT,
    PROGRAMS,
    REPEATED,
    SUBSCRIPTION,
    UNTIL,
    add_member,
    find_or_make_program,
    forget_program,
    last_member,
    place_held,
    program_held,
    remove_member,
)
from braid.matching.engine.searching import HOT_FROM

EXPANDED_MAX = 1024  # values of an `in` under each of which a program is kept
_EXPANDED_ROWS_MAX = 16384  # rows of the other conditions of all these programs together
_EXPANDED_IN_ALL_MAX = 1024  # programs of one subscription before its further conjunctions are kept whole
_PATIENCE = 8  # how much longer an anchor without better places is left in peace
_MOVED_AT_ONCE = 1024


@entry
def start(t: Any) -> None:
    """The key that every publication carries."""
    root = add_key(t, uint64(1), uint64(1), EVERY, 0, 1.0)
    integers(t, KEYS)[root * RECORD + REFERENCES] = 1


ADD_ROWS, ADD_PLAIN, REMOVE, ADAPT = range(4)

# A change: one subscription. Its filter and its given rows begin where those of the one before it end.
CHANGE = 8  # words
NUMBER, FLAGS, HOME_NUMBER, FROM_S, UNTIL_S, TEXT_END, ROWS_END, DONE = range(CHANGE)


@entry
def change(t: Any, what: int, first: int, count: int) -> int:
    """All changes are one entry, because an entry is compiled with everything it calls.

    ADD_PLAIN adds the first `count` subscriptions of the region of changes. Their filters stand in the input region,
    each followed by one byte. Those whose filter is not plain are left out and not marked as DONE; returns how many
    were added. ADD_ROWS adds the one subscription whose given rows are all there is to know. REMOVE removes that of the
    number `first`. ADAPT looks for better places for what lies under hot anchors, and returns how many programs moved.
    """
    if what == ADAPT:
        return _adapt(t)
    if what == REMOVE:
        _remove(t, first)
        return 1
    changes = integers(t, CHANGES)
    added, text, given = 0, 0, 0
    for i in range(count):
        at = i * CHANGE
        row = take_rows(t, given, changes[at + ROWS_END])
        if what == ADD_ROWS or read_filter(t, t[INPUT] + text, t[INPUT] + changes[at + TEXT_END] - 1, row):
            _add(t, changes[at + NUMBER], at)
            changes[at + DONE] = 1
            added += 1
        text, given = changes[at + TEXT_END], changes[at + ROWS_END]
    return added


@kernel
def _add(t: Any, subscription: int, change_at: int) -> None:
    """The subscription that the rows in the scratch region describe, and what its change says besides."""
    rows, records, windows = integers(t, SCRATCH), integers(t, SUBSCRIPTIONS), floats(t, SUBSCRIPTIONS)
    changes, instants_s = integers(t, CHANGES), floats(t, CHANGES)
    at = subscription * SUBSCRIPTION
    records[at + PROGRAMS] = 0
    records[at + HOME] = changes[change_at + HOME_NUMBER]
    windows[at + FROM] = instants_s[change_at + FROM_S]
    windows[at + UNTIL] = instants_s[change_at + UNTIL_S]
    # With several programs a subscription could be reported several times.
    last = _end_of_conjunction(t, 0)
    single = rows[(last + 1) * ROW + OPERATION] == STOP and _expanded(t, 0, last) < 0
    member = subscription << MEMBER_SHIFT | changes[change_at + FLAGS] | (0 if single else REPEATED)
    first, added = 0, 0
    while rows[first * ROW + OPERATION] != STOP:
        last = _end_of_conjunction(t, first)
        expanded = _expanded(t, first, last) if added < _EXPANDED_IN_ALL_MAX else -1
        added += 1 if expanded < 0 else rows[expanded * ROW + COUNT]
        if expanded < 0:
            _add_program(t, emit(t, first, last, -1, 0), subscription, member)
        else:
            fetch_items(t, expanded)
            for item in range(rows[expanded * ROW + COUNT]):
                _add_program(t, emit(t, first, last, expanded, item), subscription, member)
        first = last + 1


@kernel
def _end_of_conjunction(t: Any, row: int) -> int:
    rows = integers(t, SCRATCH)
    while rows[row * ROW + OPERATION] != END:
        row += 1
    return row


@kernel
def _expanded(t: Any, first: int, last: int) -> int:
    """The row whose keys the conjunction is kept under, when it demands one of several and nothing better; or -1."""
    rows = integers(t, SCRATCH)
    best, fewest, row = -1, EXPANDED_MAX + 1, first
    while row < last:
        at = row * ROW
        if rows[at + OPERATION] == HAS and is_strong(rows[at + KIND]):
            return -1
        if rows[at + OPERATION] == ONE_OF and rows[at + COUNT] < fewest:
            best, fewest = row, rows[at + COUNT]
        row += 1
    return best if fewest * (last - first - fewest) <= _EXPANDED_ROWS_MAX else -1


@kernel
def _add_program(t: Any, count: int, subscription: int, member: int) -> None:
    program, is_new = find_or_make_program(t, count)
    if is_new:
        place(t, program)
    records = integers(t, SUBSCRIPTIONS)
    at = subscription * SUBSCRIPTION + PROGRAMS
    if member & REPEATED:
        if not is_new and last_member(t, program) >> MEMBER_SHIFT == subscription:
            return  # two alternatives that come to the same
        records[at] = -append(t, -records[at], program)
    else:
        records[at] = program
    add_member(t, program, member)


@kernel
def _remove(t: Any, subscription: int) -> None:
    records, words = integers(t, SUBSCRIPTIONS), integers(t, WORDS)
    at = subscription * SUBSCRIPTION + PROGRAMS
    held = records[at]
    if held > 0:
        _remove_program(t, held, records[subscription * SUBSCRIPTION + HOME] >> HOME_BITS)
    elif held < 0:
        for i in range(words[LIST_COUNT - held]):
            entry = words[LIST_FIRST - held + i]
            _remove_program(t, program_held(entry), place_held(entry))
        free_list(t, -held)
    records[at] = 0


@kernel
def _remove_program(t: Any, program: int, place: int) -> None:
    if remove_member(t, program, place):
        displace(t, program)
        forget_program(t, program)


@kernel
def _adapt(t: Any) -> int:
    """Looks for better places for what lies under the anchors where most was verified in vain; how many moved."""
    counts, keys = integers(t, COUNTS), integers(t, KEYS)
    moved = 0
    while counts[HOT] > 0 and moved < _MOVED_AT_ONCE:
        counts[HOT] -= 1
        node = counts[HOT_FIRST + counts[HOT]]
        at = node * RECORD
        if keys[at + REFERENCES] > 0 and keys[at + WASTED] >= HOT_FROM:
            found = find_better_places(t, node, _MOVED_AT_ONCE)
            if keys[at + REFERENCES] > 0:
                keys[at + WASTED] = 0 if found > 0 else -_PATIENCE * HOT_FROM
            moved += found
    return moved
