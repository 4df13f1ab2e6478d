"""Adding and removing subscriptions, and what publications teach about where they are best kept."""

from typing import Any

from numba import uint64

from braid.matching.engine.conditions import COUNT, END, HAS, KIND, ONE_OF, OPERATION, ROW, STOP, emit, is_strong
from braid.matching.engine.counts import HOT, HOT_FIRST
from braid.matching.engine.filter_reading import read_filter
from braid.matching.engine.kernel import entry, kernel
from braid.matching.engine.keys import EVERY, RECORD, REFERENCES, WASTED, add_key
from braid.matching.engine.memory import COUNTS, INPUT, KEYS, SCRATCH, SUBSCRIPTIONS, WORDS, floats, integers
from braid.matching.engine.placing import displace, find_better_places, place
from braid.matching.engine.pool import LIST_COUNT, LIST_FIRST, append, free_list
from braid.matching.engine.programs import (
    FROM,
    HOME,
    MEMBER_SHIFT,
    PROGRAMS,
    REPEATED,
    SUBSCRIPTION,
    UNTIL,
    add_member,
    find_or_make_program,
    forget_program,
    remove_member,
)
from braid.matching.engine.searching import HOT_FROM

EXPANDED_MAX = 64  # values of an `in` under each of which a program is kept
_EXPANDED_ROWS_MAX = 4096  # conditions of all these programs together
_EXPANDED_IN_ALL_MAX = 1024  # programs of one subscription before its further conjunctions are kept whole
_PATIENCE = 8  # how much longer an anchor without better places is left in peace
_MOVED_AT_ONCE = 1024


@entry
def start(t: Any) -> None:
    """The key that every publication carries."""
    root = add_key(t, uint64(1), uint64(1), EVERY, 0, 1.0)
    integers(t, KEYS)[root * RECORD + REFERENCES] = 1


ADD_ROWS, ADD_PLAIN, REMOVE, ADAPT = range(4)


@entry
def change(t: Any, what: int, first: int, numbers: Any, ends: Any, flags: Any, homes: Any, windows_s: Any) -> int:
    """All changes are one entry, because an entry is compiled with everything it calls.

    ADD_ROWS adds the subscription that the rows in the scratch region describe. ADD_PLAIN adds subscriptions whose
    filters stand in the input region, each followed by one byte, and stops before the first whose filter is not plain.
    REMOVE removes. The subscriptions are those from place `first` of the arrays on; the place of the first one left is
    returned. ADAPT looks for better places for what lies under hot anchors, and returns how many programs moved.
    """
    if what == ADAPT:
        return _adapt(t)
    for i in range(first, len(numbers)):
        if what == REMOVE:
            _remove(t, numbers[i])
            continue
        if what == ADD_PLAIN:
            start = t[INPUT] + (ends[i - 1] if i > 0 else 0)
            if not read_filter(t, start, t[INPUT] + ends[i] - 1):
                return i
        _add(t, numbers[i], flags[i], homes[i], windows_s[i, 0], windows_s[i, 1])
    return len(numbers)


@kernel
def _add(t: Any, subscription: int, flags: int, home: int, from_s: float, until_s: float) -> None:
    rows, records, windows = integers(t, SCRATCH), integers(t, SUBSCRIPTIONS), floats(t, SUBSCRIPTIONS)
    at = subscription * SUBSCRIPTION
    records[at + PROGRAMS] = 0
    records[at + HOME] = home
    windows[at + FROM] = from_s
    windows[at + UNTIL] = until_s
    # With several programs a subscription could be reported several times.
    last = _end_of_conjunction(t, 0)
    single = rows[(last + 1) * ROW + OPERATION] == STOP and _expanded(t, 0, last) < 0
    member = subscription << MEMBER_SHIFT | flags | (0 if single else REPEATED)
    first, added = 0, 0
    while rows[first * ROW + OPERATION] != STOP:
        last = _end_of_conjunction(t, first)
        expanded = _expanded(t, first, last) if added < _EXPANDED_IN_ALL_MAX else -1
        added += 1 if expanded < 0 else rows[expanded * ROW + COUNT]
        if expanded < 0:
            _add_program(t, emit(t, first, last, -1, 0), subscription, member)
        else:
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
    return best if fewest * (last - first) <= _EXPANDED_ROWS_MAX else -1


@kernel
def _add_program(t: Any, count: int, subscription: int, member: int) -> None:
    program, is_new = find_or_make_program(t, count)
    if is_new:
        place(t, program)
    records = integers(t, SUBSCRIPTIONS)
    at = subscription * SUBSCRIPTION + PROGRAMS
    held = records[at]
    if held == 0:
        records[at] = program
    else:
        block = -held if held < 0 else append(t, 0, held)
        words = integers(t, WORDS)
        for i in range(words[block + LIST_COUNT]):
            if words[block + LIST_FIRST + i] == program:
                records[at] = -block
                return  # two alternatives that come to the same
        records[at] = -append(t, block, program)
    add_member(t, program, member)


@kernel
def _remove(t: Any, subscription: int) -> None:
    records, words = integers(t, SUBSCRIPTIONS), integers(t, WORDS)
    at = subscription * SUBSCRIPTION + PROGRAMS
    held = records[at]
    if held > 0:
        _remove_program(t, held, subscription)
    elif held < 0:
        for i in range(words[LIST_COUNT - held]):
            _remove_program(t, words[LIST_FIRST - held + i], subscription)
        free_list(t, -held)
    records[at] = 0


@kernel
def _remove_program(t: Any, program: int, subscription: int) -> None:
    if remove_member(t, program, subscription):
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
