"""Which shapes of topics are in use.

Publications are only asked for shapes that some subscription uses, so the engine is told; uses are counted, because
what the last subscription that used it takes away need not be asked for any more.

Every shape costs every publication that is deep enough a little, so not all can be had. Those that people use have room
whatever others do. The rest share a number of places; a subscription that finds none is found by a shape above its own,
which accepts more, and is then checked.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np

from braid.matching.engine.counts import (
    COUNTS_WORDS,
    TOPIC_SELF_ENDS,
    TOPIC_SHAPES,
    TOPIC_SHAPES_FIRST,
    TOPIC_SHAPES_ROOM,
    TOPIC_UNDER_ENDS,
)
from braid.matching.engine.memory import COUNTS, Memory
from braid.matching.engine.topic_keys import LEVELS_MAX, MASK_SHIFT
from braid.subscription import SubscriptionRecord
from braid.topics import ANY_LEVELS, ONE_LEVEL, parse_pattern

UNUSUAL_SHAPES_MAX = 512
_LEVELS_USUAL = 6  # up to so many levels, there are 254 shapes

Shape = tuple[tuple[str, ...], int, bool]  # levels, a bit for each that may be anything, whether what is below counts


class Chosen(NamedTuple):
    shapes: list[Shape]
    exact: bool  # otherwise they accept more than the subscription does


def topic_shapes(record: SubscriptionRecord) -> list[Shape]:
    """The nodes its pattern accepts: its own, what is below them, and in scope "both" each one above."""
    pattern = parse_pattern(record.topic)
    open_ended = pattern[-1] == ANY_LEVELS
    levels = pattern[:-1] if open_ended else pattern
    anything = sum(1 << place for place, level in enumerate(levels) if level == ONE_LEVEL)
    shapes = [(levels, anything, open_ended or record.topic_scope != "self")]
    if record.topic_scope == "both":
        shapes += [_cut(shapes[0], depth, below=False) for depth in range(1, len(levels))]
    return shapes


class TopicShapes:
    def __init__(self, memory: Memory) -> None:
        self._counts = memory.view(COUNTS, COUNTS_WORDS)
        self._uses: Counter[int] = Counter()
        self._unusual = 0  # of those in use
        self._inexact: dict[int, list[int]] = {}  # what subscriptions use that did not get their own

    def choose(self, record: SubscriptionRecord) -> Chosen:
        """The shapes that the subscription is to be found by."""
        chosen: dict[int, Shape] = {}
        exact, left = True, UNUSUAL_SHAPES_MAX - self._unusual
        for shape in topic_shapes(record):
            if not self._is_there(shape):
                if left <= 0:
                    above = self._above(shape)
                    chosen[_code(above)] = above
                    exact = False
                    continue
                left -= 1
            chosen[_code(shape)] = shape
        return Chosen(list(chosen.values()), exact)

    def add(self, number: int, chosen: Chosen) -> None:
        """For the subscription of this number, chosen since the last change."""
        codes = list(map(_code, chosen.shapes))
        if not chosen.exact:
            self._inexact[number] = codes
        known = len(self._uses)
        self._uses.update(codes)
        if len(self._uses) != known:
            self._tell_engine()

    def remove(self, number: int, record: SubscriptionRecord) -> None:
        codes = self._inexact.pop(number, None)
        if codes is None:
            codes = list(map(_code, topic_shapes(record)))
        gone = False
        for code in codes:
            self._uses[code] -= 1
            if self._uses[code] <= 0:
                del self._uses[code]
                gone = True
        if gone:
            self._tell_engine()

    def _is_there(self, shape: Shape) -> bool:
        code = _code(shape)
        return code in self._uses or _is_usual(code)

    def _above(self, shape: Shape) -> Shape:
        """The nearest shape that accepts all that this one does, and more."""
        depth = len(shape[0])
        above = _cut(shape, depth, below=True)
        while not self._is_there(above):
            depth -= 1
            above = _cut(shape, depth, below=True)
        return above

    def _tell_engine(self) -> None:
        codes = np.array(sorted(self._uses, key=_place), dtype=np.int64)
        assert len(codes) <= TOPIC_SHAPES_ROOM
        self._unusual = sum(not _is_usual(code) for code in self._uses)
        is_under, depths = codes & 1 == 1, (codes >> 1) & 63
        all_depths = np.arange(LEVELS_MAX + 1)
        selves = np.searchsorted(depths[~is_under], all_depths, side="right")
        unders = np.searchsorted(depths[is_under], all_depths, side="right") + selves[-1]
        self._counts[TOPIC_SELF_ENDS : TOPIC_SELF_ENDS + len(selves)] = selves
        self._counts[TOPIC_UNDER_ENDS : TOPIC_UNDER_ENDS + len(unders)] = unders
        self._counts[TOPIC_SHAPES_FIRST : TOPIC_SHAPES_FIRST + len(codes)] = codes
        self._counts[TOPIC_SHAPES] = len(codes)


def _cut(shape: Shape, depth: int, *, below: bool) -> Shape:
    levels, anything, _ = shape
    return levels[:depth], anything & (1 << depth) - 1, below


def _code(shape: Shape) -> int:
    """As the engine keeps it, see `topic_keys`."""
    levels, anything, below = shape
    return anything << MASK_SHIFT | len(levels) << 1 | int(below)


def _place(code: int) -> tuple[int, int]:
    """By which the engine wants them in order."""
    return code & 1, (code >> 1) & 63


def _is_usual(code: int) -> bool:
    """Few levels; or only the last of them is given, or all of them, or none."""
    depth, anything = (code >> 1) & 63, code >> MASK_SHIFT
    return depth <= _LEVELS_USUAL or anything in (0, (1 << depth) - 1, (1 << depth - 1) - 1)
