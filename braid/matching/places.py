"""Which kinds of places are in use: shapes of topics, levels of tiles, and words.

Publications are only asked for what some subscription uses, so the engine is told; uses are counted, because what the
last subscription that used it takes away need not be asked for any more.
"""

import math
from collections import Counter
from typing import Any, NamedTuple

from braid.matching.engine.counts import (
    COUNTS_WORDS,
    TEXTS_USED,
    TILE_LEVELS,
    TOPIC_SHAPES,
    TOPIC_SHAPES_FIRST,
    TOPIC_SHAPES_MAX,
)
from braid.matching.engine.memory import COUNTS, Memory
from braid.matching.engine.place_keys import TILE_LEVELS_MAX
from braid.matching.row_writing import Tile
from braid.subscription import SubscriptionRecord
from braid.topics import ANY_LEVELS, ONE_LEVEL, parse_pattern
from braid.words import stems_of_words
from braid.zones import bounds

Shape = tuple[tuple[str, ...], int, bool]  # levels, a bit for each that may be anything, whether what is below counts

_TILES_MAX = 16  # of a subscription
_TILES_NAMED_MAX = 1024  # of a publication; above it, the tiles in use are looked through


def topic_shapes(topic: str, scope: str) -> list[Shape]:
    """The nodes a pattern accepts: its own, what is below them, and in scope "both" each one above."""
    pattern = parse_pattern(topic)
    open_ended = pattern[-1] == ANY_LEVELS
    levels = pattern[:-1] if open_ended else pattern
    anything = sum(1 << place for place, level in enumerate(levels) if level == ONE_LEVEL)
    shapes = [(levels, anything, open_ended or scope != "self")]
    if scope == "both":
        shapes += [(levels[:depth], anything & (1 << depth) - 1, False) for depth in range(1, len(levels))]
    return shapes


def _code(shape: Shape) -> int:
    """As the engine keeps it, see `place_keys`."""
    levels, anything, below = shape
    return anything << 7 | len(levels) << 1 | int(below)


class Uses(NamedTuple):
    """What one subscription uses."""

    stems: list[str]
    shapes: list[Shape]
    tiles: list[Tile]  # all of one level


def uses_of(record: SubscriptionRecord) -> Uses:
    return Uses(
        stems_of_words(record.words) if record.words else [],
        topic_shapes(record.topic, record.topic_scope) if record.topic else [],
        [] if record.zone is None else tiles_of(record.zone),
    )


def tiles_of(zone: dict[str, Any]) -> list[Tile]:
    """The tiles of the finest level of which a few cover the zone."""
    boxes = bounds(zone)
    widest = max(max((north - south) / 180, (east - west) / 360) for south, west, north, east in boxes)
    level = TILE_LEVELS_MAX - 1
    if widest > 0:
        # Of any finer level, more than the greatest number would lie side by side.
        level = max(0, min(level, int(math.log2(_TILES_MAX / widest))))
    while _count(boxes, level) > _TILES_MAX:
        level -= 1
    return list(dict.fromkeys((level, x, y) for box in boxes for x, y in _span(box, level)))


class Places:
    def __init__(self, memory: Memory) -> None:
        self._counts = memory.view(COUNTS, COUNTS_WORDS)
        self._shapes: Counter[int] = Counter()
        self._shapeless: set[str] = set()  # subscriptions whose topics have shapes above the limit
        self._levels: Counter[int] = Counter()
        self._stems: Counter[str] = Counter()
        self.words_changed = 0  # grows whenever a word is demanded for the first time or no longer

    @property
    def stems(self) -> Counter[str]:
        """What subscriptions demand, and how many do."""
        return self._stems

    def takes_shapes(self, shapes: list[Shape]) -> bool:
        return len(self._shapes.keys() | {_code(shape) for shape in shapes}) <= TOPIC_SHAPES_MAX

    def tiles_at_levels_in_use(self, zone: dict[str, Any]) -> list[Tile] | None:
        """The tiles that a publication with this zone touches; None when they are too many to be named."""
        boxes = bounds(zone)
        if sum(_count(boxes, level) for level in self._levels) > _TILES_NAMED_MAX:
            return None
        named = ((level, x, y) for level in self._levels for box in boxes for x, y in _span(box, level))
        return list(dict.fromkeys(named))

    def add(self, id: str, uses: Uses) -> None:
        self._change(id, uses, 1)

    def remove(self, id: str, uses: Uses) -> None:
        self._change(id, uses, -1)

    def _change(self, id: str, uses: Uses, change: int) -> None:
        if uses.stems:
            before = len(self._stems)
            _count_all(self._stems, uses.stems, change)
            if len(self._stems) != before:
                self.words_changed += 1
                self._counts[TEXTS_USED] = len(self._stems)
        if uses.shapes:
            if change > 0 and not self.takes_shapes(uses.shapes):
                self._shapeless.add(id)
            elif change < 0 and id in self._shapeless:
                self._shapeless.remove(id)
            else:
                _count_all(self._shapes, [_code(shape) for shape in uses.shapes], change)
            self._counts[TOPIC_SHAPES_FIRST : TOPIC_SHAPES_FIRST + len(self._shapes)] = list(self._shapes)
            self._counts[TOPIC_SHAPES] = len(self._shapes)
        if uses.tiles:
            _count_all(self._levels, [uses.tiles[0][0]], change)
            self._counts[TILE_LEVELS] = sum(1 << level for level in self._levels)


def _count_all(counter: Counter[Any], items: list[Any], change: int) -> None:
    for item in items:
        counter[item] += change
        if counter[item] <= 0:
            del counter[item]


def _ranges(box: tuple[float, float, float, float], level: int) -> tuple[range, range]:
    south, west, north, east = box
    across = 1 << level
    first_x, last_x = int((west + 180.0) / 360.0 * across), int((east + 180.0) / 360.0 * across)
    first_y, last_y = int((south + 90.0) / 180.0 * across), int((north + 90.0) / 180.0 * across)
    last = across - 1
    return range(min(first_x, last), min(last_x, last) + 1), range(min(first_y, last), min(last_y, last) + 1)


def _count(boxes: list[tuple[float, float, float, float]], level: int) -> int:
    return sum(len(xs) * len(ys) for xs, ys in (_ranges(box, level) for box in boxes))


def _span(box: tuple[float, float, float, float], level: int) -> list[tuple[int, int]]:
    xs, ys = _ranges(box, level)
    return [(x, y) for x in xs for y in ys]
