"""The values of publications and filters, and what their types mean for the language.

Python takes booleans for integers, so `1 == True`. The language does not: every comparison between a
boolean and a number is false. All code that compares values therefore asks `kind_of` or has a reason
not to.
"""

import math
from typing import Literal, TypeAlias

Value: TypeAlias = str | bool | int | float
Kind: TypeAlias = Literal["string", "number", "boolean"]

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

_KINDS: dict[type, Kind] = {str: "string", int: "number", float: "number", bool: "boolean"}


def kind_of(value: object) -> Kind | None:
    """The type of a value as the language sees it; None for what is not a value at all."""
    return _KINDS.get(type(value))


def literal_problem(value: object) -> str | None:
    """Why the value cannot be written in a filter, or None if it can."""
    if kind_of(value) is None:
        return "a value is a string, a number or a boolean"
    if type(value) is int and not INT64_MIN <= value <= INT64_MAX:
        return "the integer does not fit in 64 bits"
    if type(value) is float and not math.isfinite(value):
        return "the number is too large for a float" if math.isinf(value) else "NaN is not a value"
    if type(value) is str and not _is_text(value):
        return "the string holds half of a character (a surrogate that stands alone)"
    return None


def _is_text(string: str) -> bool:
    """Python takes halves of characters for characters; they cannot be encoded, so no publication holds any."""
    if string.isascii():
        return True
    try:
        string.encode()
    except UnicodeEncodeError:
        return False
    return True
