"""The order of a past, and where what came live stands in it.

Linear in what is looked at, and the merging of very much pauses in between, so that the event loop goes on.
"""

from collections.abc import Iterator
from heapq import merge
from itertools import islice

from braid.messages import Kept

PART = 1_000  # publications that are put in order at once
_LOOKS_AT_ONCE = 10_000

Key = tuple[str, int, int]  # origin, sequence, place in the batch


def key_of(kept: Kept) -> Key:
    return kept.origin, kept.sequence, kept.place


def in_order(past: dict[Key, Kept], live: dict[Key, bytes]) -> Iterator[list[tuple[Key, bytes]]]:
    """Both, the past by its time, and what came live behind it, in the order in which it came; a part at a time.

    Those of one origin stay in the order of their sequences, whatever its clock did. Matchers are not asked in the same
    moment, so something of the past may be newer than something that came live: that one goes before it. A part may be
    empty, and is a pause then.
    """
    by_origin: dict[str, list[Key]] = {}
    for key in reversed(past):  # it came the newest first: so this is sorted nearly, or quite
        by_origin.setdefault(key[0], []).append(key)
    latest = {origin: max(keys) for origin, keys in by_origin.items()}
    behind: list[tuple[Key, bytes]] = []
    for number, one in enumerate(live.items(), 1):
        key = one[0]
        if key[0] in latest and key < latest[key[0]]:
            by_origin[key[0]].append(key)
        else:
            behind.append(one)
        if number % _LOOKS_AT_ONCE == 0:
            yield []
    for keys in by_origin.values():
        keys.sort()
        yield []
    merged = merge(*[_of_one_origin(keys, past, live) for keys in by_origin.values()])
    while part := [(key, content) for _, key, content in islice(merged, PART)]:
        yield part
    yield from in_parts(behind)


def in_parts(several: list[tuple[Key, bytes]]) -> Iterator[list[tuple[Key, bytes]]]:
    for first in range(0, len(several), PART):
        yield several[first : first + PART]


def _of_one_origin(
    keys: list[Key], past: dict[Key, Kept], live: dict[Key, bytes]
) -> Iterator[tuple[float, Key, bytes]]:
    """With when each is placed; the last key is one of the past."""
    moment_s = 0.0
    waiting: list[Key] = []  # came live, for the next one of the past
    for key in keys:
        kept = past.get(key)
        if kept is None:
            waiting.append(key)
            continue
        moment_s = max(moment_s, kept.published_s)
        for earlier in waiting:
            yield moment_s, earlier, live[earlier]
        waiting.clear()
        yield moment_s, key, kept.content
