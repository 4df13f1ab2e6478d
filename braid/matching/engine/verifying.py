"""Whether the publication being searched for satisfies a program."""

from typing import Any

from braid.matching.engine import attributes as attribute
from braid.matching.engine import key_records as key
from braid.matching.engine.conditions import (
    ABOVE,
    BELOW,
    HAS,
    LACKS,
    ONE_OF,
    OUTSIDE,
    TEXT_WITHIN,
    WITHIN,
    attribute_of_text_range,
    length_of_text_range,
    text_range,
)
from braid.matching.engine.counts import STAMP
from braid.matching.engine.kernel import kernel, small_kernel
from braid.matching.engine.memory import ATTRIBUTES, COUNTS, KEYS, WORDS, floats, integers
from braid.matching.engine.programs import CONDITIONS, SIZE
from braid.matching.engine.text_order import compare_texts


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
        elif operation == TEXT_WITHIN:
            if not _is_text_within(t, word, at, stamp):
                return False
            at += length_of_text_range(word)
        else:
            found = False
            for i in range(word >> 3):
                if keys[words[at + 1 + i] * key.RECORD + key.STAMP] == stamp:
                    found = True
                    break
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


@kernel
def _is_text_within(t: Any, word: int, at: int, stamp: int) -> bool:
    attributes = integers(t, ATTRIBUTES)
    flags = word >> 3
    record = attribute_of_text_range(word) * attribute.RECORD
    if attributes[record + attribute.TEXT_STAMP] != stamp:
        return flags & OUTSIDE != 0
    begin, end = attributes[record + attribute.TEXT_BEGIN], attributes[record + attribute.TEXT_END]
    low, low_end, high, high_end = text_range(t[WORDS] + 8 * at, integers(t, WORDS)[at + 1])
    order = compare_texts(begin, end, low, low_end)
    inside = order > 0 if flags & ABOVE else order >= 0
    if inside and high_end >= high:
        order = compare_texts(begin, end, high, high_end)
        inside = order < 0 if flags & BELOW else order <= 0
    return inside != (flags & OUTSIDE != 0)
