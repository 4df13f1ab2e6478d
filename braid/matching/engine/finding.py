"""The keys of what the engine does not find in publications itself: words, and tiles of zones that are no points."""

from typing import Any

from numba import uint64

from braid.matching.engine.counts import KEYS_USED, TILE_LEVELS, WORD_KEYS_CHANGED
from braid.matching.engine.hashing import key_hash, secret_of
from braid.matching.engine.kernel import entry, kernel
from braid.matching.engine.keys import (
    KIND,
    RECORD,
    REFERENCES,
    TILE,
    TILE_LEVEL_SHIFT,
    TILE_X_SHIFT,
    WORD,
    find_key,
)
from braid.matching.engine.memory import COUNTS, KEYS, MATCHED, integers
from braid.matching.engine.tiles import TILE_LEVELS_MAX, span, tile_hash

_NAMED_MAX = 1024  # tiles of a publication; above it, the tiles in use are looked through

# What is known of a word.
FIRST, SECOND, KEY, KNOWN_SINCE = range(4)


@entry
def keys_of_words(t: Any, known: Any, chosen: Any, found: Any) -> None:
    """The keys of the chosen words; 0 where no subscription demands it, and for the choice 0.

    A key is looked for again when words have come or gone since it was known.
    """
    changed = integers(t, COUNTS)[WORD_KEYS_CHANGED]
    for i in range(len(chosen)):
        word = chosen[i]
        if word == 0:
            continue
        if known[word, KNOWN_SINCE] != changed:
            first, second = key_hash(uint64(known[word, FIRST]), uint64(known[word, SECOND]), WORD, 0)
            known[word, KEY] = find_key(t, first, second)
            known[word, KNOWN_SINCE] = changed
        found[i] = known[word, KEY]


@entry
def keys_of_boxes(t: Any, boxes: Any) -> int:
    """Puts the keys of the tiles that the boxes (south, west, north and east in degrees) touch into the region of
    matches, some perhaps twice; returns how many."""
    levels = integers(t, COUNTS)[TILE_LEVELS]
    named = 0
    for level in range(TILE_LEVELS_MAX):
        if levels >> level & 1:
            for box in range(len(boxes)):
                first_x, last_x, first_y, last_y = span(
                    level, boxes[box, 0], boxes[box, 1], boxes[box, 2], boxes[box, 3]
                )
                named += (last_x - first_x + 1) * (last_y - first_y + 1)
    return _keys_in_use(t, boxes) if named > _NAMED_MAX else _keys_named(t, boxes, levels)


@kernel
def _keys_named(t: Any, boxes: Any, levels: int) -> int:
    found = integers(t, MATCHED)
    count = 0
    for level in range(TILE_LEVELS_MAX):
        if levels >> level & 1:
            for box in range(len(boxes)):
                first_x, last_x, first_y, last_y = span(
                    level, boxes[box, 0], boxes[box, 1], boxes[box, 2], boxes[box, 3]
                )
                for x in range(first_x, last_x + 1):
                    for y in range(first_y, last_y + 1):
                        first, second = tile_hash(secret_of(t), level, x, y)
                        first, second = key_hash(first, second, TILE, 0)
                        key = find_key(t, first, second)
                        if key != 0:
                            found[count] = key
                            count += 1
    return count


@kernel
def _keys_in_use(t: Any, boxes: Any) -> int:
    keys, found = integers(t, KEYS), integers(t, MATCHED)
    count = 0
    for key in range(1, integers(t, COUNTS)[KEYS_USED] + 1):
        at = key * RECORD
        if keys[at + REFERENCES] > 0 and keys[at + KIND] & 255 == TILE:
            code = keys[at + KIND] >> 8
            level = code >> TILE_LEVEL_SHIFT
            x, y = (code >> TILE_X_SHIFT) & 0xFFFFFF, code & 0xFFFFFF
            for box in range(len(boxes)):
                first_x, last_x, first_y, last_y = span(
                    level, boxes[box, 0], boxes[box, 1], boxes[box, 2], boxes[box, 3]
                )
                if first_x <= x <= last_x and first_y <= y <= last_y:
                    found[count] = key
                    count += 1
                    break
    return count
