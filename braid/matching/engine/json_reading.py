"""Reads the parts of canonical JSON: strings, numbers, and whatever is to be skipped.

All take and give absolute addresses. What is read ends with `}` and is followed by some spare bytes, so a reader may
look a few bytes ahead. A negative address says: not as a connection point writes it.
"""

from typing import Any

import numpy as np
from numba import int64, uint64

from braid.matching.engine.kernel import (
    kernel,
    load_word,
    octet_at,
    pointer_to,
    put_octet,
    read_float,
    small_kernel,
    trailing_zeros,
)

QUOTE, BACKSLASH, COMMA, COLON = 0x22, 0x5C, 0x2C, 0x3A
MINUS, ZERO, NINE, POINT, PLUS = 0x2D, 0x30, 0x39, 0x2E, 0x2B
OPEN_OBJECT, CLOSE_OBJECT, OPEN_LIST, CLOSE_LIST = 0x7B, 0x7D, 0x5B, 0x5D

_ONES = np.uint64(0x0101010101010101)
_HIGHS = np.uint64(0x8080808080808080)
_QUOTES = np.uint64(0x2222222222222222)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_TRUE = np.uint64(int.from_bytes(b"true", "little"))
_FALSE = np.uint64(int.from_bytes(b"false", "little"))
_EXACT = float(2**53)
_POWERS = np.array([10.0**i for i in range(23)])


@small_kernel
def end_of_plain(address: int) -> int:
    """The first quote or backslash at or behind the address."""
    while True:
        word = load_word(address)
        quotes = word ^ _QUOTES
        backslashes = word ^ _BACKSLASHES
        found = ((quotes - _ONES) & ~quotes | (backslashes - _ONES) & ~backslashes) & _HIGHS
        if found != 0:
            place: int = address + int64(trailing_zeros(found) >> uint64(3))
            return place
        address += 8


@kernel
def end_of_string(address: int, end: int) -> int:
    """The closing quote of a string whose first character stands at the address."""
    while True:
        address = end_of_plain(address)
        if address >= end:
            return -1
        if octet_at(address) == QUOTE:
            return address
        address += 2


@kernel
def unescape(address: int, end: int, to: int) -> int:
    """Writes the string between the addresses without its escapes; returns where it ends, negative when it cannot."""
    while address < end:
        octet = octet_at(address)
        if octet != BACKSLASH:
            put_octet(to, octet)
            to += 1
            address += 1
            continue
        escape = octet_at(address + 1)
        address += 2
        if escape in (QUOTE, BACKSLASH, 0x2F):
            put_octet(to, escape)
        elif escape == 0x62:
            put_octet(to, 8)
        elif escape == 0x66:
            put_octet(to, 12)
        elif escape == 0x6E:
            put_octet(to, 10)
        elif escape == 0x72:
            put_octet(to, 13)
        elif escape == 0x74:
            put_octet(to, 9)
        elif escape == 0x75 and octet_at(address) == ZERO and octet_at(address + 1) == ZERO:
            # A canonical writer escapes only control characters so.
            code = (_hexadecimal(octet_at(address + 2)) << 4) | _hexadecimal(octet_at(address + 3))
            if code < 0 or code > 0x7F:
                return -1
            put_octet(to, code)
            address += 4
        else:
            return -1
        to += 1
    return to


@small_kernel
def _hexadecimal(octet: int) -> int:
    if ZERO <= octet <= NINE:
        return octet - ZERO
    octet |= 0x20
    return octet - 0x61 + 10 if 0x61 <= octet <= 0x66 else -1


@kernel
def skip_value(address: int, end: int) -> int:
    """The address behind any value."""
    depth = 0
    while address < end:
        octet = octet_at(address)
        if octet == QUOTE:
            address = end_of_string(address + 1, end)
            if address < 0:
                return -1
        elif octet in (OPEN_OBJECT, OPEN_LIST):
            depth += 1
        elif octet in (CLOSE_OBJECT, CLOSE_LIST):
            depth -= 1
            if depth < 0:
                return address
        elif octet == COMMA and depth == 0:
            return address
        address += 1
        if depth == 0 and octet in (QUOTE, CLOSE_OBJECT, CLOSE_LIST):
            return address
    return -1


@kernel
def skip_scalar(address: int, end: int) -> int:
    """The address behind a string, a number or a boolean; negative for anything else."""
    octet = octet_at(address)
    if octet == QUOTE:
        address = end_of_string(address + 1, end)
        return address + 1 if address >= 0 else -1
    if octet != MINUS and not ZERO <= octet <= NINE:
        return end_of_boolean(address)
    address += 1
    while True:
        octet = octet_at(address)
        if not (ZERO <= octet <= NINE or octet in (POINT, MINUS, PLUS, 0x65, 0x45)):
            return address
        address += 1


@small_kernel
def end_of_boolean(address: int) -> int:
    word = load_word(address)
    if word << uint64(32) == _TRUE << uint64(32):
        return address + 4
    if word << uint64(24) == _FALSE << uint64(24):
        return address + 5
    return -1


@kernel
def read_number(address: int) -> tuple[int, float, float, int]:
    """The address behind a number, the floats next to it from below and from above, the integer where they differ."""
    start = address
    negative = octet_at(address) == MINUS
    address += int64(negative)
    first_digit = address
    digits = uint64(0)
    while ZERO <= octet_at(address) <= NINE:
        digits = digits * uint64(10) + uint64(octet_at(address) - ZERO)
        address += 1
    count = address - first_digit
    if count == 0 or count > 19 or (count > 1 and octet_at(first_digit) == ZERO):
        return -1, 0.0, 0.0, 0
    octet = octet_at(address)
    if octet not in (POINT, 0x65, 0x45):
        return _integer(address, digits, negative)
    exponent = 0
    if octet == POINT:
        address += 1
        fraction = address
        while ZERO <= octet_at(address) <= NINE:
            digits = digits * uint64(10) + uint64(octet_at(address) - ZERO)
            address += 1
        if address == fraction:
            return -1, 0.0, 0.0, 0
        exponent = fraction - address
        count += address - fraction
    if octet_at(address) | 0x20 == 0x65:
        address += 1
        down = octet_at(address) == MINUS
        if down or octet_at(address) == PLUS:
            address += 1
        if not ZERO <= octet_at(address) <= NINE:
            return -1, 0.0, 0.0, 0
        power = 0
        while ZERO <= octet_at(address) <= NINE:
            power = min(power * 10 + (octet_at(address) - ZERO), 100_000)
            address += 1
        exponent += -power if down else power
    if count <= 19 and digits <= uint64(1 << 53) and -22 <= exponent <= 22:
        # Both are exact, so the one rounding of the operation is the right one.
        value = float(digits)
        value = value * _POWERS[exponent] if exponent >= 0 else value / _POWERS[-exponent]
        if negative:
            value = -value
    else:
        value = read_float(pointer_to(start), pointer_to(int64(0)))
    if not abs(value) < np.inf:
        return -1, 0.0, 0.0, 0
    return address, value, value, 0


@small_kernel
def _integer(address: int, digits: Any, negative: bool) -> tuple[int, float, float, int]:
    if digits > uint64(1 << 63) or (digits == uint64(1 << 63) and not negative):
        return -1, 0.0, 0.0, 0
    value = float(digits)
    near, far = value, value
    if value >= _EXACT:
        back = uint64(value)
        if back > digits:
            near = np.nextafter(value, 0.0)
        elif back < digits:
            far = np.nextafter(value, np.inf)
    whole = int64(digits)
    if negative:
        return address, -far, -near, -whole
    return address, near, far, whole
