"""Whether everything came, once and in order, told by a mark on each publication.

A publisher marks what it publishes with consecutive numbers of its own, and its publications come in order. So the next
mark is known, and looking at one costs next to nothing unless something is wrong. What no subscription wants has no
number: it must not come at all.
"""

from collections.abc import Iterable
from typing import NamedTuple

PUBLISHER_MARKS = 10**10  # as many has each
UNWANTED = -1


def first_mark(publisher: int) -> int:
    return publisher * PUBLISHER_MARKS


class Ledger(NamedTuple):
    received: int  # different ones
    twice: int
    out_of_order: int
    unwanted: int = 0


class Arrivals:
    def __init__(self) -> None:
        self._next: dict[int, int] = {}  # publisher -> the mark after the highest that came
        self._missing: set[int] = set()  # below these
        self._twice = 0
        self._out_of_order = 0
        self._unwanted = 0

    def take(self, marks: Iterable[int]) -> list[int]:
        """The places of those that are no deliveries: what came before already, and what nobody wants."""
        following = self._next
        others: list[int] = []
        for place, mark in enumerate(marks):
            publisher = mark // PUBLISHER_MARKS
            if mark == following.get(publisher):
                following[publisher] = mark + 1
            elif not self._take_unexpected(publisher, mark):
                others.append(place)
        return others

    def _take_unexpected(self, publisher: int, mark: int) -> bool:
        """Whether it is a delivery."""
        if mark == UNWANTED:
            self._unwanted += 1
            return False
        expected = self._next.setdefault(publisher, first_mark(publisher))
        if mark >= expected:
            self._missing.update(range(expected, mark))
            self._next[publisher] = mark + 1
        elif mark in self._missing:
            self._missing.remove(mark)
            self._out_of_order += 1
        else:
            self._twice += 1
            return False
        return True

    @property
    def received(self) -> int:
        passed = sum(following - first_mark(publisher) for publisher, following in self._next.items())
        return passed - len(self._missing)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.received, self._twice, self._out_of_order, self._unwanted)
