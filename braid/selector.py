"""The map from subscriptions to matchers and from publishers to access and exit points, for one epoch."""

from abc import ABC, abstractmethod
from bisect import bisect_left
from functools import lru_cache
from hashlib import blake2b

from braid.anchor_map import AnchorMap
from braid.topology import Configuration, Routing

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
def ring(slices: tuple[str, ...]) -> Ring:
    return Ring(slices)


class Selector(ABC):
    """One configuration as a map. Where subscriptions lie follows from their ids, so that whoever has one finds it."""

    def __init__(self, configuration: Configuration) -> None:
        self.epoch = configuration.epoch
        self.routing = configuration.routing
        self.accesspoints = configuration.accesspoints
        self.matchers = configuration.matchers
        self.exitpoints = configuration.exitpoints
        self._ring = ring(configuration.matchers)

    @abstractmethod
    def matcher_of(self, subscription_id: str) -> str:
        """The one that keeps the subscription of this id."""

    def places_like(self, other: "Selector") -> bool:
        """Whether every subscription lies on the same matcher in both."""
        return self._decisive() == other._decisive()

    def _decisive(self) -> tuple[object, ...]:
        """All on which it depends where subscriptions lie. To the ring the order of its slices is nothing."""
        return (self.routing, frozenset(self.matchers))

    def keeps_like(self, other: "Selector") -> bool:
        """Whether every publication is kept by the same matcher in both."""
        return set(self.matchers) == set(other.matchers)

    def accesspoint_of(self, key: int) -> str:
        """By publisher for publications, by id for subscriptions: each keeps its order through one access point."""
        return self.accesspoints[key % len(self.accesspoints)]

    def keeper_of(self, key: int) -> str:
        """The matcher that keeps a publication; see `braid.keeping`."""
        return self._ring.owner(key)

    def exitpoint_of(self, publisher: int) -> str:
        return self.exitpoints[publisher % len(self.exitpoints)]


class BroadcastSelector(Selector):
    """E-SilboPS: a subscription lives on the matcher its id hashes to; a publication visits all matchers."""

    def matcher_of(self, subscription_id: str) -> str:
        return self._ring.owner(hash64(subscription_id))


class AnchoredSelector(Selector):
    """Subscriptions of one anchor live together; a publication visits the matchers of anchors it carries.

    Those are known from what matchers announce, not from this map: it says where a subscription is to be kept, and
    any map is right that says so in every process alike.
    """

    def matcher_of(self, subscription_id: str) -> str:
        return self._ring.owner(anchored_key(subscription_id))


class MappedSelector(AnchoredSelector):
    """By a map that was learned from data, or made by a person; by the ring where that says nothing.

    Its parts are dealt out in the order of the matchers: as many parts as there are matchers are one for each.
    """

    def __init__(self, configuration: Configuration, map: AnchorMap) -> None:
        super().__init__(configuration)
        self._map = map

    def matcher_of(self, subscription_id: str) -> str:
        key = anchored_key(subscription_id)
        part = self._map.part_of(key >> 32)
        return self._ring.owner(key) if part is None else self.matchers[part % len(self.matchers)]

    def _decisive(self) -> tuple[object, ...]:
        return (self.routing, self.matchers, self._map)


_SELECTORS: dict[Routing, type[Selector]] = {"broadcast": BroadcastSelector, "anchored": AnchoredSelector}


def selector_of(configuration: Configuration) -> Selector:
    if configuration.routing == "anchored" and configuration.map is not None:
        return MappedSelector(configuration, configuration.map)
    return _SELECTORS[configuration.routing](configuration)


def anchored_key(subscription_id: str) -> int:
    """The place on the ring of the anchor that the id was made for; see `braid.anchors.placed`."""
    digits = subscription_id[-8:]
    try:
        return int(digits, 16) << 32
    except ValueError:
        return hash64(subscription_id)
