"""Rows that Python gives for subscriptions on their way in, in a region of their own: words, topics, boxes of zones,
and of filters that are not plain everything."""

from typing import Any

from braid.matching.engine.conditions import BOX, OPERATION, ROW
from braid.matching.engine.kernel import kernel
from braid.matching.engine.memory import GIVEN, SCRATCH, integers
from braid.matching.engine.tiles import write_tiles


@kernel
def take_rows(t: Any, given: int, end: int) -> int:
    """Copies the given rows into the scratch region, tiles in the place of boxes; returns the row behind them."""
    source, rows = integers(t, GIVEN), integers(t, SCRATCH)
    row = 0
    while given < end:
        if source[given * ROW + OPERATION] == BOX:
            given, row = write_tiles(t, given, end, row)
            continue
        for word in range(ROW):
            rows[row * ROW + word] = source[given * ROW + word]
        given += 1
        row += 1
    return row
