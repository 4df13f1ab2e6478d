"""The order of texts, which is that of their bytes: UTF-8 keeps the order of characters.

Texts are compared eight bytes at a time, as words in which the first byte counts most. Behind its end a text is taken
to hold zeros; where that leaves two texts alike, the longer one comes later.
"""

from typing import Any

from numba import uint64

from braid.matching.engine.kernel import load_word, small_kernel, swap_octets

CUT_WORDS = 8  # of a cut between buckets of texts; what texts hold behind them does not tell their buckets apart


@small_kernel
def compare_texts(begin: int, end: int, other: int, other_end: int) -> int:
    """Below 0 when the text at the first address comes before the other one, above 0 when it comes after it."""
    length, other_length = end - begin, other_end - other
    for place in range(0, min(length, other_length), 8):
        mine, others = _word_of(begin, length, place), _word_of(other, other_length, place)
        if mine != others:
            return -1 if mine < others else 1
    return length - other_length


@small_kernel
def bucket_of_text(cuts: int, buckets: int, begin: int, end: int) -> int:
    """How many of the cuts, which stand one after another at the address, do not come after this text."""
    low = 0
    step = buckets >> 1
    while step > 0:
        if _cut_is_at_most(cuts + 8 * CUT_WORDS * (low + step - 1), begin, end - begin):
            low += step
        step >>= 1
    return low


@small_kernel
def cut_word(begin: int, end: int, place: int) -> Any:
    """The word at this place of the cut that a text makes."""
    return _word_of(begin, end - begin, 8 * place)


@small_kernel
def _cut_is_at_most(cut: int, begin: int, length: int) -> bool:
    for place in range(CUT_WORDS):
        mine, others = load_word(cut + 8 * place), _word_of(begin, length, 8 * place)
        if mine != others:
            smaller: bool = mine < others
            return smaller
    return True


@small_kernel
def _word_of(begin: int, length: int, place: int) -> Any:
    """The eight bytes at a place of a text; up to seven bytes behind the text are read and ignored."""
    left = length - place
    if left <= 0:
        return uint64(0)
    word = swap_octets(load_word(begin + place))
    if left < 8:
        word &= ~uint64(0) << uint64(64 - 8 * left)
    return word
