"""What a slice counts between two samples. Told per batch, never per publication, on the event loop of the slice."""

from collections import defaultdict
from typing import NamedTuple

from braid.telemetry.histogram import Histogram
from braid.telemetry.hot_anchors import HotAnchors
from braid.telemetry.sample import Hit, Latency


class Measured(NamedTuple):
    counts: dict[str, int]
    latencies: list[Latency]
    anchors: list[Hit]
    anchors_missed: int


class Measures:
    def __init__(self) -> None:
        self._counts: defaultdict[str, int] = defaultdict(int)
        self._latencies: defaultdict[str, Histogram] = defaultdict(Histogram)
        self.hot_anchors: HotAnchors | None = None  # where a layer knows what matched

    def count(self, what: str, number: int) -> None:
        self._counts[what] += number

    def lasted(self, part: str, seconds: float, number: int) -> None:
        """So many publications, or batches, took so long. A clock that was set back makes nothing negative."""
        self._latencies[part].add(max(0.0, seconds), number)

    def take(self) -> Measured:
        counts = dict(self._counts)
        self._counts = defaultdict(int, dict.fromkeys(counts, 0))  # what was counted once is told as 0 from then on
        latencies = [Latency(part, buckets) for part, each in self._latencies.items() if (buckets := each.take())]
        hits, missed = ([], 0) if self.hot_anchors is None else self.hot_anchors.take()
        return Measured(counts, latencies, hits, missed)
