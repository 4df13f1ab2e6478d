"""Hashes of 128 bits in two halves, keyed by a secret of the index.

Two different keys are taken for one with a chance of about one in 2^128; nobody outside can look for such a pair,
because the secret is drawn when the index is made.
"""

import os
from typing import Any

import numpy as np
from numba import uint64

from braid.matching.engine.counts import SECRET
from braid.matching.engine.kernel import kernel, load_word, small_kernel
from braid.matching.engine.memory import COUNTS
from braid.matching.engine.regions import integers_at

# Compiled code is kept on disk and shared by processes, so the secret is not a constant in it but lies in memory.
SECRET_WORDS = 4

_FIRST = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xC2B2AE3D27D4EB4F)
_THIRD = np.uint64(0xBF58476D1CE4E5B9)
_FOURTH = np.uint64(0x94D049BB133111EB)


def new_secret() -> np.ndarray[Any, np.dtype[np.int64]]:
    secret = np.frombuffer(os.urandom(8 * SECRET_WORDS), dtype=np.int64).copy()
    secret |= 1  # the bases of polynomials must be odd
    return secret


@small_kernel
def mix(word: Any) -> Any:
    """Every bit of the result depends on every bit of the word."""
    word = uint64(word)
    word = (word ^ (word >> uint64(30))) * _THIRD
    word = (word ^ (word >> uint64(27))) * _FOURTH
    return word ^ (word >> uint64(31))


@kernel
def hash_octets(secret: Any, address: int, length: int) -> tuple[Any, Any]:
    """Both halves of the hash of `length` bytes; up to seven bytes behind them are read and ignored."""
    first = uint64(secret[0]) ^ (uint64(length) * _FIRST)
    second = uint64(secret[1]) + uint64(length)
    at = 0
    while at + 8 <= length:
        word = load_word(address + at)
        first = (first ^ word) * _THIRD
        first ^= first >> uint64(29)
        second = (second + word) * _SECOND
        second ^= second >> uint64(31)
        at += 8
    if at < length:
        word = load_word(address + at) & ((uint64(1) << uint64(8 * (length - at))) - uint64(1))
        first = (first ^ word) * _THIRD
        first ^= first >> uint64(29)
        second = (second + word) * _SECOND
        second ^= second >> uint64(31)
    return mix(first), mix(second)


@small_kernel
def hash_word(secret: Any, word: Any) -> tuple[Any, Any]:
    return mix(uint64(word) + uint64(secret[0])), mix(uint64(word) * _FIRST ^ uint64(secret[1]))


@small_kernel
def key_hash(first: Any, second: Any, kind: int, attribute: int) -> tuple[Any, Any]:
    """The hash of a key: what kind it is, of which attribute, and the hash of its value."""
    salt = uint64(kind) * _FIRST + uint64(attribute) * _SECOND
    return mix(first ^ salt), mix(second + salt)


@small_kernel
def secret_of(t: Any) -> Any:
    return integers_at(t[COUNTS] + 8 * SECRET)
