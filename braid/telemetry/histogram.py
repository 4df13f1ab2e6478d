"""Latencies as counts between bounds that lie a tenth apart, so that percentiles are known to a tenth.

The bounds are whole microseconds and the same everywhere, so histograms are merged by adding counts of equal bounds.
"""

from bisect import bisect_left

from braid.telemetry.sample import Bucket

_FIRST_US, _LAST_US, _STEP = 10, 100_000_000, 1.1


def _bounds() -> list[int]:
    bounds, bound = [], float(_FIRST_US)
    while bound < _LAST_US:
        bounds.append(round(bound))
        bound *= _STEP
    return [*bounds, _LAST_US]


UPPER_US = _bounds()


class Histogram:
    """Whatever lasted longer than the last bound counts as lasting that long."""

    def __init__(self) -> None:
        self._counts = [0] * len(UPPER_US)

    def add(self, seconds: float, count: int) -> None:
        self._counts[min(bisect_left(UPPER_US, seconds * 1e6), len(UPPER_US) - 1)] += count

    def take(self) -> list[Bucket]:
        """What was added since the last time; empty buckets are left out."""
        taken = [Bucket(upper, count) for upper, count in zip(UPPER_US, self._counts, strict=True) if count]
        if taken:
            self._counts = [0] * len(UPPER_US)
        return taken
