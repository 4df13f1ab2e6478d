"""Ids that the client makes: UUIDs of version 7, which say when they were made.

RFC 9562, section 5.7: 48 bits of milliseconds since 1970, then 12 bits that may hold a fraction of the
millisecond (section 6.2, method 3), then 62 random bits. So whoever receives a publication with such an
id knows within a quarter of a microsecond when its publisher made it.
"""

import re

_VERSION_7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_NS_PER_MS = 1_000_000
_RANDOM_BITS = (1 << 62) - 1
_VARIANT = 0b10 << 62


def make_id(now_ns: int, random: int) -> str:
    """`random` gives its lowest 62 bits."""
    milliseconds, rest_ns = divmod(now_ns, _NS_PER_MS)
    time = f"{milliseconds:012x}"
    tail = f"{_VARIANT | random & _RANDOM_BITS:016x}"
    return f"{time[:8]}-{time[8:]}-7{(rest_ns << 12) // _NS_PER_MS:03x}-{tail[:4]}-{tail[4:]}"


def time_of(id: str) -> int | None:
    """Nanoseconds since 1970 at which this id was made; None for an id of another kind."""
    if not _VERSION_7.fullmatch(id):
        return None
    milliseconds, fraction = int(id[:8] + id[9:13], 16), int(id[15:18], 16)
    return milliseconds * _NS_PER_MS + (fraction * _NS_PER_MS >> 12)
