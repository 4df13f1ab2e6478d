"""Reads plain filters: conjunctions of predicates in canonical text, as nearly all filters are.

It reads some ten times as fast as the parser, which matters when a matcher takes in a million subscriptions. Whatever
else a filter holds (`or`, `not`, `prev`, names in backticks, strings with quotes in them or compared by order), it says
that the filter is not plain, and `braid.matching.compiling` takes the parser's tree instead.
"""

from typing import Any

import numpy as np
from numba import int64, uint64

from braid.matching.engine.conditions import (
    ABOVE,
    BELOW,
    COUNT,
    END,
    FIRST,
    FLAGS,
    HAS,
    HIGH,
    ITEM,
    KIND,
    LACKS,
    LOW,
    NAME_FIRST,
    NAME_SECOND,
    ONE_OF,
    OPERATION,
    ROW,
    ROWS_MAX,
    SECOND,
    STOP,
    TEXT_LENGTH_MAX,
    WITHIN,
)
from braid.matching.engine.hashing import hash_octets, hash_word, secret_of
from braid.matching.engine.json_reading import MINUS, NINE, ZERO, read_number
from braid.matching.engine.kernel import kernel, load_word, octet_at, small_kernel
from braid.matching.engine.key_records import (
    BOOLEAN,
    EXISTS,
    INTEGER,
    IS_BOOLEAN,
    IS_NUMBER,
    IS_STRING,
    NUMBER,
    PIECE,
    PREFIX,
    STRING,
    SUFFIX,
)
from braid.matching.engine.memory import SCRATCH, floats, integers
from braid.matching.engine.text_keys import polynomials
from braid.matching.engine.topic_keys import bits_of

_SPACE, _TICK, _OPEN, _CLOSE, _COMMA = 0x20, 0x27, 0x28, 0x29, 0x2C
_NOT, _LESS, _EQUAL, _GREATER = 0x21, 0x3C, 0x3D, 0x3E


def _word(text: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(text, "little"))


_AND, _EXISTS, _NOT_WORD = _word(b" and "), _word(b"exists "), _word(b"not ")
_IN, _BETWEEN, _PREFIX, _SUFFIX, _CONTAINS = (
    _word(b"in ("),
    _word(b"between "),
    _word(b"prefix "),
    _word(b"suffix "),
    _word(b"contains"),
)
_TRUE, _FALSE = _word(b"true"), _word(b"false")


@small_kernel
def _is(address: int, word: Any, length: int) -> bool:
    """Whether these bytes, at most eight, stand there."""
    shift = uint64(64 - 8 * length)
    stands_there: bool = (load_word(address) ^ word) << shift == uint64(0)
    return stands_there


@kernel
def read_filter(t: Any, at: int, end: int, row: int) -> bool:
    """Writes the rows of the filter into the scratch region, from this row on; False when it is not plain."""
    rows = integers(t, SCRATCH)
    if at < end:
        while True:
            at, row = _read_predicate(t, at, end, row)
            if at < 0 or row + 8 > ROWS_MAX:
                return False
            if at == end:
                break
            if end - at < 6 or not _is(at, _AND, 5):
                return False
            at += 5
    rows[row * ROW + OPERATION] = END
    rows[(row + 1) * ROW + OPERATION] = STOP
    return True


@kernel
def _read_predicate(t: Any, at: int, end: int, row: int) -> tuple[int, int]:
    secret = secret_of(t)
    exists = _is(at, _EXISTS, 7)
    if exists:
        at += 7
    elif _is(at, _NOT_WORD, 4):
        return -1, row
    name = at
    while at < end and _belongs_to_name(octet_at(at)):
        at += 1
    if at == name:
        return -1, row
    first, second = hash_octets(secret, name, at - name)
    if exists:
        _put(t, row, HAS, EXISTS, first, second, uint64(0), uint64(0), 0)
        return at, row + 1
    if end - at < 4 or octet_at(at) != _SPACE:
        return -1, row
    at += 1
    octet = octet_at(at)
    if octet in (_LESS, _EQUAL, _GREATER, _NOT):
        return _read_comparison(t, at, end, row, first, second)
    if _is(at, _IN, 4):
        return _read_list(t, at + 4, end, row, first, second)
    if _is(at, _BETWEEN, 8):
        return _read_between(t, at + 8, end, row, first, second)
    if _is(at, _PREFIX, 7):
        return _read_text(t, at + 7, end, row, first, second, PREFIX)
    if _is(at, _SUFFIX, 7):
        return _read_text(t, at + 7, end, row, first, second, SUFFIX)
    if _is(at, _CONTAINS, 8) and octet_at(at + 8) == _SPACE:
        return _read_text(t, at + 9, end, row, first, second, PIECE)
    return -1, row


@small_kernel
def _belongs_to_name(octet: int) -> bool:
    return (
        0x61 <= octet <= 0x7A
        or 0x41 <= octet <= 0x5A
        or ZERO <= octet <= NINE
        or octet in (0x5F, 0x2D, 0x2E)
        or octet >= 0x80
    )


@small_kernel
def _put(
    t: Any, row: int, operation: int, kind: int, name: Any, other_name: Any, first: Any, second: Any, count: int
) -> None:
    rows = integers(t, SCRATCH)
    at = row * ROW
    rows[at + OPERATION] = operation
    rows[at + KIND] = kind
    rows[at + NAME_FIRST] = int64(name)
    rows[at + NAME_SECOND] = int64(other_name)
    rows[at + FIRST] = int64(first)
    rows[at + SECOND] = int64(second)
    rows[at + COUNT] = count


@small_kernel
def _put_range(t: Any, row: int, name: Any, other_name: Any, low: float, high: float, flags: int) -> None:
    _put(t, row, WITHIN, 0, name, other_name, uint64(0), uint64(0), 0)
    numbers = floats(t, SCRATCH)
    numbers[row * ROW + LOW] = low
    numbers[row * ROW + HIGH] = high
    integers(t, SCRATCH)[row * ROW + FLAGS] = flags


@kernel
def _read_literal(t: Any, at: int, end: int) -> tuple[int, int, Any, Any, float]:
    """The address behind a literal, the kind of its key, the hash of its value, and the value if it is a number."""
    secret = secret_of(t)
    octet = octet_at(at)
    if octet == _TICK:
        start = at + 1
        at = start
        while at < end and octet_at(at) != _TICK:
            at += 1
        if at >= end or (at + 1 < end and octet_at(at + 1) == _TICK):
            return -1, 0, uint64(0), uint64(0), 0.0
        first, second = hash_octets(secret, start, at - start)
        return at + 1, STRING, first, second, 0.0
    if octet == MINUS or ZERO <= octet <= NINE:
        at, low, high, whole = read_number(at)
        if at < 0 or at > end:
            return -1, 0, uint64(0), uint64(0), 0.0
        if low != high:
            first, second = hash_word(secret, whole)
            return at, INTEGER, first, second, low
        first, second = hash_word(secret, bits_of(low + 0.0))
        return at, NUMBER, first, second, low
    for value in range(2):
        if (value == 1 and _is(at, _TRUE, 4)) or (value == 0 and _is(at, _FALSE, 5)):
            first, second = hash_word(secret, int64(value))
            return at + 5 - value, BOOLEAN, first, second, 0.0
    return -1, 0, uint64(0), uint64(0), 0.0


@kernel
def _read_comparison(t: Any, at: int, end: int, row: int, name: Any, other_name: Any) -> tuple[int, int]:
    operator = octet_at(at)
    or_equal = octet_at(at + 1) == _EQUAL
    at += 2 if or_equal else 1
    if octet_at(at) != _SPACE or (operator == _EQUAL and or_equal) or (operator == _NOT and not or_equal):
        return -1, row
    at, kind, first, second, value = _read_literal(t, at + 1, end)
    if at < 0:
        return -1, row
    if operator == _EQUAL:
        _put(t, row, HAS, kind, name, other_name, first, second, 0)
        return at, row + 1
    if operator == _NOT:
        type_kind = IS_STRING if kind == STRING else IS_BOOLEAN if kind == BOOLEAN else IS_NUMBER
        _put(t, row, HAS, type_kind, name, other_name, uint64(0), uint64(0), 0)
        _put(t, row + 1, LACKS, kind, name, other_name, first, second, 0)
        return at, row + 2
    if kind != NUMBER:
        return -1, row
    if operator == _LESS:
        _put_range(t, row, name, other_name, -np.inf, value, 0 if or_equal else BELOW)
    else:
        _put_range(t, row, name, other_name, value, np.inf, 0 if or_equal else ABOVE)
    return at, row + 1


@kernel
def _read_list(t: Any, at: int, end: int, row: int, name: Any, other_name: Any) -> tuple[int, int]:
    count = 0
    while row + count + 8 < ROWS_MAX:
        at, kind, first, second, _ = _read_literal(t, at, end)
        if at < 0 or at >= end:
            return -1, row
        count += 1
        _put(t, row + count, ITEM, kind, name, other_name, first, second, 0)
        if octet_at(at) == _CLOSE:
            if count == 1:
                _put(t, row, HAS, kind, name, other_name, first, second, 0)
                return at + 1, row + 1
            _put(t, row, ONE_OF, 0, uint64(0), uint64(0), uint64(0), uint64(0), count)
            return at + 1, row + 1 + count
        if octet_at(at) != _COMMA or octet_at(at + 1) != _SPACE:
            return -1, row
        at += 2
    return -1, row


@kernel
def _read_between(t: Any, at: int, end: int, row: int, name: Any, other_name: Any) -> tuple[int, int]:
    at, kind, _, _, low = _read_literal(t, at, end)
    if at < 0 or kind != NUMBER or not _is(at, _AND, 5):
        return -1, row
    at, kind, _, _, high = _read_literal(t, at + 5, end)
    if at < 0 or kind != NUMBER:
        return -1, row
    _put_range(t, row, name, other_name, low, high, 0)
    return at, row + 1


@kernel
def _read_text(t: Any, at: int, end: int, row: int, name: Any, other_name: Any, kind: int) -> tuple[int, int]:
    if octet_at(at) != _TICK:
        return -1, row
    start = at + 1
    at, _, _, _, _ = _read_literal(t, at, end)
    length = at - 1 - start
    if at < 0 or length == 0 or length > TEXT_LENGTH_MAX:
        return -1, row
    first, second = polynomials(t, start, length)
    _put(t, row, HAS, kind, name, other_name, first, second, length)
    return at, row + 1
