"""On which other subscriptions of its subscriber a `distinct` one relies when it is given its past.

It relies only on those of which is known since when they were given what they match (`given_from_s`). One that is being
given its past too may fail, so it is not relied on. At the same connection point it is seen what the other one gives
(`catching_up.py`); and one that has been given its past there is relied on before its matcher knows it, which may be
seconds later: subscriptions are kept back for a scaling. At another one it is waited for, if it is the earlier of the
two, or would not wait for this one: so of two that are made at the same time one waits for the other, and what both
match is given once. One that is never heard of again is not waited for any longer when it is old: then something may be
given twice, and nothing is missing.
"""

import math
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from braid.subscription import SubscriptionRecord

WITHOUT_MAX = 1_000
SETTLING_S_MAX = 30.0  # longer than it takes to be given a past


def begins_in_the_past(record: SubscriptionRecord) -> bool:
    return record.from_s is not None and record.from_s < record.created_s


def waited_for(record: SubscriptionRecord, others: Iterable[SubscriptionRecord], now_s: float) -> list[str]:
    """The ids of those that may be given their past in a moment."""
    return [
        other.id
        for other in others
        if begins_in_the_past(other)
        and other.given_from_s == math.inf
        and other.home != record.home
        and now_s - other.created_s < SETTLING_S_MAX
        and (not other.distinct or _place(other) < _place(record))
    ]


def relied_on(
    others: Iterable[SubscriptionRecord], given: Mapping[str, SubscriptionRecord]
) -> list[SubscriptionRecord]:
    """Those that were made last are first. `given` are those of this connection point whose matchers were still to be
    told, when the others were asked for.
    """
    settled = [known for other in others if (known := _as_given(other, given)).given_from_s < math.inf]
    return sorted(settled, key=_place, reverse=True)[:WITHOUT_MAX]


def _as_given(other: SubscriptionRecord, given: Mapping[str, SubscriptionRecord]) -> SubscriptionRecord:
    """One that was changed since then is another one: it was not given what it matches now."""
    known = given.get(other.id)
    return known if known is not None and replace(known, given_from_s=math.inf) == other else other


def _place(record: SubscriptionRecord) -> tuple[float, str]:
    return record.created_s, record.id
