"""Scalings against a real ZooKeeper: asking, reporting, records, one transaction for two znodes, following."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

import pytest
from kazoo.client import KazooClient
from msgspec.structs import replace

from braid import scaling_store
from braid.coordination import (
    NO_VERSION,
    Coordination,
    CoordinationUnavailable,
    Elected,
    Event,
    NotLeading,
    ReportsChanged,
    ScalingChanged,
    ScalingUnderWay,
    SessionExpired,
    SessionSuspended,
    StaleVersion,
)
from braid.scaling import Ask, Progress, Report, ScalingRecord, Step
from braid.topology import Change, Configuration, Target
from braid.znodes import Paths
from tests.service.zookeeper_fixture import ZooKeeperServer, expire_session

pytestmark = pytest.mark.slow  # real processes and sessions that expire

E = TypeVar("E")

OLD = Configuration(1, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",))
MOVING = replace(
    OLD, change=Change("scaling-1", "moving", Target(2, ("accesspoint-1",), ("matcher-2",), ("exitpoint-1",)), {})
)


def record(id: str = "scaling-1", asked_s: float = 1.0) -> ScalingRecord:
    return ScalingRecord(id, Ask({"matcher": 2}), asked_s)


def report(step: Step, slice: str = "matcher-1") -> Report:
    return Report("scaling-1", step, slice, 1, {"moved": 3.0})


class Member:
    def __init__(self, hosts: str, cluster: str, follow_scalings: bool) -> None:
        self.events: list[Event] = []
        self.coordination = Coordination(hosts, cluster, 10.0, self.events.append, follow_scalings=follow_scalings)

    def told(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]


async def until(condition: Callable[[], object], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "this did not become true in time"
        await asyncio.sleep(0.01)


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


@pytest.fixture
async def leader(zookeeper: ZooKeeperServer, paths: Paths) -> AsyncIterator[Member]:
    member = Member(zookeeper.hosts, paths.cluster.rpartition("/")[2], follow_scalings=False)
    await member.coordination.start()
    await member.coordination.lead()
    await until(lambda: member.told(Elected))
    yield member
    await member.coordination.stop()


@pytest.fixture
async def follower(zookeeper: ZooKeeperServer, paths: Paths) -> AsyncIterator[Member]:
    member = Member(zookeeper.hosts, paths.cluster.rpartition("/")[2], follow_scalings=True)
    await member.coordination.start()
    await until(lambda: member.told(ScalingChanged))
    yield member
    zookeeper.start()
    await member.coordination.stop()


async def test_one_scaling_at_a_time_and_the_second_is_told_which_runs(leader: Member) -> None:
    store = leader.coordination
    await store.ask_scaling(record())
    await store.ask_scaling(record())  # the answer to the first attempt may have been lost
    with pytest.raises(ScalingUnderWay, match="scaling-1") as raised:
        await store.ask_scaling(record("scaling-2"))
    assert raised.value.id == "scaling-1"
    assert await store.read_scaling("scaling-1") == record()
    assert await store.read_scaling("scaling-2") is None


async def test_what_has_ended_is_not_asked_for_again_by_a_repeated_request(leader: Member) -> None:
    store = leader.coordination
    await store.ask_scaling(record())
    done = replace(record(), state="done", phase="done")
    await store.write_record(done)
    await store.ask_scaling(record())
    assert await store.read_running_scaling() is None
    assert await store.read_scaling("scaling-1") == done
    await store.ask_scaling(record("scaling-2"))


async def test_names_that_would_lead_elsewhere_are_not_used(leader: Member) -> None:
    assert await leader.coordination.read_scaling("../configuration") is None
    with pytest.raises(ValueError, match="cannot be the name"):
        await leader.coordination.ask_scaling(record("a/b"))


async def test_a_record_moves_to_those_that_have_ended(leader: Member) -> None:
    store = leader.coordination
    await store.ask_scaling(record())
    gathering = replace(record(), phase="gathering", wants=("matcher-2",))
    await store.write_record(gathering)
    assert await store.read_scaling("scaling-1") == gathering
    aborted = replace(record(), state="aborted", phase="aborted", reason="nobody came")
    await store.write_record(aborted)
    await store.ask_scaling(record("scaling-2", asked_s=2.0))
    assert await store.list_scalings() == [record("scaling-2", asked_s=2.0), aborted]
    with pytest.raises(StaleVersion):
        await store.write_record(aborted)  # it is there already


async def test_configuration_and_record_are_written_together_or_not_at_all(leader: Member) -> None:
    store = leader.coordination
    version = await store.write_configuration(OLD, NO_VERSION)
    moving = replace(record(), phase="moving", epoch=2)
    with pytest.raises(StaleVersion):
        await store.write_configuration(MOVING, version, moving)  # there is no such scaling
    assert await store.read_configuration() == (OLD, version)
    await store.ask_scaling(record())
    with pytest.raises(StaleVersion):
        await store.write_configuration(MOVING, version + 1, moving)
    assert await store.read_running_scaling() == record()

    version = await store.write_configuration(MOVING, version, moving)
    assert await store.read_configuration() == (MOVING, version)
    assert await store.read_running_scaling() == moving

    target, done = MOVING.target(), replace(moving, state="done", phase="done")
    assert target is not None
    version = await store.write_configuration(target, version, done)
    assert await store.read_configuration() == (target, version)
    assert await store.read_running_scaling() is None
    assert await store.list_scalings() == [done]


async def test_a_leader_that_was_deposed_without_knowing_it_writes_no_record(
    leader: Member, client: KazooClient
) -> None:
    store = leader.coordination
    await store.ask_scaling(record())
    candidate = store._election._candidate
    assert candidate is not None
    client.delete(candidate)
    store._election._leading = True  # as if the news had not arrived
    with pytest.raises(NotLeading):
        await store.write_record(replace(record(), phase="gathering"))
    assert await store.read_running_scaling() == record()


async def test_reports_are_written_once_and_progress_over_and_over(leader: Member) -> None:
    store = leader.coordination
    await store.report(report("change-ready"))
    await store.report(replace(report("change-ready"), incarnation=2))
    await store.report(report("done"))
    assert await store.read_reports("scaling-1") == (report("change-ready"), report("done"))
    for moved in (1.0, 2.0):
        await store.show_progress(Progress("scaling-1", "matcher-1", {"moved": moved}))
    assert await store.read_progress("scaling-1") == (Progress("scaling-1", "matcher-1", {"moved": 2.0}),)
    assert await store.read_progress("scaling-0") == ()


async def test_what_scalings_leave_behind_is_swept(
    leader: Member, client: KazooClient, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = leader.coordination
    for change in ("scaling-0", "scaling-1"):
        await store.report(replace(report("done"), change=change))
        await store.show_progress(Progress(change, "matcher-1"))
    await store.sweep_scalings("scaling-1")
    assert client.get_children(paths.changes) == ["scaling-1"]
    await store.sweep_scalings(None)
    assert client.get_children(paths.changes) == []
    await store.report(report("drained"))  # a late one is no error; it goes the next time
    await store.sweep_scalings(None)

    monkeypatch.setattr(scaling_store, "RECORDS_MAX", 3)
    for number in range(6):
        await store.ask_scaling(record(f"scaling-{number}", asked_s=float(number)))
        await store.write_record(replace(record(f"scaling-{number}", asked_s=float(number)), state="done"))
    await store.sweep_scalings(None)
    assert [each.id for each in await store.list_scalings()] == ["scaling-5", "scaling-4", "scaling-3"]


async def test_a_follower_is_told_of_the_scaling_and_of_every_report(leader: Member, follower: Member) -> None:
    store = leader.coordination
    assert follower.told(ScalingChanged) == [ScalingChanged(None)]
    await store.ask_scaling(record())
    await until(lambda: follower.told(ScalingChanged)[-1:] == [ScalingChanged(record())])
    for step in ("change-ready", "done"):
        await store.report(report(step))
    both = (report("change-ready"), report("done"))
    await until(lambda: follower.told(ReportsChanged)[-1:] == [ReportsChanged("scaling-1", both, ())])
    await store.write_record(replace(record(), state="done"))
    await until(lambda: follower.told(ScalingChanged)[-1:] == [ScalingChanged(None)])
    assert not leader.told(ScalingChanged)  # it did not ask to follow


async def test_reports_of_the_change_in_the_configuration_are_followed_without_a_record(
    leader: Member, follower: Member
) -> None:
    await leader.coordination.write_configuration(MOVING, NO_VERSION)
    await leader.coordination.show_progress(Progress("scaling-1", "matcher-1", {"moved": 1.0}))
    await leader.coordination.report(report("change-ready"))
    told = ReportsChanged("scaling-1", (report("change-ready"),), (Progress("scaling-1", "matcher-1", {"moved": 1.0}),))
    await until(lambda: follower.told(ReportsChanged)[-1:] == [told])


async def test_a_follower_misses_nothing_when_its_session_expires(leader: Member, follower: Member) -> None:
    await leader.coordination.ask_scaling(record())
    await leader.coordination.report(report("change-ready"))
    await until(lambda: follower.told(ReportsChanged) and follower.told(ReportsChanged)[-1].reports)
    expire_session(follower.coordination)
    await until(lambda: follower.told(SessionExpired))
    await leader.coordination.report(report("done"))
    both = (report("change-ready"), report("done"))
    await until(lambda: follower.told(ReportsChanged)[-1].reports == both)
    await leader.coordination.write_record(replace(record(), state="done"))
    await until(lambda: follower.told(ScalingChanged)[-1:] == [ScalingChanged(None)])


async def test_a_follower_misses_nothing_when_its_connection_is_lost(
    leader: Member, follower: Member, zookeeper: ZooKeeperServer
) -> None:
    await leader.coordination.ask_scaling(record())
    zookeeper.stop()
    await until(lambda: follower.told(SessionSuspended))
    zookeeper.start()
    await until(lambda: len(leader.told(Elected)) == 2)
    await leader.coordination.report(report("change-ready"))
    await until(lambda: follower.told(ReportsChanged) and follower.told(ReportsChanged)[-1].reports)
    assert follower.told(ScalingChanged)[-1] == ScalingChanged(record())


async def test_a_record_that_cannot_be_read_is_left_out_and_blocks_nobody_but_new_scalings(
    leader: Member, follower: Member, client: KazooClient, paths: Paths
) -> None:
    client.create(paths.scaling, b"not JSON")
    client.create(paths.ended("scaling-7"), b"{}")
    assert await leader.coordination.list_scalings() == []
    with pytest.raises(CoordinationUnavailable, match="cannot be read"):
        await leader.coordination.ask_scaling(record())
    assert follower.told(ScalingChanged) == [ScalingChanged(None)]
