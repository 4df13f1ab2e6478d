"""Rows of conditions, as Python writes them for the engine."""

import struct
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from braid.matching.engine import conditions, keys
from braid.matching.engine.conditions import END, HAS, ITEM, LACKS, NONE_OF, ONE_OF, ROW, STOP, WITHIN
from braid.matching.engine.hash_entries import hash_of_number, hash_of_octets, hash_of_piece
from braid.matching.engine.memory import INPUT, SCRATCH, Memory
from braid.matching.engine.place_keys import TILE_LEVELS_MAX, hash_of_topic, hashes_of_tiles

Hash = tuple[int, int]
Tile = tuple[int, int, int]  # level, x, y
_NOTHING: Hash = (0, 0)
_END, _STOP = (END, *[0] * (ROW - 1)), (STOP, *[0] * (ROW - 1))
_WORDS_KEPT_MAX = 65_536
_float_bits = struct.Struct("=d").pack
_integer = struct.Struct("=q").unpack

__all__ = ["TILE_LEVELS_MAX", "Key", "Row", "RowWriter"]


class Key(NamedTuple):
    kind: int
    name: Hash = _NOTHING  # of the attribute
    value: Hash = _NOTHING
    length: int = 0  # of a text; of a tile, which one it is


class Row(NamedTuple):
    operation: int
    keys: tuple[Key, ...] = ()
    name: Hash = _NOTHING
    low: float = 0.0
    high: float = 0.0
    flags: int = 0


def has(key: Key) -> Row:
    return Row(HAS, (key,))


def lacks(key: Key) -> Row:
    return Row(LACKS, (key,))


def one_of(several: Sequence[Key]) -> Row:
    return has(several[0]) if len(several) == 1 else Row(ONE_OF, tuple(several))


def none_of(several: Sequence[Key]) -> Row:
    return lacks(several[0]) if len(several) == 1 else Row(NONE_OF, tuple(several))


class RowWriter:
    """Hashes what rows speak of with the secret of one index, and writes them where its engine reads them."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._input = memory.buffer(INPUT)
        self._scratch = memory.buffer(SCRATCH)
        self._words: dict[str, Key] = {}

    def name(self, text: str) -> Hash:
        return self._octets(text.encode())

    def string(self, name: Hash, text: str) -> Key:
        return Key(keys.STRING, name, self._octets(text.encode()))

    def number(self, name: Hash, value: int | float) -> Key:
        as_float = float(value)
        if as_float == value:
            bits = _integer(_float_bits(as_float + 0.0))[0]
            return Key(keys.NUMBER, name, hash_of_number(self._memory.addresses, bits))
        return Key(keys.INTEGER, name, hash_of_number(self._memory.addresses, int(value)))

    def boolean(self, name: Hash, value: bool) -> Key:
        return Key(keys.BOOLEAN, name, hash_of_number(self._memory.addresses, int(value)))

    def text(self, kind: int, name: Hash, octets: bytes) -> Key:
        self._write(octets)
        return Key(kind, name, hash_of_piece(self._memory.addresses, len(octets)), len(octets))

    def word(self, stem: str) -> Key:
        key = self._words.get(stem)
        if key is None:
            if len(self._words) >= _WORDS_KEPT_MAX:
                self._words.clear()
            key = self._words[stem] = Key(keys.WORD, value=self._octets(stem.encode()))
        return key

    def topic(self, levels: Sequence[str], anything: int, below: bool) -> Key:
        """`anything` has a bit for each level that may be anything."""
        encoded = [level.encode() for level in levels]
        self._write(b"".join(encoded))
        ends = np.cumsum([len(level) for level in encoded], dtype=np.int64)
        value = hash_of_topic(self._memory.addresses, self._memory.address(INPUT), ends, len(levels), anything)
        return Key(keys.TOPIC_UNDER if below else keys.TOPIC_SELF, value=value)

    def tiles(self, several: Sequence[Tile]) -> list[Key]:
        hashes = np.empty((len(several), 2), dtype=np.int64)
        hashes_of_tiles(self._memory.addresses, np.array(several, dtype=np.int64), hashes)
        return [
            Key(keys.TILE, _NOTHING, (first, second), level << 48 | x << 24 | y)
            for (level, x, y), (first, second) in zip(several, hashes.tolist(), strict=True)
        ]

    def write(self, conjunctions: Sequence[Sequence[Row]]) -> None:
        """Raises `ValueError` when there are more rows than the engine takes at once."""
        flat: list[int] = []
        for conjunction in conjunctions:
            for row in conjunction:
                _extend(flat, row)
            flat += _END
        flat += _STOP
        if len(flat) > conditions.ROWS_MAX * ROW:
            raise ValueError(f"the subscription has more than {conditions.ROWS_MAX} conditions in all its alternatives")
        octets = array("q", flat).tobytes()
        self._scratch[: len(octets)] = octets

    def _octets(self, octets: bytes) -> Hash:
        self._write(octets)
        return hash_of_octets(self._memory.addresses, len(octets))

    def _write(self, octets: bytes) -> None:
        self._input[: len(octets)] = octets


def _extend(flat: list[int], row: Row) -> None:
    if row.operation == WITHIN:
        low, high = _integer(_float_bits(row.low))[0], _integer(_float_bits(row.high))[0]
        flat += (WITHIN, 0, *row.name, 0, 0, low, high, row.flags, 0)
        return
    operation = row.operation
    if operation not in (HAS, LACKS):
        flat += (operation, 0, 0, 0, 0, 0, 0, 0, 0, len(row.keys))
        operation = ITEM
    for kind, name, value, length in row.keys:
        flat += (operation, kind, *name, *value, 0, 0, 0, length)
