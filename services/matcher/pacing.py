"""How long a matcher rests between two parts of long work, so that publications pass in time while it copies.

Long work takes what is left: whenever its turn comes late, because the event loop or the machine was busy with
something else, it rests twice as long the next time, and when its turn comes in time, a little shorter. It never rests
longer than `REST_S_MAX`, so it goes on under any load.
"""

REST_S_MIN = 0.001
REST_S_MAX = 0.02
_LATE_S = 0.003
_SHORTER = 0.8


class Pacing:
    def __init__(self) -> None:
        self._rest_s = REST_S_MIN

    def rest_s(self, *, in_a_hurry: bool) -> float:
        return REST_S_MIN if in_a_hurry else self._rest_s

    def on_turn(self, late_s: float) -> None:
        """How much later than it was due."""
        rest_s = self._rest_s * (2 if late_s > _LATE_S else _SHORTER)
        self._rest_s = min(max(rest_s, REST_S_MIN), REST_S_MAX)
