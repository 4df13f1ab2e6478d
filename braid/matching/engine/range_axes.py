"""Axes: what the ranges of programs are over. An axis is an attribute as a number, or as a text by its order."""

from typing import Any

import numpy as np
from numba import int64, uint64

from braid.matching.engine.conditions import OUTSIDE, TEXT_WITHIN, WITHIN, attribute_of_text_range
from braid.matching.engine.hashing import mix
from braid.matching.engine.kernel import kernel, small_kernel
from braid.matching.engine.memory import SCRATCH, WORDS, integers
from braid.matching.engine.programs import CONDITIONS, SIZE, length_of_condition
from braid.matching.engine.regions import integers_at
from braid.matching.engine.scratch import AXES, AXES_TALLY

# An axis: attribute << 1 | whether it is one of texts.
OF_TEXTS = 1
NO_AXIS = 0

SIGNATURE_AXES_MAX = 6  # of a signature; ranges over further ones are only verified
AXES_MAX = 32  # of a block for programs of any signature
_TALLY = 512  # places
_TALLIED_MAX = 1024  # programs that are looked at to choose axes
_SHARE_MIN = 64  # an axis is chosen when at least one in so many programs has a range over it


@small_kernel
def axis_of(word: int) -> int:
    """Of a condition of a program; NO_AXIS when it is no range, or one that values must lie outside of."""
    operation = word & 7
    if operation == WITHIN and not word >> 3 & OUTSIDE:
        return word >> 6 << 1
    if operation == TEXT_WITHIN and not word >> 3 & OUTSIDE:
        return attribute_of_text_range(word) << 1 | OF_TEXTS
    return NO_AXIS


@kernel
def signature(t: Any, program: int) -> int:
    """A number for the set of axes the program has ranges over, 0 without any; it is odd.

    The axes themselves are left in the scratch region, in order, behind their number.
    """
    words, scratch = integers(t, WORDS), integers(t, SCRATCH)
    count = 0
    at, end = program + CONDITIONS, program + words[program + SIZE]
    while at < end:
        axis = axis_of(words[at])
        if axis != NO_AXIS:
            place = 0
            while place < count and scratch[AXES + 1 + place] < axis:
                place += 1
            known = place < count and scratch[AXES + 1 + place] == axis
            if not known and count < SIGNATURE_AXES_MAX:
                for i in range(count, place, -1):
                    scratch[AXES + 1 + i] = scratch[AXES + i]
                scratch[AXES + 1 + place] = axis
                count += 1
        at += length_of_condition(words[at])
    scratch[AXES] = count
    if count == 0:
        return 0
    hash = np.uint64(0)
    for i in range(count):
        hash = mix(hash ^ np.uint64(scratch[AXES + 1 + i]))
    sign: int = int64(hash | uint64(1))
    return sign


@kernel
def choose_axes(t: Any, programs: Any, count: int) -> None:
    """Leaves those that most of these programs have ranges over in the scratch region, behind their number."""
    words, scratch = integers(t, WORDS), integers(t, SCRATCH)
    tally = integers_at(t[SCRATCH] + 8 * AXES_TALLY)
    for i in range(2 * _TALLY):
        tally[i] = 0
    looked = 0
    for i in range(0, count, 1 + count // _TALLIED_MAX):
        looked += 1
        at, end = programs[i] + CONDITIONS, programs[i] + words[programs[i] + SIZE]
        while at < end:
            axis = axis_of(words[at])
            if axis != NO_AXIS:
                _count(tally, axis)
            at += length_of_condition(words[at])
    chosen = 0
    while chosen < AXES_MAX:
        best = 0
        for place in range(1, _TALLY):
            if tally[2 * place + 1] > tally[2 * best + 1]:
                best = place
        if tally[2 * best + 1] == 0 or tally[2 * best + 1] * _SHARE_MIN < looked:
            break
        chosen += 1
        scratch[AXES + chosen] = tally[2 * best]
        tally[2 * best + 1] = 0
    scratch[AXES] = chosen


@small_kernel
def _count(tally: Any, axis: int) -> None:
    """Where there are more axes than places, some are left out."""
    place = axis & (_TALLY - 1)
    for _ in range(_TALLY):
        if tally[2 * place] == axis or tally[2 * place] == NO_AXIS:
            tally[2 * place] = axis
            tally[2 * place + 1] += 1
            return
        place = (place + 1) & (_TALLY - 1)
