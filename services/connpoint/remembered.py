"""What subscriptions were given with their past and may still come live: it is left out then.

It is remembered until it comes, or until the watermark of its origin has passed it: what is confirmed does not come
again. Bounded: forgotten after some minutes, and beyond a number, those of the oldest subscription first; it might come
twice where a connection point was away for very long. A tick looks at a bounded number of them, in turn.
"""

from collections import OrderedDict, deque
from collections.abc import Callable

import msgspec

from services.connpoint.past_order import Key

REMEMBERED_MAX = 200_000  # publications
REMEMBERED_S_MAX = 600.0  # a connection point that was away for longer may have sent them before
LOOKS_AT_ONCE = 5_000  # publications, somewhat more with the last subscription


class _Given(msgspec.Struct):
    keys: set[Key]
    since_s: float
    watermarks: dict[str, int]  # by origin, as they were at the last look


class Remembered:
    def __init__(self) -> None:
        self._given: OrderedDict[str, _Given] = OrderedDict()  # by subscription, the oldest first
        self._turns: deque[str] = deque()  # subscriptions, that which is looked at next first
        self._publications = 0

    def __len__(self) -> int:
        return self._publications

    def add(self, id: str, keys: set[Key], now_s: float) -> None:
        if not keys:
            return
        self._given[id] = _Given(keys, now_s, dict.fromkeys({key[0] for key in keys}, -1))
        self._turns.append(id)
        self._publications += len(keys)
        while self._publications > REMEMBERED_MAX:
            self.forget(next(iter(self._given)))

    def take(self, id: str, key: Key) -> bool:
        """Whether the subscription was given this one. It comes once, so it is forgotten."""
        given = self._given.get(id)
        if given is None or key not in given.keys:
            return False
        self._forget_keys(id, given, {key})
        return True

    def forget(self, id: str) -> None:
        given = self._given.pop(id, None)
        if given is not None:
            self._publications -= len(given.keys)

    def on_tick(self, watermark_of: Callable[[str], int], now_s: float) -> None:
        looks = 0
        for _ in range(len(self._turns)):
            if looks >= LOOKS_AT_ONCE:
                return
            id = self._turns.popleft()
            given = self._given.get(id)
            looks += 1
            if given is None:
                continue
            if now_s - given.since_s > REMEMBERED_S_MAX:
                self.forget(id)
                continue
            looks += self._look(id, given, watermark_of)
            if id in self._given:
                self._turns.append(id)

    def _look(self, id: str, given: _Given, watermark_of: Callable[[str], int]) -> int:
        """How many it looked at: none when no origin has confirmed anything since the last time."""
        now = {origin: watermark_of(origin) for origin in given.watermarks}
        moved = {origin for origin, mark in now.items() if mark > given.watermarks[origin]}
        given.watermarks = now
        looks = len(given.keys) if moved else 0
        if moved:
            self._forget_keys(id, given, {key for key in given.keys if key[0] in moved and key[1] <= now[key[0]]})
        return looks

    def _forget_keys(self, id: str, given: _Given, keys: set[Key]) -> None:
        given.keys -= keys
        self._publications -= len(keys)
        if not given.keys:
            del self._given[id]
