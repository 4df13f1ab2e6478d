"""A rolling upgrade as docs/operating.md tells it: every process is replaced by one of another version."""

import os
import signal
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from benchmarks.local_cluster import local_cluster
from braid.topology import CONFIGURED_LAYERS, LAYERS
from braid.version import VERSION
from tests.cluster.scaled_cluster import ScaledCluster, scaled, until
from tests.cluster.traffic import Traffic
from tests.service.cli_runner import braid

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
PAUSE_S = 0.03
NEXT = f"{VERSION}+next"

# What is installed has the version that stands in a file: whoever is started from now on has the next one.
INSTALLED = """\
import pathlib
import braid.version
braid.version.VERSION = (pathlib.Path(__file__).parent / "version").read_text()
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    directory = tmp_path / "installed"
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(INSTALLED)
    (directory / "version").write_text(VERSION)
    return directory


@pytest.fixture
def cluster(tmp_path: Path, installed: Path) -> Iterator[ScaledCluster]:
    environment = {"PYTHONPATH": f"{installed}:{ROOT}", "BRAID_CLUSTER__DRAIN_S": "20"}
    slices = "connpoint=2,accesspoint=2,matcher=2,exitpoint=2"
    with local_cluster(tmp_path / "data", slices, environment) as local, scaled(local) as running:
        yield running


async def test_every_process_is_replaced_under_traffic_and_nothing_is_lost(
    cluster: ScaledCluster, installed: Path
) -> None:
    assert set(versions(cluster)) == {VERSION}
    traffic = Traffic(publishers=4, subscribers=8, name=uuid.uuid4().hex)
    for publisher in traffic.publishers:
        publisher.may_be_refused = True
    for subscriber in traffic.subscribers:
        subscriber.may_break = True
    addresses = [partial(connpoint, cluster, number) for number in range(2)]
    async with traffic.flowing(addresses, addresses, PAUSE_S):
        await some_more(traffic)
        (installed / "version").write_text(NEXT)
        for layer in reversed(CONFIGURED_LAYERS):
            for name in cluster.configuration().of_layer(layer):
                done = await braid(cluster.local.api[0], "replace", name)
                assert (done.exit_code, "done in" in done.output) == (0, True), done.output
                await cluster.ready()
                await some_more(traffic)
        await restart(cluster, "coordinator")
        for name in ("connpoint-1", "connpoint-2"):
            await restart(cluster, name)
            await cluster.ready()
            await some_more(traffic)
    traffic.check()
    assert set(versions(cluster)) == {NEXT}
    assert all(len(subscriber.earlier) <= 2 for subscriber in traffic.subscribers)  # told of at most two gaps


def connpoint(cluster: ScaledCluster, number: int) -> str:
    """Of those that are there: whoever loses one goes to another."""
    there = cluster.local.api
    return there[number % len(there)]


def versions(cluster: ScaledCluster) -> list[str]:
    there = cluster.registrations().values()
    assert {each.layer for each in there} == set(LAYERS)
    return [each.version for each in there]


async def restart(cluster: ScaledCluster, name: str) -> None:
    """Told to stop, it ends what it has begun; the launcher starts it again."""
    before = cluster.pid(name)
    os.kill(before, signal.SIGTERM)

    def is_another() -> bool:
        try:
            return cluster.pid(name) != before
        except LookupError:
            return False

    await until(is_another)


async def some_more(traffic: Traffic) -> None:
    before = traffic.acknowledged
    await until(lambda: traffic.acknowledged > before + 200)
