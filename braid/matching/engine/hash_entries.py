"""Hashes for Python: of what stands at the beginning of the region of given rows.

The input region may hold publications meanwhile, whose texts are still needed.
"""

from typing import Any

from numba import int64

from braid.matching.engine.hashing import hash_octets, hash_word, secret_of
from braid.matching.engine.kernel import entry
from braid.matching.engine.memory import GIVEN
from braid.matching.engine.text_keys import polynomials


@entry
def hash_of_octets(t: Any, length: int) -> tuple[int, int]:
    first, second = hash_octets(secret_of(t), t[GIVEN], length)
    return int64(first), int64(second)


@entry
def hash_of_piece(t: Any, length: int) -> tuple[int, int]:
    first, second = polynomials(t, t[GIVEN], length)
    return int64(first), int64(second)


@entry
def hash_of_number(t: Any, word: int) -> tuple[int, int]:
    first, second = hash_word(secret_of(t), word)
    return int64(first), int64(second)
