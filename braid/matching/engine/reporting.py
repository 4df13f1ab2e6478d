"""The members of a program that accepts: matches, or pairs that something is left to decide about."""

from typing import Any

from braid.matching.engine.counts import STAMP
from braid.matching.engine.kernel import prefetch, small_kernel
from braid.matching.engine.memory import (
    COUNTS,
    IDS,
    MATCHED,
    PENDING,
    SEEN,
    SUBSCRIPTIONS,
    WORDS,
    floats,
    integers,
)
from braid.matching.engine.pool import LIST_COUNT, LIST_FIRST
from braid.matching.engine.programs import (
    CHECKED,
    FROM,
    MEMBER_SHIFT,
    MEMBERS,
    REPEATED,
    SUBSCRIPTION,
    UNTIL,
    WINDOWED,
    ZONED,
)

PENDING_WORDS = 2  # publication, member


@small_kernel
def report(t: Any, event: int, program: int, matched: int, pending: int, now_s: float) -> tuple[int, int]:
    words = integers(t, WORDS)
    members = words[program + MEMBERS]
    if members > 0:
        return _report_member(t, event, members, matched, pending, now_s)
    first = LIST_FIRST - members
    for i in range(words[LIST_COUNT - members]):
        matched, pending = _report_member(t, event, words[first + i], matched, pending, now_s)
    return matched, pending


@small_kernel
def _report_member(t: Any, event: int, member: int, matched: int, pending: int, now_s: float) -> tuple[int, int]:
    subscription = member >> MEMBER_SHIFT
    flags = member & 15
    if flags != 0:
        if flags & WINDOWED:
            windows = floats(t, SUBSCRIPTIONS)
            at = subscription * SUBSCRIPTION
            if not windows[at + FROM] <= now_s < windows[at + UNTIL]:
                return matched, pending
        if flags & REPEATED:
            seen, stamp = integers(t, SEEN), integers(t, COUNTS)[STAMP]
            if seen[subscription] == stamp:
                return matched, pending
            seen[subscription] = stamp
        if flags & (CHECKED | ZONED):
            store = integers(t, PENDING)
            store[PENDING_WORDS * pending] = event
            store[PENDING_WORDS * pending + 1] = member
            return matched, pending + 1
    integers(t, MATCHED)[matched] = subscription
    prefetch(t[IDS] + 8 * subscription)  # before Python needs it
    return matched + 1, pending
