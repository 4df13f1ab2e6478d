"""The longest that a step of an event loop took lately: while it ran, nothing else did.

Processor time of the thread is taken, not time on the clock: what other processes take away is not the fault of a step.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from braid import metrics

WINDOW_S = 10.0


class LongestSteps:
    """Of each kind of step, the longest of this window and of the one before."""

    def __init__(self, layer: str) -> None:
        self._layer = layer
        self._current: dict[str, float] = {}
        self._before: dict[str, float] = {}
        self._ends_s = 0.0

    def note(self, step: str, seconds: float) -> None:
        if seconds > self._current.get(step, 0.0):
            self._current[step] = seconds

    @contextmanager
    def noting(self, step: str) -> Iterator[None]:
        started = time.thread_time()
        yield
        self.note(step, time.thread_time() - started)

    def show(self, now_s: float) -> None:
        for step in self._before.keys() | self._current.keys():
            longest = max(self._before.get(step, 0.0), self._current.get(step, 0.0))
            metrics.LONGEST_STEP_SECONDS.labels(self._layer, step).set(longest)
        if now_s >= self._ends_s:
            self._ends_s = now_s + WINDOW_S
            self._before, self._current = self._current, dict.fromkeys(self._current, 0.0)
