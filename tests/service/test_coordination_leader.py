"""Leader election and the writing of the configuration, against a real ZooKeeper."""

import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator

import pytest
from kazoo.client import KazooClient

from braid.coordination import (
    NO_VERSION,
    Coordination,
    CorruptConfiguration,
    Deposed,
    Elected,
    Event,
    NotLeading,
    SessionExpired,
    SessionSuspended,
    StaleVersion,
)
from braid.topology import Configuration
from braid.znodes import Paths
from tests.service.waiting import until
from tests.service.zookeeper_fixture import ZooKeeperServer, expire_session

pytestmark = pytest.mark.slow  # real processes and sessions that expire


def configuration(epoch: int) -> Configuration:
    return Configuration(epoch, ("accesspoint-1",), ("matcher-1", "matcher-2"), ("exitpoint-1",))


class Candidate:
    def __init__(self, hosts: str, cluster: str) -> None:
        self.events: list[Event] = []
        self.coordination = Coordination(hosts, cluster, 10.0, self.events.append)

    def story(self) -> list[Event]:
        """What concerns leading."""
        kept = (Elected, Deposed, SessionSuspended, SessionExpired)
        return [event for event in self.events if isinstance(event, kept)]


@pytest.fixture
def cluster() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def pair(zookeeper: ZooKeeperServer, cluster: str) -> AsyncIterator[tuple[Candidate, Candidate]]:
    """Two connected candidates, of which none stands yet."""
    pair = Candidate(zookeeper.hosts, cluster), Candidate(zookeeper.hosts, cluster)
    for candidate in pair:
        await candidate.coordination.start()
    yield pair
    zookeeper.start()
    for candidate in pair:
        await candidate.coordination.stop()


async def elect_first(pair: tuple[Candidate, Candidate]) -> tuple[Coordination, Coordination]:
    first, second = pair
    await first.coordination.lead()
    await until(lambda: first.story() == [Elected()])
    await second.coordination.lead()
    return first.coordination, second.coordination


async def test_what_is_written_is_read_with_its_version(pair: tuple[Candidate, Candidate]) -> None:
    writer, reader = await elect_first(pair)
    assert await reader.read_configuration() == (None, NO_VERSION)
    version = await writer.write_configuration(configuration(1), NO_VERSION)
    assert await reader.read_configuration() == (configuration(1), version)
    version = await writer.write_configuration(configuration(2), version)
    assert await reader.read_configuration() == (configuration(2), version)


async def test_a_stale_version_is_refused_and_changes_nothing(pair: tuple[Candidate, Candidate]) -> None:
    writer, reader = await elect_first(pair)
    with pytest.raises(StaleVersion):
        await writer.write_configuration(configuration(1), 0)  # there is none yet
    old = await writer.write_configuration(configuration(1), NO_VERSION)
    new = await writer.write_configuration(configuration(2), old)
    for stale in (NO_VERSION, old):
        with pytest.raises(StaleVersion):
            await writer.write_configuration(configuration(3), stale)
    assert await reader.read_configuration() == (configuration(2), new)


async def test_only_the_leader_writes(pair: tuple[Candidate, Candidate]) -> None:
    leader, other = await elect_first(pair)
    with pytest.raises(NotLeading):
        await other.write_configuration(configuration(1), NO_VERSION)
    assert await leader.read_configuration() == (None, NO_VERSION)


async def test_a_leader_that_was_deposed_without_knowing_it_changes_nothing(
    pair: tuple[Candidate, Candidate], zookeeper: ZooKeeperServer
) -> None:
    leader, other = await elect_first(pair)
    candidate = leader._election._candidate
    assert candidate is not None
    client = KazooClient(zookeeper.hosts)
    client.start()
    client.delete(candidate)
    client.stop()
    client.close()
    leader._election._leading = True  # as if the news had not arrived
    with pytest.raises(NotLeading):
        await leader.write_configuration(configuration(1), NO_VERSION)
    assert await other.read_configuration() == (None, NO_VERSION)


async def test_leadership_is_handed_over_when_the_leader_stops(pair: tuple[Candidate, Candidate]) -> None:
    leader, _ = await elect_first(pair)
    await leader.stop()
    await until(lambda: pair[1].story() == [Elected()])


async def test_leadership_is_handed_over_when_the_session_expires(pair: tuple[Candidate, Candidate]) -> None:
    leader, other = await elect_first(pair)
    expire_session(leader)
    await until(lambda: SessionExpired() in pair[0].events and pair[1].story() == [Elected()])
    story = [event for event in pair[0].story() if isinstance(event, (Elected, Deposed, SessionExpired))]
    assert story[-2:] == [Deposed(), SessionExpired()]
    await other.write_configuration(configuration(1), NO_VERSION)
    # The old leader stands again, behind the new one.
    await other.stop()
    await until(lambda: pair[0].story()[-1:] == [Elected()])


async def test_a_leader_without_connection_does_not_lead_until_it_returns(
    pair: tuple[Candidate, Candidate], zookeeper: ZooKeeperServer
) -> None:
    leader, _ = await elect_first(pair)
    zookeeper.stop()
    await until(lambda: pair[0].story() == [Elected(), Deposed(), SessionSuspended()])
    with pytest.raises(NotLeading):
        await leader.write_configuration(configuration(1), NO_VERSION)
    zookeeper.start()
    await until(lambda: pair[0].story()[-1:] == [Elected()])
    await leader.write_configuration(configuration(1), NO_VERSION)
    assert pair[1].story() == [SessionSuspended()]


async def test_a_configuration_that_cannot_be_read_is_not_taken_for_none(
    pair: tuple[Candidate, Candidate], zookeeper: ZooKeeperServer, cluster: str
) -> None:
    leader, _ = await elect_first(pair)
    client = KazooClient(zookeeper.hosts)
    client.start()
    client.create(Paths(cluster).configuration, b'{"epoch": "one"}')
    client.stop()
    client.close()
    with pytest.raises(CorruptConfiguration, match=f"/braid/{cluster}/configuration"):
        await leader.read_configuration()


KILLED = """
import asyncio, sys
from braid.coordination import Coordination, Elected

async def lead():
    def on_event(event):
        if event == Elected():
            print("leads", flush=True)

    coordination = Coordination(sys.argv[1], sys.argv[2], 30.0, on_event)
    await coordination.start()
    await coordination.lead()
    await asyncio.Event().wait()

asyncio.run(lead())
"""


async def test_a_leader_that_was_killed_on_this_host_is_not_waited_for(
    pair: tuple[Candidate, Candidate], zookeeper: ZooKeeperServer, cluster: str
) -> None:
    """Its session lives on for half a minute, and its candidacy with it."""
    command = [sys.executable, "-c", KILLED, zookeeper.hosts, cluster]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as leader:  # noqa: ASYNC220
        assert leader.stdout is not None
        assert leader.stdout.readline() == b"leads\n"
        await pair[0].coordination.lead()
        await until(lambda: pair[0].coordination._election._candidate is not None)
        assert pair[0].story() == []  # it is alive
        leader.kill()
        leader.wait()
    killed_s = time.monotonic()
    await pair[1].coordination.lead()  # as the launcher starts another one
    await until(lambda: pair[0].story() == [Elected()])
    assert time.monotonic() - killed_s < 10
    assert pair[1].story() == []


async def test_a_candidacy_that_cannot_be_read_is_left_alone(
    pair: tuple[Candidate, Candidate], zookeeper: ZooKeeperServer, cluster: str
) -> None:
    client = KazooClient(zookeeper.hosts)
    client.start()
    path = client.create(f"{Paths(cluster).coordinators}/somebody-", b"?", ephemeral=True, sequence=True, makepath=True)
    await pair[0].coordination.lead()
    await until(lambda: pair[0].coordination._election._candidate is not None)
    assert pair[0].story() == []
    assert client.exists(path)
    client.stop()
    client.close()
    await until(lambda: pair[0].story() == [Elected()])
