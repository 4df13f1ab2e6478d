"""Subscriptions on their way into the engine or out of it."""

import math
from typing import Self

import numpy as np

from braid.matching.engine import changing
from braid.matching.engine.memory import Memory
from braid.matching.engine.programs import WINDOWED
from braid.subscription import SubscriptionRecord

_ALWAYS = (-math.inf, math.inf)


class Changes:
    """The arrays that one call of the engine takes, for a number of subscriptions."""

    def __init__(self, memory: Memory, size: int) -> None:
        self._addresses = memory.addresses
        self.numbers, self.ends, self.flags, self.homes = (np.zeros(size, dtype=np.int64) for _ in range(4))
        self._windows_s = np.zeros((size, 2))
        self._windows_s[:] = _ALWAYS

    def set(self, record: SubscriptionRecord, number: int, home: int, end: int) -> Self:
        self.numbers[0] = number
        self.ends[0] = end
        self.flags[0] = 0
        self.homes[0] = home
        self.set_window(0, record)
        return self

    def set_window(self, i: int, record: SubscriptionRecord) -> None:
        if record.from_s is None and record.until_s is None:
            self._windows_s[i] = _ALWAYS
            return
        self.flags[i] = WINDOWED
        self._windows_s[i, 0] = _ALWAYS[0] if record.from_s is None else record.from_s
        self._windows_s[i, 1] = _ALWAYS[1] if record.until_s is None else record.until_s

    def change(self, what: int, first: int = 0) -> int:
        """What the entry `change` returns."""
        return changing.change(
            self._addresses, what, first, self.numbers, self.ends, self.flags, self.homes, self._windows_s
        )
