"""Sieves: tables of bits that say quickly of most things that they are not there.

Each bit has a count beside it of what has set it, so that it is cleared when the last of that has gone; otherwise a
sieve would let through more and more while subscriptions come and go.
"""

from typing import Any

from numba import int64, uint64

from braid.matching.engine.kernel import small_kernel
from braid.matching.engine.memory import integers

SIEVE_BITS = 1 << 20
COUNT_BYTES = 2
_COUNT_MAX = (1 << 8 * COUNT_BYTES) - 1  # a count that has come so far stays there, and its bit stays set


@small_kernel
def may_hold(t: Any, sieve: int, place: Any) -> bool:
    found: bool = (uint64(integers(t, sieve)[place >> uint64(6)]) >> (place & uint64(63))) & uint64(1) != 0
    return found


@small_kernel
def put_into(t: Any, sieve: int, counts: int, place: Any) -> None:
    integers(t, sieve)[place >> uint64(6)] |= int64(uint64(1) << (place & uint64(63)))
    count_up(t, counts, place)


@small_kernel
def take_from(t: Any, sieve: int, counts: int, place: Any) -> None:
    if count_down(t, counts, place):
        integers(t, sieve)[place >> uint64(6)] &= ~int64(uint64(1) << (place & uint64(63)))


@small_kernel
def count_up(t: Any, counts: int, place: Any) -> None:
    words, shift = integers(t, counts), (place & uint64(3)) << uint64(4)
    word = uint64(words[place >> uint64(2)])
    if (word >> shift) & uint64(_COUNT_MAX) != uint64(_COUNT_MAX):
        words[place >> uint64(2)] = int64(word + (uint64(1) << shift))


@small_kernel
def count_down(t: Any, counts: int, place: Any) -> bool:
    """Whether nothing is left."""
    words, shift = integers(t, counts), (place & uint64(3)) << uint64(4)
    word = uint64(words[place >> uint64(2)])
    count = (word >> shift) & uint64(_COUNT_MAX)
    if count == uint64(_COUNT_MAX):
        return False
    words[place >> uint64(2)] = int64(word - (uint64(1) << shift))
    last: bool = count == uint64(1)
    return last
