"""Coordination against a real ZooKeeper: registration, watches, lost connections, expired sessions."""

import asyncio
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from typing import TypeVar

import pytest
from kazoo.client import KazooClient

from braid.coordination import (
    NO_VERSION,
    ConfigurationChanged,
    Coordination,
    CoordinationUnavailable,
    Event,
    NameTaken,
    Registered,
    RegistrationRefused,
    SessionExpired,
    SessionRestored,
    SessionSuspended,
    SlicesChanged,
)
from braid.topology import Configuration, Layer, Registration
from braid.znodes import Paths, encode
from coordinator.zookeeper import free_port
from tests.service.waiting import until
from tests.service.zookeeper_fixture import ZooKeeperServer, expire_session

pytestmark = pytest.mark.slow  # real processes and sessions that expire

E = TypeVar("E")

CONFIGURATION = Configuration(1, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",))


def registration(name: str, pid: int = 1, incarnation: int = 1, host: str = "elsewhere") -> Registration:
    layer: Layer = "matcher" if name.startswith("matcher") else "connpoint"
    return Registration(name, layer, f"{host}:7001", f"{host}:8001", pid, incarnation, "0.1.0")


class Member:
    """One process of the cluster, with everything it was told."""

    def __init__(self, hosts: str, cluster: str, session_timeout_s: float = 4.0) -> None:
        self.events: list[Event] = []
        self.coordination = Coordination(hosts, cluster, session_timeout_s, self.events.append)

    def told(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def slices(self) -> set[str]:
        changes = self.told(SlicesChanged)
        return set(changes[-1].slices) if changes else set()


class Members:
    def __init__(self, hosts: str) -> None:
        self.hosts = hosts
        self.cluster = f"test-{uuid.uuid4().hex[:12]}"
        self.paths = Paths(self.cluster)
        self.all: list[Member] = []

    async def start(self, session_timeout_s: float = 4.0) -> Member:
        member = Member(self.hosts, self.cluster, session_timeout_s)
        self.all.append(member)
        await member.coordination.start()
        return member


@pytest.fixture
async def members(zookeeper: ZooKeeperServer) -> AsyncIterator[Members]:
    members = Members(zookeeper.hosts)
    yield members
    zookeeper.start()
    for member in members.all:
        await member.coordination.stop()


async def test_a_new_member_is_told_what_there_is_even_when_there_is_nothing(members: Members) -> None:
    member = await members.start()
    await until(lambda: member.told(SlicesChanged) and member.told(ConfigurationChanged))
    assert member.events == [SlicesChanged({}), ConfigurationChanged(None)]


async def test_registrations_of_all_layers_are_seen_by_all_and_go_with_their_session(members: Members) -> None:
    first, second = await members.start(), await members.start()
    await first.coordination.register(registration("matcher-1"))
    await second.coordination.register(registration("connpoint-1"))
    for member in (first, second):
        await until(lambda member=member: member.slices() == {"matcher-1", "connpoint-1"})  # type: ignore[misc]
    await first.coordination.stop()
    await until(lambda: second.slices() == {"connpoint-1"})
    assert first.told(Registered) == [Registered(registration("matcher-1"))]


async def test_a_registration_goes_when_its_process_is_killed(members: Members) -> None:
    observer = await members.start()
    script = (
        "import asyncio, sys\n"
        "from braid.coordination import Coordination\n"
        "from braid.topology import Registration\n"
        "async def main():\n"
        "    coordination = Coordination(sys.argv[1], sys.argv[2], 1.0, print)\n"
        "    await coordination.start()\n"
        "    await coordination.register(Registration('matcher-9', 'matcher', 'h:1', 'h:2', 1, 1, '0'))\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, members.hosts, members.cluster, stdout=subprocess.DEVNULL
    )
    try:
        await until(lambda: observer.slices() == {"matcher-9"})
    finally:
        process.kill()
        await process.wait()
    await until(lambda: observer.slices() == set())


async def test_after_an_expired_session_it_registers_again_and_misses_nothing(members: Members) -> None:
    member, observer = await members.start(), await members.start()
    await member.coordination.register(registration("matcher-1"))
    await until(lambda: observer.slices() == {"matcher-1"})
    expire_session(member.coordination)
    await until(lambda: member.told(SessionExpired))
    # Whatever happens before the new session stands is read by it; whatever happens later is watched.
    await observer.coordination.register(registration("connpoint-1"))
    await observer.coordination.write_configuration(CONFIGURATION, NO_VERSION)
    await until(lambda: len(member.told(Registered)) == 2)
    both = {"matcher-1", "connpoint-1"}
    await until(lambda: member.slices() == both and observer.slices() == both)
    await until(lambda: member.told(ConfigurationChanged)[-1:] == [ConfigurationChanged(CONFIGURATION)])
    await observer.coordination.stop()
    await until(lambda: member.slices() == {"matcher-1"})


async def test_a_lost_connection_that_returns_keeps_session_and_registration(
    members: Members, zookeeper: ZooKeeperServer
) -> None:
    member, observer = await members.start(20.0), await members.start(20.0)
    await member.coordination.register(registration("matcher-1"))
    await until(lambda: observer.slices() == {"matcher-1"})
    zookeeper.stop()
    await until(lambda: member.told(SessionSuspended))
    with pytest.raises(CoordinationUnavailable, match=members.hosts):
        await member.coordination.read_configuration()
    zookeeper.start()
    await until(lambda: member.told(SessionRestored) and observer.told(SessionRestored))
    await observer.coordination.write_configuration(CONFIGURATION, NO_VERSION)
    await until(lambda: member.told(ConfigurationChanged)[-1:] == [ConfigurationChanged(CONFIGURATION)])
    assert not member.told(SessionExpired)
    assert len(member.told(Registered)) == 1
    assert observer.slices() == {"matcher-1"}


async def test_a_burst_of_changes_ends_with_the_newest_state(members: Members) -> None:
    observer = await members.start()
    await until(lambda: observer.told(SlicesChanged))
    names = {f"matcher-{number}" for number in range(1, 41)}
    client = KazooClient(members.hosts)
    client.start()
    try:
        for name in sorted(names):
            client.create_async(members.paths.registration("matcher", name), encode(registration(name)), ephemeral=True)
        await until(lambda: observer.slices() == names)
    finally:
        client.stop()
        client.close()
    await until(lambda: observer.slices() == set())
    assert len(observer.told(SlicesChanged)) < len(names)


async def test_a_registration_that_was_removed_comes_back(members: Members) -> None:
    member = await members.start()
    await member.coordination.register(registration("matcher-1"))
    await until(lambda: member.slices() == {"matcher-1"})
    client = KazooClient(members.hosts)
    client.start()
    client.delete(members.paths.registration("matcher", "matcher-1"))
    client.stop()
    client.close()
    await until(lambda: len(member.told(Registered)) == 2 and member.slices() == {"matcher-1"})


async def test_a_registration_that_cannot_be_read_is_left_out(members: Members) -> None:
    observer = await members.start()
    await until(lambda: observer.told(SlicesChanged))
    client = KazooClient(members.hosts)
    client.start()
    client.create(members.paths.registration("matcher", "matcher-1"), b"not JSON", ephemeral=True)
    client.create(members.paths.registration("matcher", "matcher-2"), encode(registration("matcher-2")), ephemeral=True)
    await until(lambda: observer.slices() == {"matcher-2"})
    client.stop()
    client.close()


async def test_the_name_of_a_process_that_lives_is_refused(members: Members) -> None:
    holder, other = await members.start(1.0), await members.start(1.0)
    await holder.coordination.register(registration("matcher-1", pid=10, incarnation=1))
    with pytest.raises(NameTaken, match="matcher-1 is in use by process 10 at elsewhere:7001"):
        await other.coordination.register(registration("matcher-1", pid=11, incarnation=2, host="here"))
    assert len(holder.told(Registered)) == 1


async def test_the_name_of_a_dead_process_of_this_host_is_taken_over_at_once(members: Members) -> None:
    dead = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await dead.wait()
    holder, successor = await members.start(30.0), await members.start(30.0)
    await holder.coordination.register(registration("matcher-1", pid=dead.pid, host="127.0.0.1"))
    ours = registration("matcher-1", pid=1, incarnation=2, host="127.0.0.1")
    async with asyncio.timeout(10):  # far less than the session timeout
        await successor.coordination.register(ours)
    await until(lambda: successor.told(SlicesChanged)[-1:] == [SlicesChanged({"matcher-1": ours})])


async def test_a_name_that_was_taken_while_the_session_was_lost_is_told(members: Members) -> None:
    member = await members.start(1.0)
    await member.coordination.register(registration("matcher-1", pid=10))
    rival = KazooClient(members.hosts)
    rival.start()
    path = members.paths.registration("matcher", "matcher-1")
    transaction = rival.transaction()
    transaction.delete(path)
    transaction.create(path, encode(registration("matcher-1", pid=11, host="there")), ephemeral=True)
    transaction.commit()
    await until(lambda: member.told(RegistrationRefused))
    assert "process 11" in member.told(RegistrationRefused)[0].reason
    rival.stop()
    rival.close()


async def test_without_zookeeper_start_says_where_it_looked_and_what_to_do() -> None:
    hosts = f"127.0.0.1:{free_port()}"
    coordination = Coordination(hosts, "test", 4.0, print, start_timeout_s=0.3)
    with pytest.raises(CoordinationUnavailable, match=f"{hosts}.*cluster.zookeeper"):
        await coordination.start()


async def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(CoordinationUnavailable, match="host:port"):
        await Coordination(":::", "test", 4.0, print).start()


async def test_it_stops_in_time_when_zookeeper_is_away(zookeeper: ZooKeeperServer) -> None:
    coordination = Coordination(zookeeper.hosts, "test", 4.0, print)
    await coordination.start()
    zookeeper.stop()
    try:
        async with asyncio.timeout(8):
            await coordination.stop()
    finally:
        zookeeper.start()
