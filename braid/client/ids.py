"""Ids that the client makes: UUIDs of version 7, which say when they were made.

RFC 9562, section 5.7: 48 bits of milliseconds since 1970, then 12 bits that may hold a fraction of the
millisecond (section 6.2, method 3), then 62 random bits. So whoever receives a publication with such an
id knows within a quarter of a microsecond when its publisher made it.
"""

import re
import secrets
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from braid.client.frames import Publication

_VERSION_7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_NS_PER_MS = 1_000_000
_RANDOM_BITS = (1 << 62) - 1
_VARIANT = 0b10 << 62


def make_id(now_ns: int, random: int) -> str:
    """`random` gives its lowest 62 bits."""
    milliseconds, rest_ns = divmod(now_ns, _NS_PER_MS)
    head = f"{milliseconds:012x}"
    tail = f"{_VARIANT | random & _RANDOM_BITS:016x}"
    return f"{head[:8]}-{head[8:]}-7{(rest_ns << 12) // _NS_PER_MS:03x}-{tail[:4]}-{tail[4:]}"


def with_id(publication: Publication | Mapping[str, Any]) -> Publication | dict[str, Any]:
    """The publication itself when it has an id, else a copy that has one."""
    if isinstance(publication, Publication):
        return publication if publication.id else msgspec.structs.replace(publication, id=_new_id())
    return dict(publication) if publication.get("id") else {**publication, "id": _new_id()}


def time_of(id: str) -> int | None:
    """Nanoseconds since 1970 at which this id was made; None for an id of another kind."""
    if not _VERSION_7.fullmatch(id):
        return None
    milliseconds, fraction = int(id[:8] + id[9:13], 16), int(id[15:18], 16)
    return milliseconds * _NS_PER_MS + (fraction * _NS_PER_MS >> 12)


def _new_id() -> str:
    return make_id(time.time_ns(), secrets.randbits(62))
