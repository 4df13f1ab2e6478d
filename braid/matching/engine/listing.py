"""Lists of Python's objects, filled by the engine: the ids that each publication matched.

This is the one place where compiled code touches objects of Python, so it is the one that runs under Python's lock, and
it does so through the functions that Python offers for it. Among a million ids most are far away in memory, so those
that come next are asked for while these are handed out.
"""

from typing import Any

from numba import types

from braid.matching.engine.kernel import entry_on_objects, prefetch
from braid.matching.engine.regions import integers_at

_AHEAD = 64  # objects under way to the processor

_new_list = types.ExternalFunction("PyList_New", types.int64(types.int64))
_put_into = types.ExternalFunction("PyList_SetItem", types.int32(types.int64, types.int64, types.int64))
_hold = types.ExternalFunction("Py_IncRef", types.void(types.int64))


@entry_on_objects
def hand_out(objects_at: int, numbers: Any, ends: Any, lists_at: int) -> bool:
    """Puts a list into each place of the list at `lists_at`: of the objects whose numbers end where `ends` says.

    False when there is no memory for it.
    """
    objects = integers_at(objects_at)
    begin = fetched = 0
    for place in range(len(ends)):
        end = ends[place]
        while fetched < min(end + _AHEAD, len(numbers)):
            prefetch(objects[numbers[fetched]])
            fetched += 1
        made = _new_list(end - begin)
        if made == 0:
            return False
        for i in range(begin, end):
            item = objects[numbers[i]]
            _hold(item)  # the list takes this hold over
            _put_into(made, i - begin, item)
        _put_into(lists_at, place, made)
        begin = end
    return True
