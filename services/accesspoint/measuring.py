"""What telemetry tells of an access point: publications that were sent on, how long they were here, which anchors they
were sent by.
"""

import time
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from random import Random

from braid.messages import Publications
from braid.telemetry.hot_anchors import HotAnchors
from braid.telemetry.measures import Measures
from services.accesspoint.core import AccessPointCore


class Measuring:
    def __init__(self, measures: Measures, core: AccessPointCore, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._measures = measures
        self._clock_ns = clock_ns
        self._routed: list[tuple[Publications, int]] = []  # and not handed to the links yet
        self._hot_anchors = measures.hot_anchors = HotAnchors(_anchor_of, Random())
        measures.count("publications", 0)
        core.on_routed = self._on_routed
        core.on_anchors_hit = self._on_anchors_hit

    def _on_routed(self, batch: list[tuple[Publications, int]]) -> None:
        self._routed += batch

    def _on_anchors_hit(self, ids: list[list[str]]) -> None:
        self._hot_anchors.on_matched(ids, time.monotonic())

    def on_performed(self) -> None:
        """What was routed is on its way. Those that a scaling held have been here since they came."""
        if not self._routed:
            return
        routed, self._routed = self._routed, []
        now_ns = self._clock_ns()
        for arrived_ns, together in groupby(routed, itemgetter(1)):
            publications = sum([len(message.contents) for message, _ in together])
            self._measures.count("publications", publications)
            self._measures.lasted("routed", (now_ns - arrived_ns) / 1e9, publications)


def _anchor_of(id: str) -> str:
    """As `routes.py` makes ids: the matcher, a space, the anchor."""
    return id.partition(" ")[2]
