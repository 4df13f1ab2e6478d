"""Which call about a subscription was the latest: a repetition of an earlier one, overtaken, must not undo it.

A connection point repeats a call until it is answered, and while access points change, calls about one subscription may
take two ways: a repetition of the first call may then arrive behind the second one. Connection points number their
calls, so it is seen.

Bounded: a call is remembered for one to two spans of `SPAN_S`, which is longer than anybody repeats one, and spans end
early when `CALLS_MAX` of them came. Those of a span that is over are let go a few at a time: all of them at once would
take many milliseconds. In a scaling calls are handed over with the subscriptions (`transfer.py`), those about
subscriptions that were ended too.
"""

from collections.abc import Iterator
from itertools import chain

import msgspec

from braid.messages import Calls

SPAN_S = 60.0
CALLS_MAX = 100_000
_LET_GO_PER_CALL = 2  # more than one, so that a span is gone when the next one is full
_LET_GO_PER_SECOND = 5_000


class _Known(msgspec.Struct, gc=False):
    """Of one subscription. No cycle can be made of it, and the collector would look at very many of them each time."""

    latest: str = ""  # the connection point whose call was done last
    refs: dict[str, int] = msgspec.field(default_factory=dict)  # by connection point, its last call that was done


class LatestCalls:
    def __init__(self) -> None:
        self._now: dict[str, _Known] = {}  # by the id of the subscription
        self._before: dict[str, _Known] = {}
        self._over: dict[str, _Known] = {}  # forgotten, and let go bit by bit
        self._ends_s = 0.0
        self.overtaken = 0

    def __len__(self) -> int:
        return len(self._now) + len(self._before)

    def take(self, id: str, connpoint: str, ref: int) -> bool:
        """Whether this call is to be done; False when a later one was, so that this one only wants its answer."""
        known = self._known(id)
        last = known.refs.get(connpoint, -1)
        if ref < last or (ref == last and known.latest != connpoint):
            self.overtaken += 1
            return False
        known.refs[connpoint], known.latest = ref, connpoint
        self._end_span_when_full()
        self._let_go(_LET_GO_PER_CALL)
        return True

    def known_ids(self) -> Iterator[str]:
        """As they are now; calls may come while they are looked at."""
        return chain(list(self._now), list(self._before))

    def of(self, id: str) -> Calls | None:
        known = self._now.get(id) or self._before.get(id)
        return None if known is None else Calls(known.latest, dict(known.refs))

    def learn(self, id: str, calls: Calls) -> None:
        """What the matcher that had the subscription knows of it."""
        known = self._known(id)
        known.latest = calls.latest
        for connpoint, ref in calls.refs.items():
            known.refs[connpoint] = max(ref, known.refs.get(connpoint, -1))
        self._end_span_when_full()
        self._let_go(_LET_GO_PER_CALL)

    def on_second(self, now_s: float) -> None:
        if now_s >= self._ends_s:
            self._ends_s = now_s + SPAN_S
            self._begin_span()
        self._let_go(_LET_GO_PER_SECOND)

    def _known(self, id: str) -> _Known:
        known = self._now.get(id)
        if known is None:
            known = self._now[id] = self._before.pop(id) if id in self._before else _Known()
        return known

    def _end_span_when_full(self) -> None:
        if len(self._now) >= CALLS_MAX:
            self._begin_span()

    def _begin_span(self) -> None:
        self._over, self._before, self._now = self._before, self._now, {}

    def _let_go(self, most: int) -> None:
        for _ in range(min(most, len(self._over))):
            self._over.popitem()
