"""List ids, keys and values, byte by byte; `docs/storage.md` draws them.

A list id is the path of a node: its levels in UTF-8, each ended by 01. So all ids below a node begin with the node's
own id, and one range holds the whole subtree. A flat id, such as an anchor, is a path of one level. The bytes 00 to 02
inside a level are escaped, so that 00 can end the id in a key:

    entry     id 00 flag(1) time(8) record-id        flag: 01 subscription, 02 publication
    by id     00 00 'i' subscription-id
    counters  00 00 'n'
    notes     00 00 'a' name                          of the base; they move along when it is rewritten
    intents   00 00 'r' subscription-id               of the base, while a subscription is replaced

The time is the complement of T_S or T_P in microseconds: newer entries of a list lie before older ones, and reading
stops early by ending the range at T_min. A value begins with a checksum over its key and the rest of it.
"""

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from services.matcher.storage.records import Kind, Stored, StoredPublication, StoredSubscription

COUNTERS_KEY = b"\x00\x00n"
NOTES_BEGIN = b"\x00\x00a"
NOTES_END = b"\x00\x00b"
BY_ID_BEGIN = b"\x00\x00i"
BY_ID_END = b"\x00\x00j"
INTENTS_BEGIN = b"\x00\x00r"
INTENTS_END = b"\x00\x00s"
ENTRIES_BEGIN = b"\x00\x01"  # whatever lies before is no entry
_ESCAPED = {0: b"\x02\x10", 1: b"\x02\x11", 2: b"\x02\x12"}
_TIME_MAX = 2**64 - 1
_MOMENT_S_MAX = 1.8e13  # the last that fits
_SOLE, _MAIN = 0, 1  # the only entry of a record; of several, the one that knows them all; the others

_pack_time = struct.Struct(">Q").pack
_checksum = struct.Struct(">I")
_array_of = struct.Struct(">BI")  # in MessagePack: the number of elements that follow
_by_id = struct.Struct(">d?")
_encode = msgspec.msgpack.Encoder().encode
_decode_subscription = msgspec.msgpack.Decoder(StoredSubscription).decode
_decode_subscriptions = msgspec.msgpack.Decoder(list[StoredSubscription]).decode
_decode_publication = msgspec.msgpack.Decoder(StoredPublication).decode
_decode_names = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode


class ChecksumError(ValueError):
    """A value is not what was written."""


# List ids


def list_id(*levels: str) -> bytes:
    """The id of a node; without any level, of the root."""
    return b"".join(_escape(level.encode()) + b"\x01" for level in levels)


def above(list_id: bytes) -> list[bytes]:
    """The ids of all nodes above, from the root downwards."""
    ids = [b""] if list_id else []
    end = list_id.find(1) + 1
    while 0 < end < len(list_id):
        ids.append(list_id[:end])
        end = list_id.find(1, end) + 1
    return ids


def on_one_line(one: bytes, other: bytes) -> bool:
    """Whether one is the other, or above or below it."""
    return one.startswith(other) or other.startswith(one)


def _escape(level: bytes) -> bytes:
    if min(level, default=3) > 2:
        return level
    return b"".join(_ESCAPED.get(byte) or bytes((byte,)) for byte in level)


# Keys


def entry_key(list_id: bytes, kind: Kind, made_s: float, record_id: str) -> bytes:
    return b"%b\x00%c%b%b" % (list_id, kind, inverted(made_s), record_id.encode())


def by_id_key(subscription_id: str) -> bytes:
    return BY_ID_BEGIN + subscription_id.encode()


def inverted(moment_s: float) -> bytes:
    """Later moments are smaller. What is before 1970 or infinitely late is cut to what fits."""
    if 0 < moment_s < _MOMENT_S_MAX:
        return _pack_time(_TIME_MAX - int(moment_s * 1e6))
    return b"\x00" * 8 if moment_s > 0 else b"\xff" * 8


def split_key(key: bytes) -> tuple[bytes, int]:
    """The list id and the flag of an entry."""
    end = key.index(0)
    return key[:end], key[end + 1]


def identity(key: bytes) -> bytes:
    """What the entries of one record have in common: its time and its id. Newer ones are smaller."""
    return key[key.index(0) + 2 :]


# Ranges: from the first key, included, to the second, excluded


def subscriptions_range(list_id: bytes) -> tuple[bytes, bytes]:
    return list_id + b"\x00\x01", list_id + b"\x00\x02"


def publications_range(list_id: bytes, from_s: float, until_s: float) -> tuple[bytes, bytes]:
    """From the newest that is wanted; those of the moment `until_s` itself may be among them."""
    return b"%b\x00\x02%b" % (list_id, inverted(until_s)), oldest(list_id, from_s)


def both_range(list_id: bytes, from_s: float) -> tuple[bytes, bytes]:
    """All subscriptions of a list, and its publications down to the oldest that is wanted, side by side."""
    return list_id + b"\x00\x01", oldest(list_id, from_s)


def below_range(list_id: bytes) -> tuple[bytes, bytes | None]:
    """The node itself and all below it."""
    return (list_id, list_id[:-1] + b"\x02") if list_id else (ENTRIES_BEGIN, None)


def oldest(list_id: bytes, from_s: float) -> bytes:
    """Behind the last publication made at this moment."""
    time = int.from_bytes(inverted(from_s))
    return list_id + (b"\x00\x03" if time >= _TIME_MAX else b"\x00\x02" + _pack_time(time + 1))


# Values


def entries_of(record: Stored, lists: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """One entry in each list. The first one knows all, so that whoever goes through everything sees a record once."""
    kind = kind_of(record)
    packed = _encode(record)
    if len(lists) == 1:
        key = entry_key(lists[0], kind, record.made_s, record.id)
        return [(key, sealed(key, b"\x00" + packed))]
    names = _encode(lists)
    entries = []
    for place, list_id in enumerate(lists):
        key = entry_key(list_id, kind, record.made_s, record.id)
        head = b"\x02" if place else b"\x01" + _checksum.pack(len(names)) + names
        entries.append((key, sealed(key, head + packed)))
    return entries


def sealed(key: bytes, payload: bytes) -> bytes:
    return _checksum.pack(zlib.crc32(payload, zlib.crc32(key))) + payload


def opened(key: bytes, value: bytes) -> memoryview:
    payload = memoryview(value)[4:]
    if value[:4] != _checksum.pack(zlib.crc32(payload, zlib.crc32(key))):
        raise ChecksumError(f"the record under {key.hex()} is not what was written")
    return payload


def decode_subscription(value: bytes) -> StoredSubscription:
    """Where LevelDB has verified its own checksum. Ours is for what comes out of its repairs."""
    return _decode_subscription(memoryview(value)[5:] if value[4] != _MAIN else record_part(memoryview(value)[4:]))


def decode_sole_subscriptions(values: Sequence[bytes]) -> list[StoredSubscription] | None:
    """Many at once, which takes half the time. Nothing where one of them has several entries."""
    if any(value[4] for value in values):
        return None
    return _decode_subscriptions(_array_of.pack(0xDD, len(values)) + b"".join([value[5:] for value in values]))


def decode_main_subscription(key: bytes, value: bytes) -> tuple[StoredSubscription, tuple[bytes, ...]]:
    record, names = decode_entry(key, value)
    assert isinstance(record, StoredSubscription)
    return record, names


def subscription_in(payload: memoryview) -> StoredSubscription:
    return _decode_subscription(record_part(payload))


def decode_publication(value: bytes) -> StoredPublication:
    return _decode_publication(memoryview(value)[5:] if value[4] != _MAIN else record_part(memoryview(value)[4:]))


def decode_entry(key: bytes, value: bytes) -> tuple[Stored, tuple[bytes, ...]]:
    """The record, and all its lists where this is its first entry, else none. Its checksum is held against it."""
    if int.from_bytes(value[:4]) != zlib.crc32(value[4:], zlib.crc32(key)):
        raise ChecksumError(f"the record under {key.hex()} is not what was written")
    return entry_in(key, memoryview(value)[4:])


def entry_in(key: bytes, payload: memoryview) -> tuple[Stored, tuple[bytes, ...]]:
    """As `decode_entry`, of what was opened."""
    end = key.index(0)
    decode = _decode_subscription if key[end + 1] == 1 else _decode_publication
    role = payload[0]
    if role == _SOLE:
        return decode(payload[1:]), (key[:end],)
    record: Stored = decode(record_part(payload))
    return record, _decode_names(payload[5 : 5 + _checksum.unpack(payload[1:5])[0]]) if role == _MAIN else ()


class ById(NamedTuple):
    """What removing must know of a subscription when only its id is known."""

    until_s: float
    distinct: bool
    keys: list[bytes]  # of its entries


def by_id_entry(record: StoredSubscription, lists: Sequence[bytes]) -> tuple[bytes, bytes]:
    key = by_id_key(record.id)
    head = inverted(record.made_s) + _by_id.pack(record.until_s, record.distinct)
    return key, sealed(key, head + _encode(lists))


def decode_by_id(record_id: str, payload: memoryview) -> ById:
    time, id = bytes(payload[:8]), record_id.encode()
    until_s, distinct = _by_id.unpack(payload[8:17])
    return ById(until_s, distinct, [b"%b\x00\x01%b%b" % (name, time, id) for name in _decode_names(payload[17:])])


def record_part(payload: memoryview) -> memoryview:
    """The same in all entries of a record."""
    if payload[0] != _MAIN:
        return payload[1:]
    return payload[5 + _checksum.unpack(payload[1:5])[0] :]


def kind_of(record: Stored) -> Kind:
    return Kind.SUBSCRIPTION if isinstance(record, StoredSubscription) else Kind.PUBLICATION
