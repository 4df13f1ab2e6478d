"""Names that slices take by themselves: real locks, a real ZooKeeper, real processes that die."""

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from braid.claiming import HOLDER_FILE, ClaimedName, read_holders, try_to_claim
from braid.claiming import claim_name as claim
from braid.config import Settings, load
from braid.coordination import Coordination, Elected, Event
from braid.topology import Configuration, Registration
from braid.znodes import NO_VERSION
from tests.service.waiting import TIMEOUT_S, until
from tests.service.zookeeper_fixture import ZooKeeperServer

# Takes a name, registers, and says which; then it waits to be killed.
SLICE = """
import asyncio, os, sys
from braid.claiming import claim_name
from braid.config import load
from braid.coordination import Coordination
from braid.topology import Registration

async def main():
    settings = load().settings
    claimed = await claim_name("matcher", settings)
    claimed.hold_as(int(sys.argv[1]))
    coordination = Coordination(settings.cluster.zookeeper, settings.cluster.name, 60.0, lambda event: None)
    await coordination.start()
    registration = Registration(claimed.name, "matcher", "elsewhere:1", "elsewhere:2", 1, int(sys.argv[1]), "0")
    await coordination.register(registration)
    print(claimed.name, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
def claimed() -> Iterator[list[ClaimedName]]:
    held: list[ClaimedName] = []
    yield held
    for each in held:
        each.release()


def settings_of(zookeeper: ZooKeeperServer, data: Path) -> Settings:
    cluster = {"zookeeper": zookeeper.hosts, "data": data, "name": f"t{uuid.uuid4().hex[:12]}"}
    return load(overrides={"cluster": cluster}).settings


async def member_of(settings: Settings, events: list[Event] | None = None) -> Coordination:
    told = [] if events is None else events
    coordination = Coordination(settings.cluster.zookeeper, settings.cluster.name, 4.0, told.append)
    await coordination.start()
    return coordination


def registration(name: str, incarnation: int) -> Registration:
    return Registration(name, "matcher", "h:1", "h:2", 1, incarnation, "0")


async def test_slices_that_share_a_directory_take_different_names(
    zookeeper: ZooKeeperServer, tmp_path: Path, claimed: list[ClaimedName]
) -> None:
    settings = settings_of(zookeeper, tmp_path)
    claimed += await asyncio.gather(*(claim("matcher", settings) for _ in range(3)))
    assert sorted(each.name for each in claimed) == ["matcher-1", "matcher-2", "matcher-3"]
    claimed[1].release()
    claimed += [await claim("matcher", settings), await claim("connpoint", settings)]
    assert [each.name for each in claimed[3:]] == [claimed[1].name, "connpoint-1"]


async def test_who_is_configured_and_who_is_elsewhere_counts(
    zookeeper: ZooKeeperServer, tmp_path: Path, claimed: list[ClaimedName]
) -> None:
    settings = settings_of(zookeeper, tmp_path)
    events: list[Event] = []
    other = await member_of(settings, events)
    try:
        await other.register(registration("matcher-1", 5))
        await other.lead()
        await until(lambda: Elected() in events)
        await other.write_configuration(Configuration(1, (), ("matcher-1", "matcher-3"), ()), NO_VERSION)
        for name in ("matcher-1", "matcher-2", "matcher-3"):
            (tmp_path / name).mkdir()
        claimed += [await claim("matcher", settings) for _ in range(3)]
        assert [each.name for each in claimed] == ["matcher-3", "matcher-2", "matcher-4"]
    finally:
        await other.stop()


async def test_one_that_was_killed_is_followed_at_once(
    zookeeper: ZooKeeperServer, tmp_path: Path, claimed: list[ClaimedName]
) -> None:
    """Its session would last for another minute."""
    settings = settings_of(zookeeper, tmp_path)
    process = await _start_slice(settings, incarnation=41)
    assert await _name_of(process) == "matcher-1"
    assert try_to_claim(tmp_path, "matcher-1") is None
    process.kill()
    await process.wait()
    claimed.append(await claim("matcher", settings))
    assert (claimed[0].name, claimed[0].predecessor) == ("matcher-1", 41)
    claimed[0].hold_as(42)
    assert read_holders(tmp_path, "matcher") == {"matcher-1": 42}
    successor = await member_of(settings)
    try:
        async with asyncio.timeout(5):
            await successor.register(registration("matcher-1", 42), claimed[0].predecessor)
    finally:
        await successor.stop()


async def test_a_file_that_says_nothing_is_no_obstacle(tmp_path: Path, claimed: list[ClaimedName]) -> None:
    (tmp_path / "matcher-1").mkdir()
    (tmp_path / "matcher-1" / HOLDER_FILE).write_text("?")
    (tmp_path / "matcher-01").mkdir()
    (tmp_path / "matcher-2").write_text("not a directory")
    assert read_holders(tmp_path, "matcher") == {"matcher-1": None}
    found = try_to_claim(tmp_path, "matcher-1")
    assert found is not None
    claimed.append(found)
    assert found.predecessor is None
    found.hold_as(12)
    found.hold_as(3)
    assert read_holders(tmp_path, "matcher") == {"matcher-1": 3}
    assert read_holders(tmp_path / "nowhere", "matcher") == {}


async def _start_slice(settings: Settings, incarnation: int) -> Any:
    cluster = settings.cluster
    environment = {
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "BRAID_CLUSTER__ZOOKEEPER": cluster.zookeeper,
        "BRAID_CLUSTER__NAME": cluster.name,
        "BRAID_CLUSTER__DATA": str(cluster.data),
    }
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", SLICE, str(incarnation), stdout=subprocess.PIPE, env=environment
    )


async def _name_of(process: Any) -> str:
    """The last word: lines of the log come before it."""
    async with asyncio.timeout(TIMEOUT_S):
        while " " in (line := str((await process.stdout.readline()).decode()).strip()):
            pass
    return line
