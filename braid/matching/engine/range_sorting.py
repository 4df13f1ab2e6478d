"""Puts the programs of a block in order before it is filled: by where they begin to accept values of its first axis.

Then programs that accept the same values lie in the same columns, and most columns need not be looked at.
"""

from typing import Any

from braid.matching.engine import ranges
from braid.matching.engine.kernel import kernel
from braid.matching.engine.memory import SCRATCH
from braid.matching.engine.range_cuts import BUCKETS, DEMANDED, buckets_of
from braid.matching.engine.regions import integers_at
from braid.matching.engine.scratch import SORTED_BUCKETS, SORTED_PROGRAMS, SORTED_STARTS

_UNDEMANDED = BUCKETS  # stands behind all buckets for programs without a range over the axis


@kernel
def sort_for(t: Any, block: int, programs: Any, first: int, count: int) -> None:
    """Up to as many programs of the list as the block can hold, from place `first` on."""
    axis, cuts = ranges.axis_at(t, block, 0), ranges.cuts_at(t, block, 0)
    placed = integers_at(t[SCRATCH] + 8 * SORTED_PROGRAMS)
    buckets, starts = integers_at(t[SCRATCH] + 8 * SORTED_BUCKETS), integers_at(t[SCRATCH] + 8 * SORTED_STARTS)
    for bucket in range(_UNDEMANDED + 2):
        starts[bucket] = 0
    for i in range(count):
        begin, _, bounded = buckets_of(t, programs[first + i], axis, cuts)
        buckets[i] = begin if bounded & DEMANDED else _UNDEMANDED
        starts[buckets[i] + 1] += 1
    for bucket in range(_UNDEMANDED + 1):
        starts[bucket + 1] += starts[bucket]
    for i in range(count):
        placed[starts[buckets[i]]] = programs[first + i]
        starts[buckets[i]] += 1
    for i in range(count):
        programs[first + i] = placed[i]
