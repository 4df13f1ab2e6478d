"""The memory of one index: regions of address space, reserved once and filled as they are needed.

The system gives pages only when they are written, so a region can be reserved for the largest index there will ever
be: nothing moves while an index grows, but for the tables of slots, and kernels take one small array of addresses.
"""

import mmap
import sys
from typing import Any

import numpy as np

from braid.matching.engine.kernel import small_kernel
from braid.matching.engine.regions import Floats, Integers, floats_at, integers_at

_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0
_HUGE_PAGES_FROM_BYTES = 8 * 1024 * 1024

COUNTS, KEYS, KEY_SLOTS, WORDS, PROGRAM_SLOTS, ATTRIBUTES, ATTRIBUTE_SLOTS = range(7)
SUBSCRIPTIONS, SEEN, TEXT_SIEVE, CHILD_SIEVE, SCRATCH, INPUT = range(7, 13)
EVENTS, FACTS, CARRIED, NUMBERS, MATCHED, PENDING = range(13, 19)
CHANGES, GIVEN, ZONES, KEY_SLOTS_BESIDE = range(19, 23)
TEXT_SIEVE_COUNTS, CHILD_SIEVE_COUNTS, TEXT_LENGTH_COUNTS, TILES, TILE_PLACES, IDS = range(23, 29)

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30
SUBSCRIPTIONS_MAX = 1 << 25
KEYS_MAX = 1 << 26
PROGRAMS_MAX = 1 << 25
ATTRIBUTES_MAX = 1 << 20
WORDS_MAX = 1 << 31

# Bytes of address space; a page of it is used when something is written into it.
_SIZES = {
    COUNTS: 32 * _KIB,
    KEYS: 128 * KEYS_MAX,
    KEY_SLOTS: 16 * KEYS_MAX,
    WORDS: 8 * WORDS_MAX,
    PROGRAM_SLOTS: 16 * KEYS_MAX,
    ATTRIBUTES: 128 * ATTRIBUTES_MAX,
    ATTRIBUTE_SLOTS: 16 * ATTRIBUTES_MAX,
    SUBSCRIPTIONS: 32 * SUBSCRIPTIONS_MAX,
    SEEN: 8 * SUBSCRIPTIONS_MAX,
    TEXT_SIEVE: 128 * _KIB,
    CHILD_SIEVE: 128 * _KIB,
    SCRATCH: 2 * _GIB,
    INPUT: 512 * _MIB,
    EVENTS: 256 * _MIB,
    FACTS: 2 * _GIB,
    CARRIED: _GIB,
    NUMBERS: _GIB,
    MATCHED: _GIB,
    PENDING: _GIB,
    CHANGES: _MIB,
    GIVEN: 240 * _MIB,
    ZONES: 80 * SUBSCRIPTIONS_MAX,
    KEY_SLOTS_BESIDE: 16 * KEYS_MAX,
    TEXT_SIEVE_COUNTS: 2 * _MIB,
    CHILD_SIEVE_COUNTS: 2 * _MIB,
    TEXT_LENGTH_COUNTS: 128 * _KIB,
    TILES: 16 * KEYS_MAX,
    TILE_PLACES: 8 * KEYS_MAX,
    IDS: 8 * SUBSCRIPTIONS_MAX,
}
_GIVEN_BACK_FROM_BYTES = 32 * _MIB


class Memory:
    """`addresses` is what kernels take."""

    def __init__(self) -> None:
        total = sum(_rounded(size) for size in _SIZES.values())
        try:
            self._map = mmap.mmap(-1, total, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        except OSError as error:
            raise OSError(
                error.errno,
                f"an index reserves {total >> 30} GiB of address space, which uses no memory yet; the system refused: "
                "set vm.overcommit_memory to 0 or 1 and lift the limit of address space (ulimit -v)",
            ) from error
        self._base = np.frombuffer(self._map, dtype=np.uint8, count=1).ctypes.data
        self.addresses: np.ndarray[Any, np.dtype[np.int64]] = np.zeros(len(_SIZES), dtype=np.int64)
        self._starts: dict[int, int] = {}
        self._huge_bytes = dict.fromkeys(_SIZES, 0)
        start = 0
        for region, size in _SIZES.items():
            self.addresses[region] = self._base + start
            self._starts[region] = start
            start += _rounded(size)

    def view(self, region: int, count: int, dtype: Any = np.int64) -> np.ndarray[Any, Any]:
        return np.frombuffer(self._map, dtype=dtype, count=count, offset=self._starts[region])

    def objects(self, region: int, count: int) -> np.ndarray[Any, np.dtype[np.object_]]:
        """References to Python's objects, None at first. Nobody lets go of them but whoever put them there."""
        return np.ndarray((count,), dtype=object, buffer=self._map, offset=self._starts[region])

    def buffer(self, region: int) -> memoryview:
        start = self._starts[region]
        return memoryview(self._map)[start : start + _SIZES[region]]

    def address(self, region: int) -> int:
        return int(self.addresses[region])

    def expect(self, region: int, used_bytes: int) -> None:
        """Large regions are kept in large pages, which saves the processor most of its table walks."""
        if used_bytes >= _HUGE_PAGES_FROM_BYTES and used_bytes > self._huge_bytes[region] and _huge_pages():
            length = min(_SIZES[region], 4 * used_bytes) & -(2 * _MIB)
            self._map.madvise(mmap.MADV_HUGEPAGE, self._starts[region], length)
            self._huge_bytes[region] = length

    def give_back(self, region: int, used_bytes: int) -> None:
        """What a region holds is no longer needed: where that is much, the system gets the memory."""
        if used_bytes >= _GIVEN_BACK_FROM_BYTES:
            length = min(_SIZES[region], _rounded(used_bytes))
            self._map.madvise(mmap.MADV_DONTNEED, self._starts[region], length)


def _rounded(size: int) -> int:
    """A whole number of large pages."""
    return -(-size // (2 * _MIB)) * 2 * _MIB


def _huge_pages() -> bool:
    return hasattr(mmap, "MADV_HUGEPAGE")


@small_kernel
def integers(addresses: Any, region: int) -> Integers:
    return integers_at(addresses[region])


@small_kernel
def floats(addresses: Any, region: int) -> Floats:
    return floats_at(addresses[region])
