"""Which shapes of topics are in use.

Publications are only asked for shapes that some subscription uses, so the engine is told; uses are counted, because
what the last subscription that used it takes away need not be asked for any more.
"""

from collections import Counter

from braid.matching.engine.counts import COUNTS_WORDS, TOPIC_SHAPES, TOPIC_SHAPES_FIRST, TOPIC_SHAPES_MAX
from braid.matching.engine.memory import COUNTS, Memory
from braid.subscription import SubscriptionRecord
from braid.topics import ANY_LEVELS, ONE_LEVEL, parse_pattern

Shape = tuple[tuple[str, ...], int, bool]  # levels, a bit for each that may be anything, whether what is below counts


def topic_shapes(record: SubscriptionRecord) -> list[Shape]:
    """The nodes its pattern accepts: its own, what is below them, and in scope "both" each one above."""
    pattern = parse_pattern(record.topic)
    open_ended = pattern[-1] == ANY_LEVELS
    levels = pattern[:-1] if open_ended else pattern
    anything = sum(1 << place for place, level in enumerate(levels) if level == ONE_LEVEL)
    shapes = [(levels, anything, open_ended or record.topic_scope != "self")]
    if record.topic_scope == "both":
        shapes += [(levels[:depth], anything & (1 << depth) - 1, False) for depth in range(1, len(levels))]
    return shapes


def _code(shape: Shape) -> int:
    """As the engine keeps it, see `topic_keys`."""
    levels, anything, below = shape
    return anything << 7 | len(levels) << 1 | int(below)


class TopicShapes:
    def __init__(self, memory: Memory) -> None:
        self._counts = memory.view(COUNTS, COUNTS_WORDS)
        self._uses: Counter[int] = Counter()
        self._shapeless: set[str] = set()  # subscriptions whose topics have shapes above the limit

    def has_room(self, shapes: list[Shape]) -> bool:
        return len(self._uses.keys() | {_code(shape) for shape in shapes}) <= TOPIC_SHAPES_MAX

    def add(self, record: SubscriptionRecord) -> None:
        shapes = topic_shapes(record)
        if self.has_room(shapes):
            self._uses.update(map(_code, shapes))
            self._tell_engine()
        else:
            self._shapeless.add(record.id)

    def remove(self, record: SubscriptionRecord) -> None:
        if record.id in self._shapeless:
            self._shapeless.remove(record.id)
            return
        for code in map(_code, topic_shapes(record)):
            self._uses[code] -= 1
            if self._uses[code] <= 0:
                del self._uses[code]
        self._tell_engine()

    def _tell_engine(self) -> None:
        self._counts[TOPIC_SHAPES_FIRST : TOPIC_SHAPES_FIRST + len(self._uses)] = list(self._uses)
        self._counts[TOPIC_SHAPES] = len(self._uses)
