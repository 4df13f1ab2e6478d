"""When and where to connect again: close codes, pauses, the next connection point."""

from collections.abc import Callable, Sequence
from typing import Literal

Verdict = Literal["same", "next", "replaced", "too-big", "refused"]

# What a close code of the server asks for. All others (1006 and 1011 among them) mean: try the same one first,
# because it holds what waits for this subscriber.
_VERDICTS: dict[int, Verdict] = {
    1001: "next",  # going away
    1012: "next",  # restarting
    1013: "next",  # try again later
    1002: "refused",  # protocol error
    1003: "refused",  # unsupported data
    1007: "refused",  # invalid data
    1008: "refused",  # policy violation
    1009: "too-big",
    4408: "same",  # too slow
    4409: "replaced",
}


def verdict_on(close_code: int) -> Verdict:
    if 4000 <= close_code < 5000:
        return _VERDICTS.get(close_code, "refused")
    return _VERDICTS.get(close_code, "same")


class Backoff:
    """Pauses that double, with jitter, until the time for reconnecting is used up.

    A connection counts as good once it was of use; until then a new loss goes on with the same budget, so that a server
    that accepts and closes at once does not keep the client busy for ever.
    """

    def __init__(self, urls: Sequence[str], *, first_s: float, max_s: float, random: Callable[[], float]) -> None:
        self._urls = list(urls)
        self._index = 0
        self._first_s = first_s
        self._max_s = max_s
        self._random = random
        self._pause_s = first_s
        self._since: float | None = None
        self._same_tried = False
        self.attempt = 0

    @property
    def url(self) -> str:
        return self._urls[self._index]

    def on_good(self) -> None:
        self._since = None
        self._pause_s = self._first_s
        self._same_tried = False
        self.attempt = 0

    def on_lost(self, now: float, verdict: Verdict, timeout_s: float) -> float | None:
        """The pause before the next attempt at `url`, or None when it is time to give up."""
        if self._since is None:
            self._since = now
        self.attempt += 1
        stay = verdict == "same" and not self._same_tried
        self._same_tried = True
        if not stay:
            self._index = (self._index + 1) % len(self._urls)
        untried = self.attempt < len(self._urls)
        if now - self._since >= timeout_s:
            return 0.0 if untried else None
        pause_s = self._pause_s * (0.5 + 0.5 * self._random())
        self._pause_s = min(self._pause_s * 2, self._max_s)
        return min(pause_s, self._since + timeout_s - now)
