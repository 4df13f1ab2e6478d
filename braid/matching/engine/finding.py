"""The keys of what the engine does not find in publications itself: words, and tiles of zones that are no points."""

from typing import Any

from numba import uint64

from braid.matching.engine.counts import TILE_KEYS, TILE_LEVELS, WORD_KEYS_CHANGED
from braid.matching.engine.hashing import key_hash, secret_of
from braid.matching.engine.kernel import entry, kernel
from braid.matching.engine.key_records import TILE, TILE_LEVEL_SHIFT, TILE_X_SHIFT, WORD
from braid.matching.engine.key_slots import find_key
from braid.matching.engine.key_uses import TILE_IN_USE
from braid.matching.engine.memory import COUNTS, MATCHED, SCRATCH, TILES, integers
from braid.matching.engine.regions import integers_at
from braid.matching.engine.scratch import TILE_SPANS
from braid.matching.engine.tiles import TILE_LEVELS_MAX, span, tile_hash

_NAMED_MAX = 1024  # tiles of a publication; above it, the tiles in use may be looked through
_TILES_PER_NAME = 8  # in use, that are looked at in the time that one takes to be found by its name

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
    # To look for a tile by its name takes longer than to look at one that is in use.
    if named > max(_NAMED_MAX, integers(t, COUNTS)[TILE_KEYS] // _TILES_PER_NAME):
        return _keys_in_use(t, boxes)
    return _keys_named(t, boxes, levels)


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
    tiles, found = integers(t, TILES), integers(t, MATCHED)
    spans = integers_at(t[SCRATCH] + 8 * TILE_SPANS)
    count = 0
    for box in range(len(boxes)):
        for level in range(TILE_LEVELS_MAX):
            first_x, last_x, first_y, last_y = span(level, boxes[box, 0], boxes[box, 1], boxes[box, 2], boxes[box, 3])
            spans[4 * level] = first_x
            spans[4 * level + 1] = last_x
            spans[4 * level + 2] = first_y
            spans[4 * level + 3] = last_y
        for place in range(integers(t, COUNTS)[TILE_KEYS]):
            code = tiles[place * TILE_IN_USE + 1]
            at = 4 * (code >> TILE_LEVEL_SHIFT)
            x, y = (code >> TILE_X_SHIFT) & 0xFFFFFF, code & 0xFFFFFF
            if spans[at] <= x <= spans[at + 1] and spans[at + 2] <= y <= spans[at + 3]:
                found[count] = tiles[place * TILE_IN_USE]
                count += 1
    return count
