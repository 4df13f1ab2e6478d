"""What is written down of a partition as its committed offset: how far its publications are confirmed.

Kafka keeps an offset and a note beside it. Everything before the offset is confirmed. The note says which log it is
of, and what is confirmed behind the offset, as far as there is room; what does not fit is sent again and recognised.

    1 19a1b2c3d4e 3-5,9        version, log, ranges counted from the offset

The log is known by the time of its first record, in hexadecimal milliseconds: one that was deleted and made anew counts
from 0 again, and must not be taken for the one before.
"""

from collections.abc import Iterable

import msgspec

NOTE_LENGTH_MAX = 4000  # Kafka's own bound is 4096 bytes (offset.metadata.max.bytes)
_VERSION = "1"


class Committed(msgspec.Struct, frozen=True):
    offset: int
    log: int | None = None  # None: somebody else has set the offset, and wants what follows to be taken for new
    confirmed: tuple[tuple[int, int], ...] = ()  # ranges of offsets, both ends included, ascending


def note_of(committed: Committed) -> str:
    ranges: list[str] = []
    length = 0
    for first, last in committed.confirmed:
        start, end = first - committed.offset, last - committed.offset
        text = f"{start}" if start == end else f"{start}-{end}"
        length += len(text) + 1
        if length > NOTE_LENGTH_MAX - 40:
            break
        ranges.append(text)
    return f"{_VERSION} {committed.log or 0:x} {','.join(ranges)}"


def read_note(offset: int, note: str | None) -> Committed:
    """A note that cannot be read is as good as none."""
    version, _, rest = (note or "").partition(" ")
    log, _, ranges = rest.partition(" ")
    if version != _VERSION:
        return Committed(offset)
    try:
        return Committed(offset, int(log, 16), tuple(_range(offset, text) for text in ranges.split(",") if text))
    except ValueError:
        return Committed(offset)


def ranges_between(numbers: Iterable[int], first: int, end: int) -> tuple[tuple[int, int], ...]:
    """What lies between these ascending numbers, from `first` up to `end`, which is excluded."""
    ranges = []
    for number in (*numbers, end):
        if number > first:
            ranges.append((first, number - 1))
        first = number + 1
    return tuple(ranges)


def _range(offset: int, text: str) -> tuple[int, int]:
    start, _, end = text.partition("-")
    return offset + int(start), offset + int(end or start)
