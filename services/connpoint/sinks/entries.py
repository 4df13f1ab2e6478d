"""What waits for a topic, and the records of Kafka that it becomes. Pure.

Notifications wait in blocks: what came together is written, read and forgotten together. The value of a record is the
publication, in its canonical JSON: what one cluster delivers, another one can publish.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec
from aiokafka.partitioner import murmur2

from braid.content import Value

SUBSCRIPTION, NUMBER = "braid-subscription", "braid-number"  # headers
BLOCK_ENTRIES_MAX = 500
BLOCK_BYTES_MAX = 256 * 1024


class Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A notification that waits for its topic."""

    id: str  # of the subscription
    key_attribute: str  # which attribute is the key; empty: none
    content: bytes


class Block(msgspec.Struct, array_like=True, frozen=True):
    """Some that follow one another, as they lie on disk; their numbers do, too."""

    received_ms: int
    entries: list[Entry]


class _Keyed(msgspec.Struct):
    attributes: dict[str, Value] = {}


encode_block = msgspec.msgpack.Encoder().encode
decode_block = msgspec.msgpack.Decoder(Block).decode
_decode_keyed = msgspec.json.Decoder(_Keyed).decode


def in_blocks(entries: Sequence[Entry], received_ms: int) -> Iterator[Block]:
    """One that is larger than a block should be has one of its own."""
    start = size = 0
    for place, entry in enumerate(entries):
        size += len(entry.content)
        if place > start and (place - start == BLOCK_ENTRIES_MAX or size > BLOCK_BYTES_MAX):
            yield Block(received_ms, list(entries[start:place]))
            start, size = place, len(entry.content)
    if start < len(entries):
        yield Block(received_ms, list(entries[start:]))


def key_of(entry: Entry) -> bytes | None:
    """Of its record: text as it is, anything else as in JSON, so that equal values have equal keys."""
    if not entry.key_attribute:
        return None
    value = _decode_keyed(entry.content).attributes.get(entry.key_attribute)
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


def headers_of(entry: Entry, number: int) -> list[tuple[str, bytes]]:
    """`number` is that of the entry in its line: a record that is there twice has it twice."""
    return [(SUBSCRIPTION, entry.id.encode()), (NUMBER, b"%d" % number)]


def partition_of(entry: Entry, key: bytes | None, partitions: int) -> int:
    """Records of one key are in one partition, as Kafka's own clients choose it; those without are where their
    subscription is.
    """
    return _hash(key if key is not None else entry.id.encode()) % partitions


@lru_cache(maxsize=65_536)
def _hash(key: bytes) -> int:
    hashed: int = murmur2(key)
    return hashed & 0x7FFFFFFF
