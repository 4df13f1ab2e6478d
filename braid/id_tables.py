"""Sets and dictionaries of very many ids that never grow at once.

One of Python makes room for twice as many by moving all it has: 20 ms for 150,000 ids, 140 ms for 700,000, in which
nothing else goes on. These are made of many small ones, which grow one by one.
"""

from collections.abc import Iterable, Iterator, MutableMapping, MutableSet
from itertools import chain
from typing import TypeVar, overload

_PARTS = 256  # a power of two: a part of a million ids is moved in half a millisecond
_MASK = _PARTS - 1

V = TypeVar("V")
D = TypeVar("D")


class IdSet(MutableSet[str]):
    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._parts: list[set[str]] = [set() for _ in range(_PARTS)]
        self._count = 0
        self.update(ids)

    def __contains__(self, id: object) -> bool:
        return id in self._parts[hash(id) & _MASK]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._parts)

    def __len__(self) -> int:
        return self._count

    def add(self, id: str) -> None:
        part = self._parts[hash(id) & _MASK]
        before = len(part)
        part.add(id)
        self._count += len(part) - before

    def discard(self, id: str) -> None:
        place = hash(id) & _MASK
        part = self._parts[place]
        before = len(part)
        part.discard(id)
        self._count -= before - len(part)
        if before and not part:
            # One of Python keeps its room, and whoever looks for the first ones would go through it each time.
            self._parts[place] = set()

    def update(self, ids: Iterable[str]) -> None:
        for id in ids:
            self.add(id)


class IdMap(MutableMapping[str, V]):
    def __init__(self) -> None:
        self._parts: list[dict[str, V]] = [{} for _ in range(_PARTS)]
        self._count = 0

    def __contains__(self, id: object) -> bool:
        return id in self._parts[hash(id) & _MASK]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._parts)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, id: str) -> V:
        return self._parts[hash(id) & _MASK][id]

    def __setitem__(self, id: str, value: V) -> None:
        part = self._parts[hash(id) & _MASK]
        before = len(part)
        part[id] = value
        self._count += len(part) - before

    def __delitem__(self, id: str) -> None:
        del self._parts[hash(id) & _MASK][id]
        self._count -= 1

    def add_many(self, ids: Iterable[str], values: Iterable[V]) -> list[int]:
        """Puts those that are not here, in one go each; returns the places of the others, which stay as they are."""
        parts = self._parts
        known = []
        for place, (id, value) in enumerate(zip(ids, values, strict=True)):
            part = parts[hash(id) & _MASK]
            if id in part:
                known.append(place)
            else:
                part[id] = value
        self._count = sum(map(len, parts))
        return known

    def exchange_many(self, ids: Iterable[str], values: Iterable[V], default: V) -> list[V]:
        """Puts each, and returns what was there before it; an id may come several times."""
        parts = self._parts
        before = []
        for id, value in zip(ids, values, strict=True):
            part = parts[hash(id) & _MASK]
            before.append(part.get(id, default))
            part[id] = value
        self._count = sum(map(len, parts))
        return before

    # What the base class would do by way of an exception.

    @overload
    def get(self, id: str) -> V | None: ...
    @overload
    def get(self, id: str, default: V) -> V: ...
    @overload
    def get(self, id: str, default: D) -> V | D: ...
    def get(self, id: str, default: V | D | None = None) -> V | D | None:
        return self._parts[hash(id) & _MASK].get(id, default)
