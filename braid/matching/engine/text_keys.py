"""Keys of texts: beginnings, ends and pieces of the values of attributes.

The hash of a piece is a polynomial of its bytes, so that of every piece of a text follows from those of its beginnings.
Pieces are at most 63 bytes long, too short for the strings that such polynomials are known to confuse.
"""

from typing import Any

from numba import int64, uint64

from braid.matching.engine import attributes as attribute
from braid.matching.engine.counts import TEXTS_READ
from braid.matching.engine.hashing import key_hash, secret_of
from braid.matching.engine.kernel import kernel, octet_at, small_kernel
from braid.matching.engine.key_records import PIECE, PREFIX, SUFFIX
from braid.matching.engine.key_uses import text_place
from braid.matching.engine.memory import ATTRIBUTES, COUNTS, FACTS, SCRATCH, TEXT_SIEVE, integers
from braid.matching.engine.regions import integers_at
from braid.matching.engine.scratch import PIECES_FOUND, POLYNOMIALS
from braid.matching.engine.sieves import may_hold

_PIECES_FOUND = 1 << 12  # pieces of one text that are remembered, each in the place that its hash gives


@kernel
def polynomials(t: Any, start: int, length: int) -> tuple[Any, Any]:
    """The hash of a prefix, suffix or piece: one that the reader of publications gets for every place of a text."""
    secret = secret_of(t)
    first, second = uint64(0), uint64(0)
    for i in range(length):
        octet = uint64(octet_at(start + i)) + uint64(1)
        first = first * uint64(secret[2]) + octet
        second = second * uint64(secret[3]) + octet
    return first, second


@kernel
def add_text_facts(t: Any, known: int, begin: int, finish: int, facts: int) -> int:
    """Of all beginnings, ends and pieces of a length that is asked for, those that may be keys.

    A text may hold one piece thousands of times, which is one fact.
    """
    integers(t, COUNTS)[TEXTS_READ] += 1
    attributes, hashes = integers(t, ATTRIBUTES), integers_at(t[SCRATCH] + 8 * POLYNOMIALS)
    secret = secret_of(t)
    base, other_base = uint64(secret[2]), uint64(secret[3])
    length = finish - begin
    # hashes[2 i] and hashes[2 i + 1] are the polynomials of the first i bytes.
    hashes[0] = 0
    hashes[1] = 0
    for i in range(length):
        octet = uint64(octet_at(begin + i)) + uint64(1)
        hashes[2 * i + 2] = int64(uint64(hashes[2 * i]) * base + octet)
        hashes[2 * i + 3] = int64(uint64(hashes[2 * i + 1]) * other_base + octet)
    at = known * attribute.RECORD
    prefixes, suffixes = uint64(attributes[at + attribute.PREFIXES]), uint64(attributes[at + attribute.SUFFIXES])
    pieces = uint64(attributes[at + attribute.PIECES])
    power, other_power = uint64(1), uint64(1)
    for size in range(1, min(length, 63) + 1):
        power *= base
        other_power *= other_base
        if (prefixes >> uint64(size)) & uint64(1):
            first, second = uint64(hashes[2 * size]), uint64(hashes[2 * size + 1])
            facts = _add_text_fact(t, first, second, PREFIX, known, facts)
        if (suffixes >> uint64(size)) & uint64(1):
            first, second = _piece(hashes, length - size, size, power, other_power)
            facts = _add_text_fact(t, first, second, SUFFIX, known, facts)
        if (pieces >> uint64(size)) & uint64(1):
            for start in range(length - size + 1):
                first, second = _piece(hashes, start, size, power, other_power)
                facts = _add_piece_fact(t, first, second, known, facts)
    return facts


@small_kernel
def _piece(hashes: Any, start: int, size: int, power: Any, other_power: Any) -> tuple[Any, Any]:
    end = 2 * (start + size)
    return (
        uint64(hashes[end]) - uint64(hashes[2 * start]) * power,
        uint64(hashes[end + 1]) - uint64(hashes[2 * start + 1]) * other_power,
    )


@small_kernel
def _add_text_fact(t: Any, first: Any, second: Any, kind: int, of: int, facts: int) -> int:
    first, second = key_hash(first, second, kind, of)
    return _add(t, first, second, facts) if may_hold(t, TEXT_SIEVE, text_place(first)) else facts


@small_kernel
def _add_piece_fact(t: Any, first: Any, second: Any, of: int, facts: int) -> int:
    first, second = key_hash(first, second, PIECE, of)
    if not may_hold(t, TEXT_SIEVE, text_place(first)):
        return facts
    found, text = integers_at(t[SCRATCH] + 8 * PIECES_FOUND), integers(t, COUNTS)[TEXTS_READ]
    place = 2 * int64(first >> uint64(32) & uint64(_PIECES_FOUND - 1))
    if found[place] == int64(first) and found[place + 1] == text:
        return facts
    found[place] = int64(first)
    found[place + 1] = text
    return _add(t, first, second, facts)


@small_kernel
def _add(t: Any, first: Any, second: Any, facts: int) -> int:
    store = integers(t, FACTS)
    store[2 * facts] = int64(first)
    store[2 * facts + 1] = int64(second)
    return facts + 1
