"""Subscriptions on their way into the engine or out of it."""

import math
import struct
from collections.abc import Sequence

import numpy as np

from braid.matching.engine import changing
from braid.matching.engine.changing import (
    CHANGE,
    DONE,
    FLAGS,
    FROM_S,
    HOME_NUMBER,
    NUMBER,
    ROWS_END,
    TEXT_END,
    UNTIL_S,
)
from braid.matching.engine.memory import CHANGES, GIVEN, INPUT, Memory
from braid.matching.engine.programs import WINDOWED
from braid.subscription import SubscriptionRecord

_END_OF_FILTER = "\0"  # a number must not run into the next filter
_ROW_BYTES = 80
_write_change = struct.Struct("=qqqddqqq").pack_into

ADDED_AT_ONCE = 4096


class Changes:
    """Writes changes where the engine reads them, and lets it make them.

    A subscription comes with the number that the engine shall know it by, that of its home, the flags of its members,
    and the rows that are given for it.
    """

    def __init__(self, memory: Memory) -> None:
        self._addresses = memory.addresses
        self._texts, self._rows, self._changes = (memory.buffer(region) for region in (INPUT, GIVEN, CHANGES))
        self._words = memory.view(CHANGES, ADDED_AT_ONCE * CHANGE).reshape(-1, CHANGE)
        self._instants_s = self._words.view(np.float64)

    def add(self, record: SubscriptionRecord, number: int, home: int, flags: int, rows: bytes) -> bool:
        """False when its filter is not plain."""
        text = (record.filter + _END_OF_FILTER).encode()
        self._texts[: len(text)] = text
        if rows:
            self._rows[: len(rows)] = rows
        self._write(record, number, home, flags, text_end=len(text), rows_end=len(rows))
        return changing.change(self._addresses, changing.ADD_PLAIN, 0, 1) == 1

    def add_rows(self, record: SubscriptionRecord, number: int, home: int, flags: int, rows: bytes) -> None:
        """The rows are those of the whole subscription."""
        self._rows[: len(rows)] = rows
        self._write(record, number, home, flags, text_end=0, rows_end=len(rows))
        changing.change(self._addresses, changing.ADD_ROWS, 0, 1)

    def add_many(
        self,
        records: Sequence[SubscriptionRecord],
        numbers: Sequence[int],
        homes: Sequence[int],
        flags: Sequence[int],
        rows: Sequence[bytes],
    ) -> list[int]:
        """At most `ADDED_AT_ONCE`, column by column. For each, 0 when its filter is not plain and it was left out."""
        count = len(records)
        texts = [record.filter for record in records]
        octets = (_END_OF_FILTER.join(texts) + _END_OF_FILTER).encode()
        sizes = [len(text) for text in texts] if octets.isascii() else [len(text.encode()) for text in texts]
        all_rows = b"".join(rows)
        self._texts[: len(octets)] = octets
        self._rows[: len(all_rows)] = all_rows
        words, instants_s = self._words[:count], self._instants_s[:count]
        words[:, NUMBER] = numbers
        words[:, FLAGS] = flags
        words[:, HOME_NUMBER] = homes
        instants_s[:, FROM_S] = -math.inf
        instants_s[:, UNTIL_S] = math.inf
        words[:, TEXT_END] = np.cumsum(sizes) + len(_END_OF_FILTER) * np.arange(1, count + 1)
        words[:, ROWS_END] = np.cumsum([len(one) for one in rows]) // _ROW_BYTES
        words[:, DONE] = 0
        for place, record in enumerate(records):
            if record.from_s is not None or record.until_s is not None:
                words[place, FLAGS] |= WINDOWED
                instants_s[place, FROM_S], instants_s[place, UNTIL_S] = _window(record)
        changing.change(self._addresses, changing.ADD_PLAIN, 0, count)
        done: list[int] = words[:, DONE].tolist()
        return done

    def remove(self, number: int) -> None:
        changing.change(self._addresses, changing.REMOVE, number, 1)

    def adapt(self) -> None:
        changing.change(self._addresses, changing.ADAPT, 0, 0)

    def _write(
        self, record: SubscriptionRecord, number: int, home: int, flags: int, *, text_end: int, rows_end: int
    ) -> None:
        if record.from_s is not None or record.until_s is not None:
            flags |= WINDOWED
        _write_change(self._changes, 0, number, flags, home, *_window(record), text_end, rows_end // _ROW_BYTES, 0)


def _window(record: SubscriptionRecord) -> tuple[float, float]:
    from_s, until_s = record.from_s, record.until_s
    return -math.inf if from_s is None else from_s, math.inf if until_s is None else until_s
