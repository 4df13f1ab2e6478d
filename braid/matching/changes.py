"""Subscriptions on their way into the engine or out of it."""

import math
import struct

from braid.matching.engine import changing
from braid.matching.engine.changing import CHANGE, DONE
from braid.matching.engine.memory import CHANGES, GIVEN, INPUT, Memory
from braid.matching.engine.programs import WINDOWED
from braid.subscription import SubscriptionRecord

_END_OF_FILTER = "\0"  # a number must not run into the next filter
_CHANGE_BYTES = 8 * CHANGE
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
        self.begin()

    def add(self, record: SubscriptionRecord, number: int, home: int, flags: int, rows: bytes) -> bool:
        """False when its filter is not plain."""
        text = (record.filter + _END_OF_FILTER).encode()
        self._texts[: len(text)] = text
        if rows:
            self._rows[: len(rows)] = rows
        self._write(0, record, number, home, flags, text_end=len(text), rows_end=len(rows))
        return changing.change(self._addresses, changing.ADD_PLAIN, 0, 1) == 1

    def add_rows(self, record: SubscriptionRecord, number: int, home: int, flags: int, rows: bytes) -> None:
        """The rows are those of the whole subscription."""
        self._rows[: len(rows)] = rows
        self._write(0, record, number, home, flags, text_end=0, rows_end=len(rows))
        changing.change(self._addresses, changing.ADD_ROWS, 0, 1)

    def begin(self) -> None:
        """A batch of at most `ADDED_AT_ONCE`. Until it is added, nothing else may be."""
        self._batch_texts: list[str] = []
        self._batch_rows: list[bytes] = []
        self._text_end = self._rows_end = 0

    def put(self, record: SubscriptionRecord, number: int, home: int, flags: int, rows: bytes) -> None:
        """The next one of the batch."""
        filter = record.filter
        self._text_end += (len(filter) if filter.isascii() else len(filter.encode())) + len(_END_OF_FILTER)
        self._rows_end += len(rows)
        self._write(
            len(self._batch_texts), record, number, home, flags, text_end=self._text_end, rows_end=self._rows_end
        )
        self._batch_texts.append(filter)
        if rows:
            self._batch_rows.append(rows)

    def add_batch(self) -> list[int]:
        """For each of the batch, 0 when its filter is not plain and it was left out."""
        count = len(self._batch_texts)
        self._texts[: self._text_end] = "".join([text + _END_OF_FILTER for text in self._batch_texts]).encode()
        self._rows[: self._rows_end] = b"".join(self._batch_rows)
        changing.change(self._addresses, changing.ADD_PLAIN, 0, count)
        done: list[int] = self._words[:count, DONE].tolist()
        return done

    def remove(self, number: int) -> None:
        changing.change(self._addresses, changing.REMOVE, number, 1)

    def adapt(self) -> None:
        changing.change(self._addresses, changing.ADAPT, 0, 0)

    def _write(
        self, i: int, record: SubscriptionRecord, number: int, home: int, flags: int, *, text_end: int, rows_end: int
    ) -> None:
        from_s, until_s = record.from_s, record.until_s
        if from_s is not None or until_s is not None:
            flags |= WINDOWED
        _write_change(
            self._changes,
            i * _CHANGE_BYTES,
            number,
            flags,
            home,
            -math.inf if from_s is None else from_s,
            math.inf if until_s is None else until_s,
            text_end,
            rows_end // _ROW_BYTES,
            0,
        )
