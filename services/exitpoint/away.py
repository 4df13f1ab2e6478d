"""Connection points that are away, and for how long they are waited for.

One that crashed is started again, mostly within seconds. What it has not received for subscriptions with an address is
sent to the next incarnation: they have no connection that could be told of a gap. Behind the bound it is given up until
it is back, so that publishers do not wait for one that never comes.
"""

from collections.abc import Container

from braid.deliver import is_addressed
from braid.messages import Match


class Away:
    def __init__(self, away_s_max: float) -> None:
        self._away_s_max = away_s_max
        self._since_s: dict[str, float | None] = {}  # of those that something waits for; nothing: since a moment ago
        self._given_up: set[str] = set()

    def is_awaited(self, connpoint: str) -> bool:
        """Called when something would wait for it; from then on its time runs."""
        if connpoint in self._given_up:
            return False
        self._since_s.setdefault(connpoint, None)
        return True

    def on_tick(self, now_s: float, registered: Container[str]) -> list[str]:
        """Those that are given up from now on."""
        given_up: list[str] = []
        self._given_up = {name for name in self._given_up if name not in registered}
        for name, since_s in list(self._since_s.items()):
            if name in registered:
                del self._since_s[name]
            elif since_s is None:
                self._since_s[name] = now_s
            elif now_s - since_s > self._away_s_max:
                del self._since_s[name]
                given_up.append(name)
        self._given_up.update(given_up)
        return given_up


def addressed_only(matches: list[Match]) -> list[Match]:
    """The same matches without the subscriptions that are delivered over connections."""
    left = [(place, [id for id in ids if is_addressed(id)], content) for place, ids, content in matches]
    return [match for match in left if match[1]]
