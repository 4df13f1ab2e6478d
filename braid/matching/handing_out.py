"""From the numbers of subscriptions that matched to lists of their ids.

Ids are objects of Python, spread over its heap. Of a large index, those of a batch lie on more pages of memory than the
processor keeps the addresses of, so each time they are gone through they would be waited for anew. So they are taken
in parts, and everything is done with one part before the next.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from braid.matching.engine.memory import Memory
from braid.matching.engine.searching import fetch_ids

Integers = np.ndarray[Any, np.dtype[np.int64]]
Objects = np.ndarray[Any, np.dtype[np.object_]]

_LARGE_FROM = 1 << 16  # ids
_TAKEN_AT_ONCE = 256  # of a large index; more where one publication matches more


def ids_of_each(memory: Memory, ids: Objects, ends: Integers, numbers: Integers) -> list[list[str]]:
    """The ids of each publication, whose numbers end where `ends` says."""
    if len(ids) < _LARGE_FROM or len(numbers) <= _TAKEN_AT_ONCE:
        return cut(ids.take(numbers).tolist(), ends.tolist())
    lists: list[list[str]] = []
    places = ends.searchsorted(np.arange(_TAKEN_AT_ONCE, len(numbers), _TAKEN_AT_ONCE)).tolist()
    first = begin = 0
    for place in (*places, len(ends)):
        if place > first:
            end = int(ends[place - 1])
            fetch_ids(memory.addresses, numbers, begin, end)
            lists += cut(ids.take(numbers[begin:end]).tolist(), (ends[first:place] - begin).tolist())
            first, begin = place, end
    return lists


def cut(flat: list[str], ends: list[int]) -> list[list[str]]:
    return [flat[first:last] for first, last in pairwise((0, *ends))]


def fetch_nothing() -> None:
    fetch_ids(Memory().addresses, np.empty(0, dtype=np.int64), 0, 0)
