"""Maps of anchors against a real ZooKeeper: written with what asks for them, found by all, and swept when unused."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from msgspec.structs import replace

from braid.anchor_map import ANCHORS_MAX, PARTS_MAX, AnchorMap
from braid.coordination import (
    NO_VERSION,
    ConfigurationChanged,
    Coordination,
    CorruptConfiguration,
    Elected,
    Event,
    NotLeading,
    ScalingUnderWay,
)
from braid.scaling import Ask, ScalingRecord
from braid.topology import Change, Configuration, Target
from braid.znodes import Paths
from tests.service.waiting import until
from tests.service.zookeeper_fixture import ZooKeeperServer

pytestmark = pytest.mark.slow  # real sessions

FIRST, SECOND = AnchorMap(2, {7: 0, 9: 1}), AnchorMap(2, {7: 1})
SETTLED = Configuration(1, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",), "anchored", FIRST)
MOVING = replace(
    SETTLED,
    change=Change(
        "scaling-1", "moving", Target(2, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",), "anchored", SECOND), {}
    ),
)


def record(map: AnchorMap, id: str = "scaling-1") -> ScalingRecord:
    return ScalingRecord(id, Ask(map=map.version), 1.0)


class Member:
    def __init__(self, hosts: str, paths: Paths) -> None:
        self.events: list[Event] = []
        self.store = Coordination(hosts, paths.cluster.rpartition("/")[2], 10.0, self.events.append)

    def configurations(self) -> list[Configuration | None]:
        return [event.configuration for event in self.events if isinstance(event, ConfigurationChanged)]


@pytest.fixture
def paths() -> Paths:
    return Paths(f"test-{uuid.uuid4().hex[:12]}")


@pytest.fixture
def client(zookeeper: ZooKeeperServer) -> Iterator[KazooClient]:
    """Looks at ZooKeeper from outside."""
    client = KazooClient(zookeeper.hosts)
    client.start()
    yield client
    client.stop()
    client.close()


@asynccontextmanager
async def member(zookeeper: ZooKeeperServer, paths: Paths) -> AsyncIterator[Member]:
    joined = Member(zookeeper.hosts, paths)
    await joined.store.start()
    yield joined
    await joined.store.stop()


@pytest.fixture
async def leader(zookeeper: ZooKeeperServer, paths: Paths) -> AsyncIterator[Member]:
    async with member(zookeeper, paths) as joined:
        await joined.store.lead()
        await until(lambda: any(isinstance(event, Elected) for event in joined.events))
        yield joined


async def put(leader: Member, configuration: Configuration, *maps: AnchorMap) -> int:
    """A configuration with the maps that it names, as if scalings had brought them."""
    for number, map in enumerate(maps):
        asked = record(map, f"earlier-{number}")
        await leader.store.ask_scaling(asked, map)
        await leader.store.write_record(replace(asked, state="done"))
    return await leader.store.write_configuration(configuration, NO_VERSION)


async def test_a_map_is_written_with_the_scaling_that_asks_for_it(
    leader: Member, client: KazooClient, paths: Paths
) -> None:
    await leader.store.ask_scaling(record(FIRST), FIRST)
    await leader.store.ask_scaling(record(FIRST), FIRST)  # the answer to the first attempt may have been lost
    assert client.get(paths.map(FIRST.version))[0] == FIRST.encode()
    assert await leader.store.read_running_scaling() == record(FIRST)
    assert await leader.store.read_map(FIRST.version) == FIRST
    assert await leader.store.read_map(SECOND.version) is None


async def test_who_is_refused_leaves_no_map_behind(leader: Member, client: KazooClient, paths: Paths) -> None:
    await leader.store.ask_scaling(record(FIRST), FIRST)
    with pytest.raises(ScalingUnderWay):
        await leader.store.ask_scaling(record(SECOND, "scaling-2"), SECOND)
    assert client.get_children(paths.maps) == [FIRST.version]


async def test_the_largest_map_fits_into_the_transaction(leader: Member) -> None:
    largest = AnchorMap(PARTS_MAX, {place * 40_000: place % PARTS_MAX for place in range(ANCHORS_MAX)})
    await leader.store.ask_scaling(record(largest), largest)
    assert await leader.store.read_map(largest.version) == largest


async def test_everybody_reads_the_whole_map_where_the_configuration_names_it(
    leader: Member, client: KazooClient, paths: Paths, zookeeper: ZooKeeperServer
) -> None:
    async with member(zookeeper, paths) as slice:
        await until(lambda: slice.configurations() == [None])
        version = await put(leader, SETTLED, FIRST, SECOND)
        await until(lambda: slice.configurations() == [None, SETTLED])
        assert FIRST.version.encode() in client.get(paths.configuration)[0]
        assert len(client.get(paths.configuration)[0]) < 300
        await leader.store.write_configuration(MOVING, version)
        await until(lambda: slice.configurations()[-1] == MOVING)
        assert (await slice.store.read_configuration())[0] == MOVING


async def test_maps_that_nobody_names_are_swept(leader: Member, client: KazooClient, paths: Paths) -> None:
    third = AnchorMap(2, {1: 0})
    version = await put(leader, MOVING, FIRST, SECOND, third)
    await leader.store.sweep_scalings(None)
    assert sorted(client.get_children(paths.maps)) == sorted([FIRST.version, SECOND.version])
    target = MOVING.target()
    assert target is not None
    await leader.store.write_configuration(target, version)
    await leader.store.ask_scaling(record(third), third)
    await leader.store.sweep_scalings(None)  # not while a scaling runs: it may name any
    assert len(client.get_children(paths.maps)) == 3
    await leader.store.write_record(replace(record(third), state="aborted"))
    await leader.store.sweep_scalings(None)
    assert client.get_children(paths.maps) == [SECOND.version]


@pytest.mark.parametrize("is_there", [True, False], ids=["a map that is there", "a new map"])
async def test_a_map_that_is_asked_for_while_maps_are_swept_stays(
    leader: Member, client: KazooClient, paths: Paths, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    await put(leader, SETTLED, *((FIRST, SECOND) if is_there else (FIRST,)))

    async def named() -> Any:
        """The sweep has looked at the maps, and at the scaling that is not there yet."""
        await leader.store.ask_scaling(record(SECOND), SECOND)
        return await original()

    original = leader.store._maps._named
    monkeypatch.setattr(leader.store._maps, "_named", named)
    await leader.store.sweep_scalings(None)
    assert client.get(paths.map(SECOND.version))[0] == SECOND.encode()
    assert await leader.store.read_running_scaling() == record(SECOND)


async def test_a_map_that_is_swept_while_it_is_asked_for_is_made_anew(
    leader: Member, client: KazooClient, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other order: it is seen, gone when the transaction comes, and the transaction is tried again."""
    await put(leader, SETTLED, FIRST, SECOND)

    async def add_to(transaction: Any, map: AnchorMap) -> None:
        await original(transaction, map)
        monkeypatch.setattr(leader.store._maps, "add_to", original)
        await leader.store.sweep_scalings(None)
        assert client.get_children(paths.maps) == [FIRST.version]

    original = leader.store._maps.add_to
    monkeypatch.setattr(leader.store._maps, "add_to", add_to)
    await leader.store.ask_scaling(record(SECOND), SECOND)
    assert sorted(client.get_children(paths.maps)) == sorted([FIRST.version, SECOND.version])


async def test_a_leader_that_was_deposed_without_knowing_it_sweeps_no_map(
    leader: Member, client: KazooClient, paths: Paths
) -> None:
    await put(leader, SETTLED, FIRST, SECOND)
    election = leader.store._election
    candidate = election._candidate
    client.delete(candidate)
    await until(lambda: not election._leading or election._candidate != candidate)
    election._leading, election._candidate = True, candidate  # as if the news had not arrived
    await leader.store.sweep_scalings(None)
    assert len(client.get_children(paths.maps)) == 2
    election._leading = False
    with pytest.raises(NotLeading):
        await leader.store.sweep_scalings(None)


@pytest.mark.parametrize("damage", ["removed", "not a map", "another map"])
async def test_without_its_map_a_configuration_is_not_taken_and_asking_again_heals_it(
    leader: Member, client: KazooClient, paths: Paths, zookeeper: ZooKeeperServer, damage: str
) -> None:
    await put(leader, SETTLED, FIRST)
    path = paths.map(FIRST.version)
    async with member(zookeeper, paths) as knows_it:
        await until(lambda: knows_it.configurations() == [SETTLED])
        if damage == "removed":
            client.delete(path)
        else:
            client.set(path, b"not a map" if damage == "not a map" else SECOND.encode())
        async with member(zookeeper, paths) as comes_later:
            with pytest.raises(CorruptConfiguration, match=f"the map {FIRST.version} is missing, or damaged"):
                await comes_later.store.read_configuration()
            await asyncio.sleep(0.2)
            assert comes_later.configurations() == []  # nothing is guessed
            assert (await knows_it.store.read_configuration())[0] == SETTLED
            await leader.store.ask_scaling(record(FIRST), FIRST)
            assert (await comes_later.store.read_configuration())[0] == SETTLED
            if damage == "removed":  # whoever missed it is told that it has come
                await until(lambda: comes_later.configurations() == [SETTLED])
        assert knows_it.configurations() == [SETTLED]


async def test_a_map_that_went_with_its_configuration_while_that_was_read_is_not_missed(
    leader: Member, client: KazooClient, paths: Paths, zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = await put(leader, SETTLED, FIRST)
    none = replace(SETTLED, epoch=2, map=None)
    async with member(zookeeper, paths) as slice:
        await until(lambda: slice.configurations() == [SETTLED])
        slice.store._maps._cached.clear()

        async def load(*given: Any) -> Any:
            """Between the configuration and its map."""
            monkeypatch.setattr(slice.store._maps, "load", original)
            await leader.store.write_configuration(none, version)
            await leader.store.sweep_scalings(None)
            with pytest.raises(NoNodeError):
                client.get(paths.map(FIRST.version))
            return await original(*given)

        original = slice.store._maps.load
        monkeypatch.setattr(slice.store._maps, "load", load)
        assert (await slice.store.read_configuration())[0] == none
