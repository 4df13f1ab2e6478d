"""What one connection publishes, frame by frame, each publication marked (`arrivals.py`).

The generator shares two cores with what it measures, so it does as little as it can: frames are written as text.
"""

import time
from collections.abc import Sequence
from itertools import cycle, islice
from math import lcm
from typing import NamedTuple, Protocol

from benchmarks.arrivals import UNWANTED, first_mark


class Taken(NamedTuple):
    frame: bytes
    wanted: int  # publications in it that must arrive


class Frames(Protocol):
    def take(self, count: int) -> Taken:
        """The next so many publications."""
        ...


class SensorFrames:
    """Publications that go to one subscription after the other; all of them are wanted."""

    def __init__(self, place: int, subscriptions: int, family: str = "s") -> None:
        """`family` is what the names of all sensors begin with."""
        self._subscriptions = subscriptions
        self._family = family
        self._first_mark = first_mark(place)
        self._sent = 0

    def take(self, count: int) -> Taken:
        first, self._sent = self._sent, self._sent + count
        return Taken(frame_of(self._first_mark, first, count, self._subscriptions, self._family), count)


def frame_of(first_mark: int, first: int, count: int, subscriptions: int, family: str = "s") -> bytes:
    at = f',"at":{time.time()}}}}}'
    publications = ",".join(
        [
            f'{{"attributes":{{"sensor":"{family}{number % subscriptions}","value":{first_mark + number}{at}'
            for number in range(first, first + count)
        ]
    )
    return f'{{"op":"publish","ref":{first},"publications":[{publications}]}}'.encode()


class Prepared(NamedTuple):
    """A publication up to where its mark is written."""

    text: str
    is_wanted: bool  # by some subscription


def prepared(content: bytes, *, is_wanted: bool) -> Prepared:
    """From the JSON of a publication without `data`, which is where its mark goes: no subscription looks there."""
    members = content.decode()[:-1]
    return Prepared(f'{members}{"," if len(members) > 1 else ""}"data":{{"value":', is_wanted)


class PreparedFrames:
    """Publications in their order, and again from the first. Only what is wanted is numbered: it alone arrives."""

    def __init__(self, place: int, places: int, publications: Sequence[Prepared]) -> None:
        """Of so many connections each takes every so many-th, so that all of them together go through in order."""
        count = len(publications)
        until_the_same_again = range(place, place + lcm(count, places), places)
        self._coming = cycle([publications[number % count] for number in until_the_same_again])
        self._mark = first_mark(place)
        self._sent = 0

    def take(self, count: int) -> Taken:
        first, mark = self._sent, self._mark
        at = f',"at":{time.time()}}}}}'
        texts = []
        for text, is_wanted in islice(self._coming, count):
            if is_wanted:
                texts.append(f"{text}{mark}{at}")
                mark += 1
            else:
                texts.append(f"{text}{UNWANTED}{at}")
        wanted = mark - self._mark
        self._sent, self._mark = first + count, mark
        return Taken(f'{{"op":"publish","ref":{first},"publications":[{",".join(texts)}]}}'.encode(), wanted)
