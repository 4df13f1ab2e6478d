"""Rows of conditions, as Python writes them for the engine."""

import struct
from array import array
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from braid.matching.engine import key_records as keys
from braid.matching.engine.conditions import (
    BOX,
    END,
    GIVEN_ROWS_MAX,
    HAS,
    ITEM,
    LACKS,
    NONE_OF,
    OCTETS,
    OCTETS_WORDS,
    ONE_OF,
    ROW,
    STOP,
    TEXT_WITHIN,
    WITHIN,
)
from braid.matching.engine.hash_entries import hash_of_number, hash_of_octets, hash_of_piece
from braid.matching.engine.memory import GIVEN, Memory
from braid.matching.engine.topic_keys import hash_of_topic
from braid.words import stems_of
from braid.zones import bounds

Hash = tuple[int, int]
_NOTHING: Hash = (0, 0)
_END, _STOP = (struct.pack(f"={ROW}q", operation, *[0] * (ROW - 1)) for operation in (END, STOP))
_ENTRIES_KEPT_MAX = 65_536
_box = struct.Struct("=qq4d4q").pack
_float_bits = struct.Struct("=d").pack
_integer = struct.Struct("=q").unpack


class Key(NamedTuple):
    kind: int
    name: Hash = _NOTHING  # of the attribute
    value: Hash = _NOTHING
    length: int = 0  # of a text


class Row(NamedTuple):
    operation: int
    keys: tuple[Key, ...] = ()
    name: Hash = _NOTHING
    low: float = 0.0
    high: float = 0.0
    flags: int = 0
    low_text: bytes = b""
    high_text: bytes | None = None  # no upper bound


def has(key: Key) -> Row:
    return Row(HAS, (key,))


def lacks(key: Key) -> Row:
    return Row(LACKS, (key,))


def one_of(several: Sequence[Key]) -> Row:
    return has(several[0]) if len(several) == 1 else Row(ONE_OF, tuple(several))


def none_of(several: Sequence[Key]) -> Row:
    return lacks(several[0]) if len(several) == 1 else Row(NONE_OF, tuple(several))


class RowWriter:
    """Hashes what rows speak of with the secret of one index."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._hashes = _Hashes(memory)
        self._entries = _Entries(self._hashes)

    def name(self, text: str) -> Hash:
        return self._hashes.of(text)

    def string(self, name: Hash, text: str) -> Key:
        return Key(keys.STRING, name, self._hashes.of(text))

    def number(self, name: Hash, value: int | float) -> Key:
        as_float = float(value)
        if as_float == value:
            bits = _integer(_float_bits(as_float + 0.0))[0]
            return Key(keys.NUMBER, name, hash_of_number(self._memory.addresses, bits))
        return Key(keys.INTEGER, name, hash_of_number(self._memory.addresses, int(value)))

    def boolean(self, name: Hash, value: bool) -> Key:
        return Key(keys.BOOLEAN, name, hash_of_number(self._memory.addresses, int(value)))

    def text(self, kind: int, name: Hash, octets: bytes) -> Key:
        self._hashes.write(octets)
        return Key(kind, name, hash_of_piece(self._memory.addresses, len(octets)), len(octets))

    def stem(self, stem: str) -> Hash:
        return self._hashes.of(stem)

    def topic(self, levels: Sequence[str], anything: int, below: bool) -> Key:
        """`anything` has a bit for each level that may be anything."""
        encoded = [level.encode() for level in levels]
        self._hashes.write(b"".join(encoded))
        ends = np.cumsum([len(level) for level in encoded], dtype=np.int64)
        value = hash_of_topic(self._memory.addresses, self._memory.address(GIVEN), ends, len(levels), anything)
        return Key(keys.TOPIC_UNDER if below else keys.TOPIC_SELF, value=value)

    def words(self, words: Sequence[str]) -> bytes:
        """Rows that demand all words, by their stems."""
        return b"".join(dict.fromkeys(chain.from_iterable([self._entries[entry] for entry in words])))

    def zone(self, zone: dict[str, Any]) -> bytes:
        """The boxes around it, in the place of which the engine puts tiles."""
        return b"".join([_box(BOX, 0, *box, 0, 0, 0, 0) for box in bounds(zone)])

    def row(self, row: Row) -> bytes:
        return _row_bytes(row)

    def whole(self, common: bytes, conjunctions: Sequence[Sequence[Row]]) -> bytes:
        """All rows of a subscription. Raises `ValueError` when there are more than the engine takes."""
        parts: list[bytes] = []
        for conjunction in conjunctions:
            flat: list[int] = []
            for row in conjunction:
                _extend(flat, row)
            parts += (common, array("q", flat).tobytes(), _END)
        parts.append(_STOP)
        rows = b"".join(parts)
        if len(rows) > GIVEN_ROWS_MAX * len(_STOP):
            raise ValueError(f"the subscription has more than {GIVEN_ROWS_MAX} conditions in all its alternatives")
        return rows


class _Hashes:
    """Texts are hashed where the engine reads them."""

    def __init__(self, memory: Memory) -> None:
        self._addresses = memory.addresses
        self._given = memory.buffer(GIVEN)

    def of(self, text: str) -> Hash:
        octets = text.encode()
        self.write(octets)
        return hash_of_octets(self._addresses, len(octets))

    def write(self, octets: bytes) -> None:
        self._given[: len(octets)] = octets


def _row_bytes(row: Row) -> bytes:
    flat: list[int] = []
    _extend(flat, row)
    return array("q", flat).tobytes()


def _extend(flat: list[int], row: Row) -> None:
    if row.operation == WITHIN:
        low, high = _integer(_float_bits(row.low))[0], _integer(_float_bits(row.high))[0]
        flat += (WITHIN, 0, *row.name, 0, 0, low, high, row.flags, 0)
        return
    if row.operation == TEXT_WITHIN:
        _extend_by_texts(flat, row)
        return
    operation = row.operation
    if operation not in (HAS, LACKS):
        flat += (operation, 0, 0, 0, 0, 0, 0, 0, 0, len(row.keys))
        operation = ITEM
    for kind, name, value, length in row.keys:
        flat += (operation, kind, *name, *value, 0, 0, 0, length)


def _extend_by_texts(flat: list[int], row: Row) -> None:
    low, high = row.low_text, row.high_text or b""
    words = array("q", _in_words(low) + _in_words(high)).tolist()
    high_length = -1 if row.high_text is None else len(high)
    rows = range(0, len(words), OCTETS_WORDS)
    flat += (TEXT_WITHIN, 0, *row.name, len(low), high_length, 0, 0, row.flags, len(rows))
    for first in rows:
        part = words[first : first + OCTETS_WORDS]
        flat += (OCTETS, *part, *[0] * (OCTETS_WORDS - len(part)))


def _in_words(octets: bytes) -> bytes:
    return octets + bytes(-len(octets) % 8)


class _Entries(dict[str, tuple[bytes, ...]]):
    """From an entry of a subscription's words to the rows that demand its stems: many ask for the same words.

    It must not refer to the writer that refers to it: an index that is dropped is to be freed at once, not when a
    collector of garbage comes by.
    """

    def __init__(self, hashes: _Hashes) -> None:
        super().__init__()
        self._hashes = hashes
        self._rows: dict[str, bytes] = {}

    def __missing__(self, entry: str) -> tuple[bytes, ...]:
        if len(self) >= _ENTRIES_KEPT_MAX or len(self._rows) >= _ENTRIES_KEPT_MAX:
            self.clear()
            self._rows.clear()
        rows = self[entry] = tuple(self._row(stem) for stem in stems_of(entry))
        return rows

    def _row(self, stem: str) -> bytes:
        row = self._rows.get(stem)
        if row is None:
            row = self._rows[stem] = _row_bytes(has(Key(keys.WORD, value=self._hashes.of(stem))))
        return row
