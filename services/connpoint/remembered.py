"""What may still come live for subscriptions that were given their past, and is left out then.

    given    publications that they were given with it; each is remembered until it comes
    passed   batches from before the past begins, of publishers of whom later ones are in it

Both until the watermark of the origin has passed them: what is confirmed does not come again. Bounded: forgotten after
some minutes, and beyond a number, those of the oldest subscription first; it might come twice, or late, where a
connection point was away for very long. A tick looks at a bounded number of them, in turn.
"""

from collections import OrderedDict, deque
from collections.abc import Callable

import msgspec

from services.connpoint.past_order import Key
from services.connpoint.unconfirmed import Batch

REMEMBERED_MAX = 200_000  # publications that were given, and batches that were passed
REMEMBERED_S_MAX = 600.0  # a connection point that was away for longer may have sent them before
LOOKS_AT_ONCE = 5_000  # of them, somewhat more with the last subscription


class _Given(msgspec.Struct):
    keys: set[Key]
    passed: set[Batch]
    since_s: float
    watermarks: dict[str, int]  # by origin, as they were at the last look

    def __len__(self) -> int:
        return len(self.keys) + len(self.passed)


class Remembered:
    def __init__(self) -> None:
        self._given: OrderedDict[str, _Given] = OrderedDict()  # by subscription, the oldest first
        self._turns: deque[str] = deque()  # subscriptions, that which is looked at next first
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, id: str, keys: set[Key], passed: set[Batch], now_s: float) -> None:
        if not keys and not passed:
            return
        origins = {key[0] for key in keys} | {batch[0] for batch in passed}
        given = _Given(keys, passed, now_s, dict.fromkeys(origins, -1))
        self._given[id] = given
        self._turns.append(id)
        self._count += len(given)
        while self._count > REMEMBERED_MAX:
            self.forget(next(iter(self._given)))

    def take(self, id: str, key: Key) -> bool:
        """Whether the subscription was given this one. It comes once, so it is forgotten."""
        given = self._given.get(id)
        if given is None or key not in given.keys:
            return False
        self._forget_some(id, given, {key}, set())
        return True

    def has_passed(self, id: str, key: Key) -> bool:
        """Whether the subscription was given later ones of its publisher, and does not want this one."""
        given = self._given.get(id)
        return given is not None and key[:2] in given.passed

    def forget(self, id: str) -> None:
        given = self._given.pop(id, None)
        if given is not None:
            self._count -= len(given)

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
        looks = len(given) if moved else 0
        if moved:
            keys = {key for key in given.keys if key[0] in moved and key[1] <= now[key[0]]}
            passed = {batch for batch in given.passed if batch[0] in moved and batch[1] <= now[batch[0]]}
            self._forget_some(id, given, keys, passed)
        return looks

    def _forget_some(self, id: str, given: _Given, keys: set[Key], passed: set[Batch]) -> None:
        given.keys -= keys
        given.passed -= passed
        self._count -= len(keys) + len(passed)
        if not len(given):
            del self._given[id]
