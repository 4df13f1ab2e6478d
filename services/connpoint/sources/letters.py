"""Dead letters: records that cannot be published, as they are written to the topic of the dead letters."""

from collections.abc import Iterable

import msgspec

from services.connpoint.sources.records import Record

REASON = "braid-reason"
ORIGIN_TOPIC, ORIGIN_PARTITION, ORIGIN_OFFSET = "braid-topic", "braid-partition", "braid-offset"
LEFT_OUT = "braid-value-bytes"  # of a value that is left out
WRITTEN = "braid-timestamp"  # of a record whose time is not taken, in milliseconds
REASON_LENGTH_MAX = 1_000

_OURS = (REASON, ORIGIN_TOPIC, ORIGIN_PARTITION, ORIGIN_OFFSET, LEFT_OUT, WRITTEN)


class DeadLetter(msgspec.Struct, frozen=True):
    """Key, value, time and headers are those of the record; more headers say where it was, and why it is here."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None
    headers: list[tuple[str, bytes]]


def dead_letter(record: Record, reason: str, topic: str) -> DeadLetter:
    added: Iterable[tuple[str, str]] = (
        (REASON, reason[:REASON_LENGTH_MAX]),
        (ORIGIN_TOPIC, record.topic),
        (ORIGIN_PARTITION, str(record.partition)),
        (ORIGIN_OFFSET, str(record.offset)),
    )
    kept = [(name, value) for name, value in record.headers if name not in _OURS]
    headers = [*kept, *((name, text.encode()) for name, text in added)]
    # Kafka has no record with neither of the two.
    value = b"" if record.key is None and record.value is None else record.value
    return DeadLetter(topic, record.key, value, record.timestamp, headers)


def without_time(letter: DeadLetter) -> DeadLetter:
    """For one whose time the topic does not take: Kafka refuses those that are far ahead of its own."""
    return msgspec.structs.replace(
        letter, timestamp_ms=None, headers=[*letter.headers, (WRITTEN, str(letter.timestamp_ms).encode())]
    )


def without_value(letter: DeadLetter) -> DeadLetter:
    """For one that the topic of the dead letters does not take; where the record is stands in its headers."""
    return msgspec.structs.replace(
        letter, value=b"", headers=[*letter.headers, (LEFT_OUT, str(len(letter.value or b"")).encode())]
    )


def without_record(letter: DeadLetter) -> DeadLetter:
    """For one that is too large without its value, too: nothing of the record, only where it is and why."""
    headers = [header for header in without_value(letter).headers if header[0] in _OURS]
    return msgspec.structs.replace(letter, key=None, value=b"", headers=headers)
