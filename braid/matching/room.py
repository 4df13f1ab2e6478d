"""Whether an index has room for more."""

from braid.matching.engine import counts, programs
from braid.matching.engine.key_records import RECORD as KEY_RECORD
from braid.matching.engine.memory import (
    ATTRIBUTES_MAX,
    COUNTS,
    KEY_SLOTS,
    KEY_SLOTS_BESIDE,
    KEYS,
    KEYS_MAX,
    PROGRAMS_MAX,
    SUBSCRIPTIONS_MAX,
    WORDS,
    WORDS_MAX,
    Memory,
)

CHARACTERS_AT_ONCE = 1 << 18  # of the filters and words of a batch
_KEYS_BESIDES_FILTER = 256  # words, nodes of topics and tiles of one subscription, and anchors split for it
_MARGIN = 1 << 18
_PROGRAMS_PER_KEY = 4  # what a subscription may have more than that, the table of programs has room for
_WORDS_PER_CHANGE = 1 << 26  # of the pool, at most


class IndexFullError(Exception):
    """The index holds as much as its address space was reserved for."""


class Room:
    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._counts = memory.view(COUNTS, counts.COUNTS_WORDS)
        self._left = 0  # keys that may come before the counts are looked at again

    def check(self, added: int, filter_bytes: int, subscriptions: int, homes: int) -> None:
        """A predicate takes at least four bytes of a filter, so no filter brings more keys or attributes than bytes.

        Looks at the counts only once in many changes; the margin is what may come meanwhile.
        """
        self._left -= filter_bytes + added * _KEYS_BESIDES_FILTER
        if self._left >= 0:
            return
        self._left = _MARGIN
        coming = _MARGIN + filter_bytes + added * _KEYS_BESIDES_FILTER
        count = self._counts
        if (
            subscriptions + coming >= SUBSCRIPTIONS_MAX
            or homes >= programs.HOME_MASK
            or count[counts.KEYS_USED] + coming >= KEYS_MAX
            or count[counts.PROGRAMS_LIVE] + _PROGRAMS_PER_KEY * coming >= PROGRAMS_MAX
            or count[counts.ATTRIBUTES_USED] + coming // 4 >= ATTRIBUTES_MAX
            or count[counts.POOL_USED] * 9 // 8 + _WORDS_PER_CHANGE >= WORDS_MAX
        ):
            self._left = 0
            raise IndexFullError(f"the index is full with {subscriptions} subscriptions; add matchers")
        self._memory.expect(KEYS, int(count[counts.KEYS_USED]) * KEY_RECORD * 8)
        for table in (KEY_SLOTS, KEY_SLOTS_BESIDE):  # they take turns
            self._memory.expect(table, int(count[counts.KEY_SLOTS_MASK]) * 8)
        self._memory.expect(WORDS, int(count[counts.POOL_USED]) * 8)
