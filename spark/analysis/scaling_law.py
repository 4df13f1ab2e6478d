"""A model of what more slices would give: the universal scalability law, fitted to measured speedups.

    speedup(p) = p / (1 + contention * (p - 1) + coherence * p * (p - 1))

Contention is the part that cannot be done side by side, coherence what slices lose by waiting for one another. The law
is linear in both once it is turned over, so it is fitted by least squares with neither below zero. It is a model: what
it says beyond the measured slices was not measured.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

FITS = 0.5  # R²; a law that explains less of the speedups does not describe them

Numbers = np.ndarray[Any, np.dtype[np.float64]]


class ScalingLaw(NamedTuple):
    contention: float
    coherence: float
    r_squared: float  # of the speedups it was fitted to
    processors_max: int  # of these
    different: int  # numbers of processors beyond one among these

    def speedup(self, processors: float) -> float:
        lost = self.contention * (processors - 1) + self.coherence * processors * (processors - 1)
        return processors / (1 + lost)

    @property
    def describes(self) -> bool:
        """What it was fitted to; else nothing follows from it."""
        return self.r_squared >= FITS

    @property
    def is_judged(self) -> bool:
        """By R²: with as many unknowns as numbers of processors it is near 1 by construction.

        What the fit has left at zero is no unknown any more: without it the law may miss what was measured.
        """
        return self.different > self.unknowns

    @property
    def unknowns(self) -> int:
        return (self.contention > 0) + (self.coherence > 0)

    @property
    def ceiling(self) -> float:
        """The speedup that no number of slices is beyond."""
        if self.peak != float("inf"):
            return self.speedup(self.peak)
        return 1 / self.contention if self.contention else float("inf")

    @property
    def peak(self) -> float:
        """Where one more slice begins to slow everything down: 1 when the second does, infinite when none does."""
        if self.contention >= 1:
            return 1.0
        if self.coherence == 0:
            return float("inf")
        return max(1.0, float(np.sqrt((1 - self.contention) / self.coherence)))


def fit(points: Sequence[tuple[float, float]]) -> ScalingLaw | None:
    """Of processors and speedups. None when fewer than two differ from one processor: two unknowns need as many."""
    known = [(p, s) for p, s in points if p > 1 and s > 0]
    different = len({p for p, _ in known})
    if different < 2:
        return None
    p, s = np.array(known, dtype=float).T
    contention, coherence = _least_squares(np.column_stack([p - 1, p * (p - 1)]), p / s - 1)
    law = ScalingLaw(contention, coherence, 0.0, int(p.max()), different)
    predicted = np.array([law.speedup(one) for one in p])
    spread = float(((s - s.mean()) ** 2).sum())
    r_squared = 1 - float(((s - predicted) ** 2).sum()) / spread if spread else 1.0
    return law._replace(r_squared=r_squared)


def _least_squares(rows: Numbers, lost: Numbers) -> tuple[float, float]:
    """With neither below zero: where the best has one below, the best with that one at zero."""
    both = np.linalg.lstsq(rows, lost, rcond=None)[0]
    if (both >= 0).all():
        return float(both[0]), float(both[1])
    alone = [max(0.0, float(rows[:, i] @ lost / (rows[:, i] @ rows[:, i]))) for i in range(2)]
    errors = [float(((lost - rows[:, i] * alone[i]) ** 2).sum()) for i in range(2)]
    return (alone[0], 0.0) if errors[0] <= errors[1] else (0.0, alone[1])
