"""Sources under crashes: of Kafka, of a connection point, of a consumer's session. The ledger balances.

One cluster of real processes with two connection points. The subscriber is at the first one, which is never touched.
"""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.local_cluster import LocalCluster, local_cluster
from coordinator.kafka import KafkaServer
from tests.kafka.ledger import Ledger
from tests.kafka.producing import make_topics, read_topic, unique

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PARTITIONS = 4
SESSION_S = 1.0
SLICES = "connpoint=2,accesspoint=1,matcher=1,exitpoint=1"


class Sourced(NamedTuple):
    cluster: LocalCluster
    topic: str
    log: Path  # of the connection point that is killed

    def times_logged(self, event: str) -> int:
        return sum(json.loads(line).get("event") == event for line in self.log.read_text().splitlines())


@pytest.fixture(scope="module")
def sourced(kafka: KafkaServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sourced]:
    kafka.start()
    topic, directory = unique("ledger"), tmp_path_factory.mktemp("cluster")
    asyncio.run(make_topics(kafka.bootstrap, topic, partitions=PARTITIONS))
    settings = {
        "BRAID_CLUSTER__NAME": unique("t"),
        "BRAID_KAFKA__BOOTSTRAP": kafka.bootstrap,
        "BRAID_KAFKA__SOURCES": json.dumps([{"topic": topic}]),
        "BRAID_KAFKA__SESSION_S": str(SESSION_S),
    }
    with local_cluster(directory, SLICES, settings) as cluster:
        yield Sourced(cluster, topic, directory / "logs" / "connpoint-2.log")


async def test_kafka_is_killed_and_started_again(kafka: KafkaServer, sourced: Sourced) -> None:
    ledger = Ledger(sourced.topic, PARTITIONS)
    async with ledger.flowing(kafka.bootstrap, sourced.cluster.api[0]):
        await _until_received(ledger, 500)
        await asyncio.to_thread(kafka.kill)
        await asyncio.to_thread(kafka.start)
        await _until_received(ledger, 1000)
    ledger.check()
    await _check_dead_letters(kafka, ledger)


async def test_a_connection_point_is_killed(running_kafka: KafkaServer, sourced: Sourced) -> None:
    ledger = Ledger(sourced.topic, PARTITIONS)
    async with ledger.flowing(running_kafka.bootstrap, sourced.cluster.api[0]):
        await _until_received(ledger, 500)
        before = sourced.times_logged("reading Kafka")
        os.kill(sourced.cluster.slice_pids()["connpoint-2"], signal.SIGKILL)
        async with asyncio.timeout(30):
            while sourced.times_logged("reading Kafka") == before:
                await asyncio.sleep(0.1)
        await _until_received(ledger, len(ledger.written) + 500)
    ledger.check()


async def test_a_session_expires_and_its_owner_comes_back(running_kafka: KafkaServer, sourced: Sourced) -> None:
    """Frozen for longer than the session: another one has its partitions when it goes on where it was."""
    ledger = Ledger(sourced.topic, PARTITIONS)
    async with ledger.flowing(running_kafka.bootstrap, sourced.cluster.api[0]):
        await _until_received(ledger, 500)
        before = sourced.times_logged("partitions")
        frozen = sourced.cluster.slice_pids()["connpoint-2"]
        os.kill(frozen, signal.SIGSTOP)
        await asyncio.sleep(3 * SESSION_S)
        os.kill(frozen, signal.SIGCONT)
        async with asyncio.timeout(30):
            while sourced.times_logged("partitions") == before:
                await asyncio.sleep(0.1)
        await _until_received(ledger, len(ledger.written) + 500)
    ledger.check()


async def _until_received(ledger: Ledger, count: int) -> None:
    async with asyncio.timeout(60):
        while len(ledger.received) < count:
            await asyncio.sleep(0.05)


async def _check_dead_letters(kafka: KafkaServer, ledger: Ledger) -> None:
    """Each at least once; one that was written just before a crash may be there again."""
    letters = await read_topic(kafka.bootstrap, f"{ledger.topic}.dead-letter", ledger.poisoned, timeout_s=3.0)
    places = {
        tuple(value for name, value in letter.headers if name in ("braid-partition", "braid-offset"))
        for letter in letters
    }
    assert len(places) == ledger.poisoned
    assert len(letters) <= ledger.poisoned + 20
