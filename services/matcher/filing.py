"""In which lists publications and subscriptions lie, and which of them a subscription has to read.

    a          all publications, in the order of their time
    t  a  b    publications on the topic a/b; a subscription reads along the line of its topic, up to its first wildcard
    z  1  4    publications whose zone lies in the cell 1.4 of a quad tree over the earth, and in up to three more

What a subscription matches always lies in a list that it reads: its topic decides where it has one, else its zone, else
it reads everything that has not expired and is new enough. Content is verified afterwards, so lists may hold more than
what matches. Publications of one batch that lie in the same lists and expire together are one record.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from math import inf
from struct import Struct
from typing import Any

import msgspec

from braid.messages import KeptBatch
from braid.subscription import SubscriptionRecord
from braid.topics import parse_pattern, parse_topic
from braid.zones import bounds
from services.matcher.storage.keys import list_id
from services.matcher.storage.quadtree import Box, QuadTree, cell_list
from services.matcher.storage.records import Filed, StoredPublication, StoredSubscription
from services.matcher.storage.settings import MADE_AHEAD_S_MAX

EVERYTHING = (list_id("a"),)
_EARTH = QuadTree(Box(-90.0, -180.0, 90.0, 180.0), depth=14)  # the smallest cells are a kilometre high
_MARGIN = 1e-4  # degrees: more than zones of different kinds deviate from one another


class _Head(msgspec.Struct):
    """What of a publication decides where it lies."""

    topic: str = ""
    zone: dict[str, Any] | None = None
    expires: datetime | None = None


class Body(msgspec.Struct, array_like=True):
    """The publications of one record."""

    origin: str
    sequence: int
    places: list[int]  # in the batch
    contents: list[bytes]
    previous: int = 0


_read_head = msgspec.json.Decoder(_Head).decode
_encode = msgspec.msgpack.Encoder().encode
read_body = msgspec.msgpack.Decoder(Body).decode
_read_record = msgspec.msgpack.Decoder(SubscriptionRecord).decode
_read_records = msgspec.msgpack.Decoder(list[SubscriptionRecord]).decode
_array_of = Struct(">BI")


def filed_publications(batch: KeptBatch, now_s: float) -> Iterator[Filed]:
    """The records of what is kept of a batch; what cannot be read is left out. What was stored before expires when it
    did there, whatever the retention is by now.

    Whoever accepted it may have a clock that is ahead of ours; it cannot have been published later than now.
    """
    published_s = min(batch.published_s, now_s + MADE_AHEAD_S_MAX)
    bodies: dict[tuple[tuple[bytes, ...], float], Body] = {}
    for place, content in zip(batch.places, batch.contents, strict=True):
        try:
            head = _read_head(content)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        expires_s = batch.expires_s
        if expires_s == inf and head.expires is not None:
            expires_s = head.expires.timestamp()
        key = lists_of_publication(head.topic, head.zone), expires_s
        body = bodies.get(key)
        if body is None:
            body = bodies[key] = Body(batch.origin, batch.sequence, [], [], batch.previous)
        body.places.append(place)
        body.contents.append(content)
    for (lists, expires_s), body in bodies.items():
        id = f"{body.origin}/{body.sequence:x}/{body.places[0]:x}"
        yield Filed(StoredPublication(id, published_s, expires_s, _encode(body)), lists)


def kept_batch(record: StoredPublication) -> KeptBatch:
    """What a record was made of."""
    body = read_body(record.body)
    return KeptBatch(
        body.origin, body.sequence, body.previous, record.made_s, body.places, body.contents, record.expires_s
    )


def lists_of_publication(topic: str, zone: dict[str, Any] | None) -> tuple[bytes, ...]:
    lists = (*EVERYTHING, topic_list(topic)) if topic else EVERYTHING
    return lists if zone is None else (*lists, *_cells_of(zone, 0.0))


@lru_cache(maxsize=65_536)
def topic_list(topic: str) -> bytes:
    return list_id("t", *parse_topic(topic))


def lists_of_subscription(record: SubscriptionRecord) -> tuple[bytes, ...]:
    """Those that it lies in, and reads along their lines."""
    if record.topic:
        levels = parse_pattern(record.topic)
        fixed = next((place for place, level in enumerate(levels) if level in ("+", "#")), len(levels))
        if fixed or record.zone is None:
            return (list_id("t", *levels[:fixed]),)
    if record.zone is not None:
        return _cells_of(record.zone, _MARGIN)
    return EVERYTHING


def _cells_of(zone: dict[str, Any], margin: float) -> tuple[bytes, ...]:
    cells = {
        cell: None
        for south, west, north, east in bounds(zone)
        for cell in _EARTH.covering_box(Box(south - margin, west - margin, north + margin, east + margin))
    }
    return tuple(cell_list(cell, "z") for cell in cells)


def filed_subscription(record: SubscriptionRecord, now_s: float) -> Filed:
    stored = StoredSubscription(
        record.id,
        record.subscriber,
        min(record.created_s, now_s + MADE_AHEAD_S_MAX),
        -inf if record.from_s is None else record.from_s,
        inf if record.until_s is None else record.until_s,
        record.distinct,
        _encode(record),
    )
    return Filed(stored, lists_of_subscription(record))


def record_of(stored: StoredSubscription) -> SubscriptionRecord:
    return _read_record(stored.body)


def records_of(filed: Sequence[Filed]) -> list[SubscriptionRecord]:
    """Many at once: an array of MessagePack is its length and its elements."""
    return _read_records(_array_of.pack(0xDD, len(filed)) + b"".join([one.record.body for one in filed]))
