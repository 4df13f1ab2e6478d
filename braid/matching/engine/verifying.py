"""Whether the publication being searched for satisfies a program."""

from typing import Any

from braid.matching.engine import attributes as attribute
from braid.matching.engine import keys as key
from braid.matching.engine.conditions import ABOVE, BELOW, HAS, LACKS, ONE_OF, OUTSIDE, WITHIN
from braid.matching.engine.counts import STAMP
from braid.matching.engine.kernel import small_kernel
from braid.matching.engine.memory import ATTRIBUTES, COUNTS, KEYS, WORDS, floats, integers
from braid.matching.engine.programs import CONDITIONS, SIZE


@small_kernel
def accepts(t: Any, program: int) -> bool:
    """Whether the publication satisfies every condition of the program."""
    words, keys = integers(t, WORDS), integers(t, KEYS)
    stamp = integers(t, COUNTS)[STAMP]
    at, end = program + CONDITIONS, program + words[program + SIZE]
    while at < end:
        word = words[at]
        operation = word & 7
        if operation == HAS:
            if keys[(word >> 3) * key.RECORD + key.STAMP] != stamp:
                return False
            at += 1
        elif operation == WITHIN:
            if not _is_within(t, word, at, stamp):
                return False
            at += 3
        elif operation == LACKS:
            if keys[(word >> 3) * key.RECORD + key.STAMP] == stamp:
                return False
            at += 1
        else:
            found = False
            for i in range(word >> 3):
                found |= keys[words[at + 1 + i] * key.RECORD + key.STAMP] == stamp
            if found != (operation == ONE_OF):
                return False
            at += 1 + (word >> 3)
    return True


@small_kernel
def _is_within(t: Any, word: int, at: int, stamp: int) -> bool:
    """An integer that no float can hold lies between two floats, so each bound is held against the right one."""
    stamps, values, bounds = integers(t, ATTRIBUTES), floats(t, ATTRIBUTES), floats(t, WORDS)
    flags = word >> 3
    record = (word >> 6) * attribute.RECORD
    if stamps[record + attribute.STAMP] != stamp:
        return flags & OUTSIDE != 0
    low, high = values[record + attribute.LOW], values[record + attribute.HIGH]
    inside = high > bounds[at + 1] if flags & ABOVE else low >= bounds[at + 1]
    inside &= low < bounds[at + 2] if flags & BELOW else high <= bounds[at + 2]
    return inside != (flags & OUTSIDE != 0)
