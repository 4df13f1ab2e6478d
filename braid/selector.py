"""The map from subscriptions to matchers and from publishers to access and exit points, for one epoch."""

from hashlib import blake2b

from braid.topology import Configuration


def hash64(text: str) -> int:
    """The same number in every process and on every machine."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


class BroadcastSelector:
    """E-SilboPS: a subscription lives on the matcher its id hashes to; a publication visits all matchers."""

    def __init__(self, configuration: Configuration) -> None:
        self.epoch = configuration.epoch
        self.accesspoints = configuration.accesspoints
        self.matchers = configuration.matchers
        self.exitpoints = configuration.exitpoints

    def matcher_of(self, subscription_id: str) -> str:
        return self.matchers[hash64(subscription_id) % len(self.matchers)]

    def accesspoint_of(self, key: int) -> str:
        """By publisher for publications, by id for subscriptions: each keeps its order through one access point."""
        return self.accesspoints[key % len(self.accesspoints)]

    def exitpoint_of(self, publisher: int) -> str:
        return self.exitpoints[publisher % len(self.exitpoints)]
