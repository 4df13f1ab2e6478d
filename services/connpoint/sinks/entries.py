"""What waits for a topic, and the records of Kafka that it becomes. Pure.

The value of a record is the publication, in its canonical JSON: what one cluster delivers, another one can publish.
"""

from functools import lru_cache

import msgspec
from aiokafka.partitioner import murmur2

from braid.content import Value

SUBSCRIPTION, PUBLICATION, NUMBER = "braid-subscription", "braid-publication", "braid-number"


class Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A notification that waits for its topic, as it lies on disk."""

    id: str  # of the subscription
    key_attribute: str  # which attribute is the key; empty: none
    content: bytes
    received_ms: int


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    key: bytes | None
    value: bytes
    timestamp_ms: int
    headers: list[tuple[str, bytes]]


class _Keyed(msgspec.Struct):
    id: str = ""
    attributes: dict[str, Value] = {}


encode_entry = msgspec.msgpack.Encoder().encode
decode_entry = msgspec.msgpack.Decoder(Entry).decode
_decode_keyed = msgspec.json.Decoder(_Keyed).decode


def outgoing(entry: Entry, number: int) -> Outgoing:
    """`number` is that of the entry in its line: a record that is there twice has it twice."""
    keyed = _decode_keyed(entry.content)
    headers = [
        (SUBSCRIPTION, entry.id.encode()),
        (PUBLICATION, keyed.id.encode()),
        (NUMBER, b"%d" % number),
    ]
    key = keyed.attributes.get(entry.key_attribute) if entry.key_attribute else None
    return Outgoing(None if key is None else key_of(key), entry.content, entry.received_ms, headers)


def key_of(value: Value) -> bytes:
    """Text as it is; anything else as in JSON, so that equal values have equal keys."""
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


def partition_of(entry: Entry, key: bytes | None, partitions: int) -> int:
    """Records of one key are in one partition, as Kafka's own clients choose it; those without are where their
    subscription is.
    """
    return _hash(key if key is not None else entry.id.encode()) % partitions


@lru_cache(maxsize=65_536)
def _hash(key: bytes) -> int:
    hashed: int = murmur2(key)
    return hashed & 0x7FFFFFFF
