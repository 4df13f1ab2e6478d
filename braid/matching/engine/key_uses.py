"""What readers of publications must know of the keys there are: so they look for nothing that nobody asks for.

These are the number of words, the tiles in use, the lengths of texts that are asked for, and a sieve of texts.
"""

from typing import Any

from numba import uint64

from braid.matching.engine.attributes import PIECES, PREFIXES, SUFFIXES
from braid.matching.engine.attributes import RECORD as ATTRIBUTE_RECORD
from braid.matching.engine.counts import TILE_KEYS, TILE_KEYS_FIRST, TILE_LEVELS, WORD_KEYS, WORD_KEYS_CHANGED
from braid.matching.engine.hashing import mix
from braid.matching.engine.kernel import kernel, small_kernel
from braid.matching.engine.key_records import (
    HASH,
    KIND,
    PIECE,
    PREFIX,
    RECORD,
    TEXT_LENGTH_SHIFT,
    TILE,
    TILE_LEVEL_SHIFT,
    WORD,
    attribute_of,
)
from braid.matching.engine.memory import (
    ATTRIBUTES,
    COUNTS,
    KEYS,
    TEXT_LENGTH_COUNTS,
    TEXT_SIEVE,
    TEXT_SIEVE_COUNTS,
    TILE_PLACES,
    TILES,
    integers,
)
from braid.matching.engine.sieves import SIEVE_BITS, count_down, count_up, put_into, take_from

TILE_IN_USE = 2  # words: the key, and the code of the tile
LENGTH_COUNTS = 1 << 16  # of attribute, kind and length; two that share one are only asked for a little longer


@kernel
def note_coming(t: Any, key: int) -> None:
    kind = integers(t, KEYS)[key * RECORD + KIND] & 255
    if kind == WORD:
        _count_word(t, 1)
    elif kind == TILE:
        _count_level(t, key, 1)
        _list_tile(t, key)
    elif PREFIX <= kind <= PIECE:
        put_into(t, TEXT_SIEVE, TEXT_SIEVE_COUNTS, text_place(integers(t, KEYS)[key * RECORD + HASH]))
        attribute, kind, length = _text(t, key)
        integers(t, ATTRIBUTES)[_mask_of(attribute, kind)] |= 1 << length
        count_up(t, TEXT_LENGTH_COUNTS, _length_place(attribute, kind, length))


@kernel
def note_leaving(t: Any, key: int) -> None:
    """While its attribute still refers to it."""
    kind = integers(t, KEYS)[key * RECORD + KIND] & 255
    if kind == WORD:
        _count_word(t, -1)
    elif kind == TILE:
        _count_level(t, key, -1)
        _unlist_tile(t, key)
    elif PREFIX <= kind <= PIECE:
        take_from(t, TEXT_SIEVE, TEXT_SIEVE_COUNTS, text_place(integers(t, KEYS)[key * RECORD + HASH]))
        attribute, kind, length = _text(t, key)
        if count_down(t, TEXT_LENGTH_COUNTS, _length_place(attribute, kind, length)):
            integers(t, ATTRIBUTES)[_mask_of(attribute, kind)] &= ~(1 << length)


@small_kernel
def text_place(hash: Any) -> Any:
    """The place in the sieve of texts of a key of this hash."""
    return uint64(hash) & uint64(SIEVE_BITS - 1)


@small_kernel
def _text(t: Any, key: int) -> tuple[int, int, int]:
    kind_word = integers(t, KEYS)[key * RECORD + KIND]
    return attribute_of(kind_word), kind_word & 255, kind_word >> 8 + TEXT_LENGTH_SHIFT


@small_kernel
def _mask_of(attribute: int, kind: int) -> int:
    """Where the lengths are noted that are asked for of this attribute."""
    return attribute * ATTRIBUTE_RECORD + (PIECES if kind == PIECE else PREFIXES if kind == PREFIX else SUFFIXES)


@small_kernel
def _length_place(attribute: int, kind: int, length: int) -> Any:
    return mix(uint64(attribute << 16 | kind << 8 | length)) & uint64(LENGTH_COUNTS - 1)


@small_kernel
def _count_word(t: Any, change: int) -> None:
    counts = integers(t, COUNTS)
    counts[WORD_KEYS] += change
    counts[WORD_KEYS_CHANGED] += 1


@small_kernel
def _count_level(t: Any, key: int, change: int) -> None:
    counts = integers(t, COUNTS)
    level = integers(t, KEYS)[key * RECORD + KIND] >> 8 + TILE_LEVEL_SHIFT
    counts[TILE_KEYS_FIRST + level] += change
    if counts[TILE_KEYS_FIRST + level] == 0:
        counts[TILE_LEVELS] &= ~(1 << level)
    else:
        counts[TILE_LEVELS] |= 1 << level


@small_kernel
def _list_tile(t: Any, key: int) -> None:
    """All tiles in use stand in one list, so that a large zone need not look at other keys."""
    counts, tiles = integers(t, COUNTS), integers(t, TILES)
    place = counts[TILE_KEYS]
    tiles[place * TILE_IN_USE] = key
    tiles[place * TILE_IN_USE + 1] = integers(t, KEYS)[key * RECORD + KIND] >> 8
    integers(t, TILE_PLACES)[key] = place
    counts[TILE_KEYS] = place + 1


@small_kernel
def _unlist_tile(t: Any, key: int) -> None:
    counts, tiles, places = integers(t, COUNTS), integers(t, TILES), integers(t, TILE_PLACES)
    counts[TILE_KEYS] -= 1
    last, hole = counts[TILE_KEYS] * TILE_IN_USE, places[key] * TILE_IN_USE
    tiles[hole] = tiles[last]
    tiles[hole + 1] = tiles[last + 1]
    places[tiles[hole]] = places[key]
