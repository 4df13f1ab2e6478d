"""The process that kills reads configurations as slices do, with the maps that they name."""

from typing import Any

from benchmarks.scaling.killing import _Watch
from braid import znodes
from braid.anchor_map import AnchorMap
from braid.topology import Change, Configuration, Target


class _ZooKeeper:
    """The maps in it, and how often one was read."""

    def __init__(self, *maps: AnchorMap) -> None:
        paths = znodes.Paths("braid")
        self._nodes = {paths.map(map.version): map.encode() for map in maps}
        self.reads = 0

    def get(self, path: str) -> tuple[bytes, None]:
        self.reads += 1
        return self._nodes[path], None


def test_a_configuration_is_read_with_its_maps_and_each_of_them_once() -> None:
    before, after = AnchorMap(2, {1: 0, 2: 1}), AnchorMap(3, {1: 2})
    target = Target(2, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",), "anchored", after)
    change = Change("scaling-1", "moving", target, {})
    slices = target.accesspoints, target.matchers, target.exitpoints
    configuration = Configuration(1, *slices, "anchored", before, 1, change)
    zookeeper: Any = _ZooKeeper(before, after)
    watch = _Watch(zookeeper)
    for _ in range(2):
        assert watch._decode(znodes.encode(configuration)) == configuration
    assert zookeeper.reads == 2
