"""The past in a cluster of real processes: while publications pour in, slices change and processes die."""

import asyncio
import json
import re
import urllib.request
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from benchmarks.local_cluster import LocalCluster, local_cluster
from tests.cluster.clients import socket
from tests.cluster.scaled_cluster import ScaledCluster, scaled, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

BATCH = 20
PAUSE_S = 0.02
COMES_S = 30.0


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    slices = "connpoint=2,accesspoint=2,matcher=2,exitpoint=2"
    with local_cluster(tmp_path_factory.mktemp("cluster"), slices) as running:
        yield running


@pytest.fixture
def cluster(local: LocalCluster) -> Iterator[ScaledCluster]:
    with scaled(local) as running:
        yield running


class Publisher:
    """One connection that publishes numbers, some on topics, all of them acknowledged."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.published = 0

    async def publish(self, api: str, batches: int | None = None) -> None:
        """So many batches, or until it is cancelled."""
        async with socket(api) as connection:
            while batches is None or self.published < batches * BATCH:
                numbers = range(self.published, self.published + BATCH)
                frame = {"op": "publish", "ref": 1, "publications": [self._content(number) for number in numbers]}
                await connection.send(json.dumps(frame))
                answer = json.loads(await connection.recv())
                assert answer["op"] == "published", answer
                self.published += BATCH
                await asyncio.sleep(PAUSE_S)

    def _content(self, number: int) -> dict[str, Any]:
        topic = {"topic": f"{self.run}/{number % 7}"} if number % 3 else {}
        return {"id": f"{self.run}-{number}", "attributes": {"run": self.run, "n": number}, **topic}


class Reader:
    """One subscription that began with all of the past; reads until it has seen a number."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.numbers: list[int] = []

    async def read(self, api: str, enough: "asyncio.Future[int]") -> None:
        """Until everything below that number has come."""
        subscription = {"filter": f"run = '{self.run}'", "from": "-1h"}
        async with socket(api) as connection:
            await connection.send(json.dumps({"op": "subscribe", "ref": 1, "subscription": subscription}))
            async with asyncio.timeout(COMES_S + 60):
                while not (enough.done() and len(self.numbers) >= enough.result()):
                    try:
                        frame = json.loads(await asyncio.wait_for(connection.recv(), 0.5))
                    except TimeoutError:
                        continue
                    assert frame["op"] in ("subscribed", "notify"), frame
                    for notification in frame.get("notifications", ()):
                        self.numbers.append(notification["publication"]["attributes"]["n"])


async def _with_readers(cluster: ScaledCluster, run: str, during: AsyncIterator[None] | None) -> list[Reader]:
    """Readers come one after the other while somebody publishes; each has to see everything, once and in order."""
    apis = cluster.local.api
    publisher, readers = Publisher(run), [Reader(run) for _ in range(12)]
    enough: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    publishing = asyncio.create_task(publisher.publish(apis[0]))
    reading = []
    for number, reader in enumerate(readers):
        await asyncio.sleep(0.15)
        reading.append(asyncio.create_task(reader.read(apis[number % len(apis)], enough)))
        if during is not None:
            await anext(during, None)
    publishing.cancel()
    await asyncio.gather(publishing, return_exceptions=True)
    enough.set_result(publisher.published)
    await asyncio.gather(*reading)
    return readers


def _check(readers: list[Reader]) -> None:
    for reader in readers:
        assert len(set(reader.numbers)) == len(reader.numbers), "twice"
        assert set(reader.numbers) >= set(range(max(reader.numbers))), "lost"
        assert reader.numbers == sorted(reader.numbers), "out of order"


async def test_whoever_comes_late_sees_everything_once_and_in_order(cluster: ScaledCluster) -> None:
    _check(await _with_readers(cluster, "calm", None))


async def test_the_same_while_matchers_come_and_go(cluster: ScaledCluster) -> None:
    async def scale() -> AsyncIterator[None]:
        for asked in ({"layer": "matcher", "to": 1}, {"layer": "matcher", "to": 3}, {"layer": "matcher", "to": 2}):
            scaling = asyncio.create_task(cluster.scale(**asked))
            while not scaling.done():
                yield
            assert (await scaling)["state"] == "done"
        while True:
            yield

    _check(await _with_readers(cluster, "scaled", scale()))


def _handed_over(cluster: ScaledCluster, name: str, state: str) -> float:
    with urllib.request.urlopen(f"http://{cluster.registrations()[name].http}/metrics", timeout=5) as response:
        text = response.read().decode()
    found = re.search(rf'^braid_publications_handed_over{{state="{state}"}} (\S+)$', text, re.MULTILINE)
    return 0.0 if found is None else float(found[1])


async def test_behind_a_scaling_a_matcher_that_stays_hands_over_what_others_keep_now(cluster: ScaledCluster) -> None:
    await cluster.ready()
    assert (await cluster.scale(layer="matcher", to=1))["state"] == "done"
    await Publisher("moved").publish(cluster.local.api[0], batches=20)
    await cluster.ready()
    (old,) = cluster.configuration().matchers
    assert (await cluster.scale(layer="matcher", to=2))["state"] == "done"
    await until(lambda: _handed_over(cluster, old, "stored") > 0 and not _handed_over(cluster, old, "left"))
    answer = await cluster.call("/v1/publications?where=run%20%3D%20'moved'&limit=1000")
    assert sorted(one["publication"]["attributes"]["n"] for one in answer["publications"]) == list(range(20 * BATCH))
