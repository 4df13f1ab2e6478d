"""Tiles of the map: at every level twice as many each way.

A subscription with a zone is kept under a few tiles that cover the boxes around it; a publication carries the tiles
that it touches, of every level in use.
"""

from typing import Any

import numpy as np
from numba import int64, uint64

from braid.matching.engine.conditions import (
    BOX,
    COUNT,
    EAST,
    FIRST,
    HAS,
    ITEM,
    KIND,
    NAME_FIRST,
    NAME_SECOND,
    NORTH,
    ONE_OF,
    OPERATION,
    ROW,
    SECOND,
    SOUTH,
    WEST,
)
from braid.matching.engine.counts import TILE_LEVELS
from braid.matching.engine.hashing import hash_word, secret_of
from braid.matching.engine.kernel import kernel, small_kernel
from braid.matching.engine.key_records import TILE, TILE_LEVEL_SHIFT, TILE_X_SHIFT
from braid.matching.engine.memory import COUNTS, GIVEN, SCRATCH, floats, integers
from braid.matching.engine.topic_keys import add_fact

TILES_MAX = 16  # of a subscription
TILE_LEVELS_MAX = 24


@kernel
def write_tiles(t: Any, given: int, end: int, row: int) -> tuple[int, int]:
    """From the BOX rows of a zone, which are given one after another, to a demand for one of the tiles that cover it.

    They are of the finest level of which a few are enough. Returns the rows behind those read and those written.
    """
    boxes = given
    while boxes < end and integers(t, GIVEN)[boxes * ROW + OPERATION] == BOX:
        boxes += 1
    level = _finest_level(t, given, boxes)
    written = row
    for box in range(given, boxes):
        first_x, last_x, first_y, last_y = _span_given(t, box, level)
        for x in range(first_x, last_x + 1):
            for y in range(first_y, last_y + 1):
                written = _write_tile(t, row, written, level, x, y)
    rows = integers(t, SCRATCH)
    if written == row + 1:
        rows[row * ROW + OPERATION] = HAS
        for word in range(KIND, ROW):
            rows[row * ROW + word] = rows[written * ROW + word]
        return boxes, row + 1
    rows[row * ROW + OPERATION] = ONE_OF
    rows[row * ROW + COUNT] = written - row
    return boxes, written + 1


@small_kernel
def _write_tile(t: Any, row: int, written: int, level: int, x: int, y: int) -> int:
    """As the item behind the last written one, unless it was written before."""
    rows = integers(t, SCRATCH)
    code = level << TILE_LEVEL_SHIFT | x << TILE_X_SHIFT | y
    for item in range(row + 1, written + 1):
        if rows[item * ROW + COUNT] == code:
            return written
    written += 1
    at = written * ROW
    first, second = tile_hash(secret_of(t), level, x, y)
    rows[at + OPERATION] = ITEM
    rows[at + KIND] = TILE
    rows[at + NAME_FIRST] = 0
    rows[at + NAME_SECOND] = 0
    rows[at + FIRST] = int64(first)
    rows[at + SECOND] = int64(second)
    rows[at + COUNT] = code
    return written


@kernel
def _finest_level(t: Any, given: int, boxes: int) -> int:
    degrees = floats(t, GIVEN)
    widest = 0.0
    for box in range(given, boxes):
        at = box * ROW
        widest = max(widest, (degrees[at + NORTH] - degrees[at + SOUTH]) / 180.0)
        widest = max(widest, (degrees[at + EAST] - degrees[at + WEST]) / 360.0)
    level = TILE_LEVELS_MAX - 1
    # Of any finer level, more than the greatest number would lie side by side.
    while level > 0 and widest * (int64(1) << level) > TILES_MAX:
        level -= 1
    while True:
        count = 0
        for box in range(given, boxes):
            first_x, last_x, first_y, last_y = _span_given(t, box, level)
            count += (last_x - first_x + 1) * (last_y - first_y + 1)
        if count <= TILES_MAX:
            return level
        level -= 1


@small_kernel
def _span_given(t: Any, box: int, level: int) -> tuple[int, int, int, int]:
    degrees = floats(t, GIVEN)
    at = box * ROW
    return span(level, degrees[at + SOUTH], degrees[at + WEST], degrees[at + NORTH], degrees[at + EAST])


@small_kernel
def span(level: int, south: float, west: float, north: float, east: float) -> tuple[int, int, int, int]:
    """The tiles that a box touches: the first and last across, the first and last upwards."""
    first_x, first_y = tile_of(level, south, west)
    last_x, last_y = tile_of(level, north, east)
    return first_x, last_x, first_y, last_y


@kernel
def add_tile_facts(t: Any, latitude: float, longitude: float, facts: int) -> int:
    counts = integers(t, COUNTS)
    rest = counts[TILE_LEVELS]
    level = 0
    while rest != 0:
        if rest & 1:
            x, y = tile_of(level, latitude, longitude)
            first, second = tile_hash(secret_of(t), level, x, y)
            facts = add_fact(t, first, second, TILE, facts)
        rest >>= 1
        level += 1
    return facts


@small_kernel
def tile_of(level: int, latitude: float, longitude: float) -> tuple[int, int]:
    across = int64(1) << level
    x = min(max(int64(np.floor((longitude + 180.0) / 360.0 * across)), 0), across - 1)
    y = min(max(int64(np.floor((latitude + 90.0) / 180.0 * across)), 0), across - 1)
    return x, y


@small_kernel
def tile_hash(secret: Any, level: int, x: int, y: int) -> tuple[Any, Any]:
    return hash_word(secret, uint64(level) << uint64(56) | uint64(x) << uint64(28) | uint64(y))
