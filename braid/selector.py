"""The map from subscriptions to matchers and from publishers to access and exit points, for one epoch."""

from bisect import bisect_left
from functools import lru_cache
from hashlib import blake2b

from braid.topology import Configuration

POINTS_PER_SLICE = 512  # up to 8 slices get an even share within 6 per cent, up to 16 within 14


def hash64(text: str) -> int:
    """The same number in every process and on every machine."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


class Ring:
    """Consistent hashing: a slice that comes or goes moves only about its own share of the keys."""

    def __init__(self, slices: tuple[str, ...]) -> None:
        points = sorted((point, name) for name in slices for point in _points_of(name))
        self._points = [point for point, _ in points]
        self._owners = [name for _, name in points]

    def owner(self, key: int) -> str:
        """The slice of the next point on the ring."""
        place = bisect_left(self._points, key)
        return self._owners[place if place < len(self._owners) else 0]


@lru_cache(maxsize=256)
def _points_of(name: str) -> tuple[int, ...]:
    return tuple(hash64(f"{name}/{number}") for number in range(POINTS_PER_SLICE))


@lru_cache(maxsize=8)
def _ring(slices: tuple[str, ...]) -> Ring:
    return Ring(slices)


class BroadcastSelector:
    """E-SilboPS: a subscription lives on the matcher its id hashes to; a publication visits all matchers."""

    def __init__(self, configuration: Configuration) -> None:
        self.epoch = configuration.epoch
        self.accesspoints = configuration.accesspoints
        self.matchers = configuration.matchers
        self.exitpoints = configuration.exitpoints
        self._ring = _ring(configuration.matchers)

    def matcher_of(self, subscription_id: str) -> str:
        return self._ring.owner(hash64(subscription_id))

    def accesspoint_of(self, key: int) -> str:
        """By publisher for publications, by id for subscriptions: each keeps its order through one access point."""
        return self.accesspoints[key % len(self.accesspoints)]

    def exitpoint_of(self, publisher: int) -> str:
        return self.exitpoints[publisher % len(self.exitpoints)]
