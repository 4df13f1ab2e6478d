"""What telemetry tells of an exit point: batches that were released, notifications in them, how long that took.

How many publications a batch had is not known here: partials speak of those that matched.
"""

import time
from collections.abc import Callable
from itertools import groupby

from braid.telemetry.measures import Measures
from services.exitpoint.core import ExitPointCore, Gather


class Measuring:
    def __init__(self, measures: Measures, core: ExitPointCore, clock_s: Callable[[], float] = time.time) -> None:
        self._measures = measures
        self._clock_s = clock_s
        self._released: list[Gather] = []  # and not handed to the links yet
        measures.count("batches", 0)
        measures.count("notifications", 0)
        core.on_released = self._released.append

    def on_performed(self) -> None:
        """Since their first partials came they waited for the others, and for earlier batches of their publishers."""
        released = self._released
        if not released:
            return
        now_s = self._clock_s()
        self._measures.count("batches", len(released))
        self._measures.count("notifications", sum([len(each) for one in released for each in one.matched.values()]))
        for since_s, together in groupby(released, lambda gather: gather.since_s):
            self._measures.lasted("gathered", now_s - since_s, sum(1 for _ in together))
        released.clear()
