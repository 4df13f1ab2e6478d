"""How often keys are carried by publications.

Counts grow old: after many publications all of them are halved, so that what is published now counts most. To halve
them all at once would keep everybody waiting, so a key halves its own when it is next looked at: SEEN holds the count
and behind it the age, the number of halvings, that it is of. BORN, the count of publications before it came, is of the
same age.
"""

from typing import Any

from braid.matching.engine.counts import AGE, EVENTS_SEEN, PROGRAMS_LIVE
from braid.matching.engine.kernel import kernel, small_kernel
from braid.matching.engine.key_records import BORN, PRIOR, RECORD, REFERENCES, SEEN
from braid.matching.engine.memory import COUNTS, KEYS, floats, integers

HALVED_AFTER = 1 << 16  # publications
_AGE_SHIFT = 24
_SEEN_MASK = (1 << _AGE_SHIFT) - 1
_HALVINGS_MAX = 32  # nothing is left of a count after so many
_NAMED_ENOUGH = 100.0  # programs before it tells something which keys they demand
_SEEN_ENOUGH = 64  # publications before what they carried counts more than what was assumed


@small_kernel
def begin_counting(t: Any, key: int) -> None:
    """A new key, whose record is empty."""
    counts, keys = integers(t, COUNTS), integers(t, KEYS)
    keys[key * RECORD + BORN] = counts[EVENTS_SEEN]
    keys[key * RECORD + SEEN] = counts[AGE] << _AGE_SHIFT


@small_kernel
def count_publication(t: Any) -> None:
    counts = integers(t, COUNTS)
    counts[EVENTS_SEEN] += 1
    if counts[EVENTS_SEEN] >= HALVED_AFTER:
        counts[EVENTS_SEEN] //= 2
        counts[AGE] += 1


@small_kernel
def count_carried(t: Any, key: int, age: int) -> None:
    """`age` is that of all counts."""
    keys = integers(t, KEYS)
    at = key * RECORD + SEEN
    if keys[at] >> _AGE_SHIFT != age:
        _grow_older(t, key)
    keys[at] += 1


@kernel
def _grow_older(t: Any, key: int) -> None:
    keys = integers(t, KEYS)
    seen, born = _aged(t, key)
    keys[key * RECORD + SEEN] = integers(t, COUNTS)[AGE] << _AGE_SHIFT | seen
    keys[key * RECORD + BORN] = born


@small_kernel
def _aged(t: Any, key: int) -> tuple[int, int]:
    """How often it was seen, and how many publications came before it, as these count now."""
    keys = integers(t, KEYS)
    at = key * RECORD
    halvings = min(integers(t, COUNTS)[AGE] - (keys[at + SEEN] >> _AGE_SHIFT), _HALVINGS_MAX)
    return (keys[at + SEEN] & _SEEN_MASK) >> halvings, keys[at + BORN] >> halvings


@small_kernel
def frequency(t: Any, key: int) -> float:
    """The share of publications that carry this key: as seen, or as assumed while too few were seen.

    Values that many subscriptions name are assumed to be the frequent ones.
    """
    keys = integers(t, KEYS)
    at = key * RECORD
    seen, born = _aged(t, key)
    events = integers(t, COUNTS)[EVENTS_SEEN] - born
    if events >= _SEEN_ENOUGH:
        return (seen + 0.5) / (events + 1.0)
    prior = floats(t, KEYS)[at + PRIOR]
    named = keys[at + REFERENCES] / (integers(t, COUNTS)[PROGRAMS_LIVE] + _NAMED_ENOUGH)
    return prior + (1.0 - prior) * min(named, 1.0)
