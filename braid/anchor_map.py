"""A map of anchors: which of them lie together, where hashing would scatter or crowd them.

It knows anchors by their places on the ring, the 32 bits that ids of subscriptions end with (`braid.anchors.place_of`),
and says for each in which part it lies. Which matcher a part is, is for the selector to say. Anchors that it does not
name lie where they hash to.

As bytes it is a head, the places in ascending order, four bytes each, and their parts, one byte each. Its version is a
hash of these bytes: two maps that say the same are the same map, whoever made them.
"""

import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from hashlib import blake2b
from itertools import pairwise

ANCHORS_MAX = 100_000  # five bytes each, and a znode holds one mebibyte
PARTS_MAX = 256

_HEAD = struct.Struct("<8sHI")  # what it is, parts, anchors
_MAGIC = b"braidmap"
_PLACE = "I"
_PLACE_BYTES = array(_PLACE).itemsize
assert _PLACE_BYTES == 4, "a place has 32 bits"


class AnchorMap:
    """Never changes."""

    __slots__ = ("_parts_of", "_places", "parts", "version")

    def __init__(self, parts: int, part_of: Mapping[int, int]) -> None:
        """From places to parts, which count from 0. Raises `ValueError`."""
        places = sorted(part_of)
        if places and not 0 <= places[0] <= places[-1] < 2**32:
            raise ValueError("a place on the ring has 32 bits")
        if not all(0 <= part < parts for part in part_of.values()):
            raise ValueError(f"parts are numbered from 0 to {parts - 1}")
        self._set(parts, array(_PLACE, places), parts_of=[part_of[place] for place in places])

    def _set(self, parts: int, places: "array[int]", parts_of: list[int] | bytes) -> None:
        if not 1 <= parts <= PARTS_MAX:
            raise ValueError(f"a map has from 1 to {PARTS_MAX} parts")
        if not 1 <= len(places) <= ANCHORS_MAX:
            raise ValueError(f"a map names from 1 to {ANCHORS_MAX} anchors, this one {len(places)}")
        self.parts = parts
        self._places = places
        self._parts_of = bytes(parts_of)
        self.version = blake2b(self.encode(), digest_size=6).hexdigest()

    def part_of(self, place: int) -> int | None:
        """None for an anchor that it does not name."""
        index = bisect_left(self._places, place)
        if index < len(self._places) and self._places[index] == place:
            return self._parts_of[index]
        return None

    def encode(self) -> bytes:
        head = _HEAD.pack(_MAGIC, self.parts, len(self._places))
        return head + _little_endian(self._places).tobytes() + self._parts_of

    @classmethod
    def decode(cls, payload: bytes) -> "AnchorMap":
        """Raises `ValueError` for anything that `encode` would not have made."""
        try:
            magic, parts, anchors = _HEAD.unpack_from(payload)
        except struct.error:
            raise ValueError("it is too short for a map") from None
        if magic != _MAGIC or len(payload) != _HEAD.size + anchors * (_PLACE_BYTES + 1):
            raise ValueError("it is no map, or not the whole of one")
        places = array(_PLACE, payload[_HEAD.size : _HEAD.size + anchors * _PLACE_BYTES])
        places = _little_endian(places)
        parts_of = payload[_HEAD.size + anchors * _PLACE_BYTES :]
        if any(place >= following for place, following in pairwise(places)) or max(parts_of, default=0) >= parts:
            raise ValueError("its anchors are not in order, or lie in parts that it does not have")
        decoded = cls.__new__(cls)
        decoded._set(parts, places, parts_of)
        return decoded

    def __len__(self) -> int:
        return len(self._places)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnchorMap) and self.version == other.version

    def __hash__(self) -> int:
        return hash(self.version)

    def __repr__(self) -> str:
        return f"AnchorMap({self.version}: {len(self)} anchors in {self.parts} parts)"


def _little_endian(places: "array[int]") -> "array[int]":
    """There and back."""
    if sys.byteorder == "big":
        places = places[:]
        places.byteswap()
    return places
