"""Samples that wait to be written. There is room for a bounded number; beyond it the oldest are dropped and counted."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from braid import metrics

WAITING_MAX = 600  # ten minutes of one sample a second


class Line(NamedTuple):
    """One sample as it is written."""

    number: int
    text: bytes


class Backlog:
    def __init__(self, most: int = WAITING_MAX) -> None:
        self._lines: deque[Line] = deque()
        self._most = most

    def __len__(self) -> int:
        return len(self._lines)

    def put(self, line: Line) -> None:
        self._lines.append(line)
        self._bound()

    def take(self, most: int = WAITING_MAX) -> list[Line]:
        return [self._lines.popleft() for _ in range(min(most, len(self._lines)))]

    def put_back(self, lines: Sequence[Line]) -> None:
        """They could not be written, and are the oldest again."""
        self._lines.extendleft(reversed(lines))
        self._bound()

    def _bound(self) -> None:
        while len(self._lines) > self._most:
            self._lines.popleft()
            metrics.TELEMETRY_DROPPED.labels("behind").inc()
