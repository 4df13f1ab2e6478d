"""What telemetry tells of an exit point: batches that were released, notifications in them, how long that took.

How many publications a batch had is not known here: partials speak of those that matched.
"""

import time

from braid.telemetry.measures import Measures
from services.exitpoint.core import ExitPointCore, Gather


class Measuring:
    def __init__(self, measures: Measures, core: ExitPointCore) -> None:
        self._measures = measures
        measures.count("batches", 0)
        measures.count("notifications", 0)
        core.on_released = self._on_released

    def _on_released(self, gather: Gather) -> None:
        """Since its first partial came: it waited for the others, and for earlier batches of its publisher."""
        self._measures.count("batches", 1)
        self._measures.count("notifications", sum(map(len, gather.matched.values())))
        self._measures.lasted("gathered", time.time() - gather.since_s, 1)
