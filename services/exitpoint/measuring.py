"""What telemetry tells of an exit point: batches that were released, notifications in them, how long that took.

How many publications a batch had is not known here: partials speak of those that matched.
"""

import time
from collections.abc import Callable

from braid.telemetry.measures import Measures
from services.exitpoint.core import ExitPointCore, Gather


class Measuring:
    def __init__(self, measures: Measures, core: ExitPointCore, clock_s: Callable[[], float] = time.time) -> None:
        self._measures = measures
        self._clock_s = clock_s
        measures.count("batches", 0)
        measures.count("notifications", 0)
        core.on_released = self._on_released

    def _on_released(self, gather: Gather) -> None:
        """Since its first partial came: it waited for the others, and for earlier batches of its publisher."""
        self._measures.count("batches", 1)
        self._measures.count("notifications", sum(map(len, gather.matched.values())))
        self._measures.lasted("gathered", self._clock_s() - gather.since_s, 1)
