"""Since when a subscription has been given what it matches: `SubscriptionRecord.given_from_s`, for `distinct` ones.

| what comes | what was given begins |
|---|---|
| a new one, or another content or `from` | now: what is published from here on finds it |
| a new one that begins in the past | nowhere yet; its connection point says where its past began when that is given |
| the same with another home or another end | where it did |

Acknowledged later than it was written, because an access point had to hear of it before, it begins then. That is known
in memory only: behind a crash or a scaling it begins when it was written.
"""

import math
from collections import OrderedDict

from msgspec.structs import replace

from braid.subscription import SubscriptionRecord

LATE_MAX = 100_000

Call = tuple[str, int]  # connection point and ref


def dated(record: SubscriptionRecord, before: SubscriptionRecord | None, now_s: float) -> SubscriptionRecord:
    """As it is to be stored, where `before` was there."""
    if before is not None and _content(before) == _content(record):
        given_from_s = before.given_from_s
    elif before is None and record.from_s is not None and record.from_s < record.created_s:
        given_from_s = math.inf
    else:
        given_from_s = now_s
    return record if record.given_from_s == given_from_s else replace(record, given_from_s=given_from_s)


def noted(before: SubscriptionRecord, given_from_s: float) -> SubscriptionRecord:
    """What its connection point says was given. It spoke of a content that may have been changed meanwhile."""
    was_said = before.given_from_s < math.inf
    return before if was_said and given_from_s < math.inf else replace(before, given_from_s=given_from_s)


class LateBeginnings:
    """Of those that were acknowledged later than they were written. Bounded: the oldest are forgotten first."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Call, float] = OrderedDict()  # calls that began something: when it was written
        self._moments: OrderedDict[str, tuple[float, float]] = OrderedDict()  # by id: written and acknowledged when

    def expect(self, call: Call, record: SubscriptionRecord) -> None:
        self._waiting[call] = record.given_from_s
        while len(self._waiting) > LATE_MAX:
            self._waiting.popitem(last=False)

    def on_acknowledged(self, call: Call, id: str, now_s: float) -> None:
        written_s = self._waiting.pop(call, None)
        if written_s is not None:
            self._moments[id] = written_s, now_s
            while len(self._moments) > LATE_MAX:
                self._moments.popitem(last=False)

    def applied(self, record: SubscriptionRecord) -> SubscriptionRecord:
        written_s, acknowledged_s = self._moments.get(record.id, (math.nan, 0.0))
        return replace(record, given_from_s=acknowledged_s) if record.given_from_s == written_s else record


def _content(record: SubscriptionRecord) -> tuple[object, ...]:
    return record.filter, record.words, record.topic, record.topic_scope, record.zone, record.from_s
