"""Latencies as counts between bounds that lie a tenth apart, so that percentiles are known to a tenth."""

from collections.abc import Sequence

import numpy as np

_FIRST_MS, _LAST_MS, _STEP = 0.1, 100_000.0, 1.1
UPPER_MS = _FIRST_MS * _STEP ** np.arange(int(np.log(_LAST_MS / _FIRST_MS) / np.log(_STEP)) + 2)


def histogram(latencies_s: Sequence[float]) -> list[tuple[float, int]]:
    """Upper bounds in milliseconds, and how many lie between the bound before and this one; empty ones are left out."""
    if not len(latencies_s):
        return []
    milliseconds = np.clip(1000 * np.asarray(latencies_s), 0.0, UPPER_MS[-1])
    counts = np.bincount(np.searchsorted(UPPER_MS, milliseconds, side="left"), minlength=len(UPPER_MS))
    return [(float(UPPER_MS[place]), int(counts[place])) for place in np.flatnonzero(counts)]


def percentile_ms(counts: Sequence[tuple[float, int]], share: float) -> float:
    """The smallest bound that so many lie below; 0 of none."""
    wanted, so_far = share * sum(count for _, count in counts), 0
    for upper_ms, count in counts:
        so_far += count
        if so_far >= wanted:
            return upper_ms
    return 0.0
