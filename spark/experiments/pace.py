"""How long the rest of a plan will take.

Cells weigh as many seconds as they are expected to take. Those that have ended tell how long a second of weight really
is; until one has, it is a second.
"""


class Pace:
    """Times are seconds of any clock that only goes forward."""

    def __init__(self, weight_s: float) -> None:
        """Of all cells together."""
        self._waiting_s = weight_s
        self._running_s = 0.0
        self._ended_s = 0.0
        self._took_s = 0.0
        self._began = 0.0

    def begin(self, weight_s: float, now: float) -> None:
        self._waiting_s -= weight_s
        self._running_s = weight_s
        self._began = now

    def end(self, now: float) -> None:
        self._ended_s += self._running_s
        self._took_s += now - self._began
        self._running_s = 0.0

    @property
    def _stretch(self) -> float:
        return self._took_s / self._ended_s if self._ended_s else 1.0

    def left_s(self, now: float) -> float:
        rest_s = max(0.0, self._running_s * self._stretch - (now - self._began)) if self._running_s else 0.0
        return rest_s + self._waiting_s * self._stretch

    def done(self, now: float) -> float:
        """The share of all; a cell that takes longer than expected never counts as a whole one."""
        passed_s = min((now - self._began) / self._stretch, 0.95 * self._running_s) if self._running_s else 0.0
        total_s = self._ended_s + self._running_s + self._waiting_s
        return (self._ended_s + passed_s) / total_s if total_s else 1.0
