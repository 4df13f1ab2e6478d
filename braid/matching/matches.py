"""What a batch of publications matched."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

Integers = np.ndarray[Any, np.dtype[np.int64]]
Match = tuple[int, list[str], bytes]  # place in the batch, ids of the subscriptions that matched, content


class Matches:
    """Holds ids, so it stays true when subscriptions change later."""

    def __init__(
        self, contents: list[bytes], ends: list[int], ids: list[str], homes: list[str] | str, unreadable: int
    ) -> None:
        self._contents = contents
        self._ends = ends
        self._ids = ids
        self._homes = homes  # of each id, or the one of all
        self.unreadable = unreadable  # contents that are no publications

    def __len__(self) -> int:
        return len(self._ids)

    def ids(self) -> list[list[str]]:
        """The ids of the subscriptions that each content matched."""
        ids = self._ids
        return [ids[first:last] for first, last in pairwise((0, *self._ends))]

    def without(self, hidden: Sequence[Collection[str]]) -> "Matches":
        """The same without these ids, in as many sets as there are."""
        ends: list[int] = []
        ids: list[str] = []
        homes: list[str] = []
        first = 0
        for last in self._ends:
            for place in range(first, last):
                id = self._ids[place]
                if not any(id in others for others in hidden):
                    ids.append(id)
                    if not isinstance(self._homes, str):
                        homes.append(self._homes[place])
            first = last
            ends.append(len(ids))
        left = self._homes if isinstance(self._homes, str) else homes
        return Matches(self._contents, ends, ids, left, self.unreadable)

    def by_home(self, begin: int = 0, end: int | None = None) -> list[tuple[str, list[Match]]]:
        """Of the contents from `begin` to `end`: by the connection point that delivers, each in the order of the batch.

        This is what a `Partial` carries; places are counted from `begin`.
        """
        ids, homes = self._ids, self._homes
        ends = self._ends[begin:end]
        first = self._ends[begin - 1] if begin else 0
        by_home: defaultdict[str, list[Match]] = defaultdict(list)
        for place, last in enumerate(ends):
            if first == last:
                continue
            content = self._contents[begin + place]
            if isinstance(homes, str):
                by_home[homes].append((place, ids[first:last], content))
            else:
                ids_by_home: defaultdict[str, list[str]] = defaultdict(list)
                for i in range(first, last):
                    ids_by_home[homes[i]].append(ids[i])
                for home, of_home in ids_by_home.items():
                    by_home[home].append((place, of_home, content))
            first = last
        return list(by_home.items())
