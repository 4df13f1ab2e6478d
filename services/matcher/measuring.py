"""What telemetry tells of a matcher: publications that were matched, how long that and the answer took, which anchors
the subscriptions are under that matched.
"""

import time
from collections import deque
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from braid.anchors import text_of
from braid.telemetry.hot_anchors import HotAnchors
from braid.telemetry.measures import Measures
from services.matcher.core import MatcherCore


class _Run(NamedTuple):
    """Requests that were matched together."""

    arrived_ns: int
    publications: int


class Measuring:
    def __init__(self, measures: Measures, core: MatcherCore, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._measures = measures
        self._clock_ns = clock_ns
        self._core = core
        self._matched: list[_Run] = []  # and not answered yet, as far as it is known
        self._waiting: deque[tuple[int, _Run]] = deque()  # answered when this ticket is on disk
        self._hot_anchors = measures.hot_anchors = HotAnchors(self._anchor_of, Random())
        measures.count("publications", 0)
        core.on_matched = self._on_matched

    def _on_matched(self, ids: list[list[str]], arrived_ns: int) -> None:
        self._matched.append(_Run(arrived_ns, len(ids)))
        self._hot_anchors.on_matched(ids, time.monotonic())

    def _anchor_of(self, id: str) -> str | None:
        record = self._core.index.get(id)
        return None if record is None else text_of(record)

    def on_performed(self) -> None:
        """What was matched is answered, unless the answer waits for the disk."""
        if not self._matched:
            return
        matched, self._matched = self._matched, []
        now_ns, ticket = self._clock_ns(), self._core.waits_for
        for run in matched:
            self._measures.count("publications", run.publications)
            self._lasted("matched", run, now_ns)
            if ticket:
                self._waiting.append((ticket, run))
            else:
                self._lasted("answered", run, now_ns)

    def on_stored(self, ticket: int) -> None:
        now_ns = self._clock_ns()
        while self._waiting and self._waiting[0][0] <= ticket:
            self._lasted("answered", self._waiting.popleft()[1], now_ns)

    def _lasted(self, part: str, run: _Run, now_ns: int) -> None:
        self._measures.lasted(part, (now_ns - run.arrived_ns) / 1e9, run.publications)
