"""From the numbers of subscriptions that matched to lists of their ids."""

from typing import Any

import numpy as np

from braid.matching.engine.listing import hand_out

Integers = np.ndarray[Any, np.dtype[np.int64]]
Objects = np.ndarray[Any, np.dtype[np.object_]]


def in_lists(objects: Objects, ends: Integers, numbers: Integers) -> list[list[str]]:
    """The objects of each publication, whose numbers end where `ends` says."""
    lists: list[Any] = [None] * len(ends)
    if not hand_out(objects.ctypes.data, numbers, ends, id(lists)):
        raise MemoryError
    return lists
