"""Webhooks of a real cluster: signed, once, in order; whoever is dead delays nobody, and its letters are replayed."""

import asyncio
import statistics
from collections.abc import AsyncIterator, Iterator
from functools import partial

import pytest

from benchmarks.local_cluster import LocalCluster, free_port, local_cluster
from tests.cluster.hooks import Hook, settled, until
from tests.cluster.scaled_cluster import scaled
from tests.cluster.traffic import Traffic
from tests.service.webhook_receiver import Receiver, receiving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

TIMEOUT_S = 3.0
ATTEMPTS = 3
SETTINGS = {
    "BRAID_WEBHOOKS__ALLOW_PRIVATE": "true",
    "BRAID_WEBHOOKS__TIMEOUT_S": str(TIMEOUT_S),
    "BRAID_WEBHOOKS__RETRY_S": "0.1",
    "BRAID_WEBHOOKS__RETRY_S_MAX": "0.4",
    "BRAID_WEBHOOKS__ATTEMPTS_MAX": str(ATTEMPTS),
}
FLOWS_S = 3.0
PAUSE_S = 0.02  # between the batches of each publisher


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    slices = "connpoint=2,accesspoint=1,matcher=2,exitpoint=1"
    with local_cluster(tmp_path_factory.mktemp("cluster"), slices, SETTINGS) as running:
        yield running


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


async def test_signed_requests_bring_everything_once_and_in_order(cluster: LocalCluster, receiver: Receiver) -> None:
    traffic = Traffic(publishers=4, subscribers=0, name="signed")
    hooks = [Hook(receiver, f"/sensor/{sensor}", sensor) for sensor in range(4)]
    for number, hook in enumerate(hooks):
        await hook.subscribe(cluster.api[number % 2])
    async with traffic.flowing(cluster.api, cluster.api, PAUSE_S):
        await asyncio.sleep(FLOWS_S)
    await _everything_came_once_and_in_order(cluster, hooks, traffic)


async def test_endpoints_that_are_dead_delay_nobody_and_become_dead_letters(
    cluster: LocalCluster, receiver: Receiver
) -> None:
    """Whoever waited once for the one that hangs would be late by a timeout."""
    alone = await _latencies_s(cluster, Hook(receiver, "/alone", 0))
    receiver.moods["/hangs"] = lambda _number: "hang"
    receiver.moods["/fails"] = lambda _number: 500
    hangs, fails = Hook(receiver, "/hangs", 0), Hook(receiver, "/fails", 0)
    refuses = Hook(receiver, "/refuses", 0, url=f"http://127.0.0.1:{free_port()}/")
    dead = [hangs, fails, refuses]
    traffic = Traffic(publishers=4, subscribers=0, name="beside")
    for hook in dead:
        await hook.subscribe(cluster.api[0])
    beside = await _latencies_s(cluster, Hook(receiver, "/beside", 0), traffic)
    assert beside[-1] < TIMEOUT_S / 2
    assert statistics.median(beside) < 2 * statistics.median(alone) + 0.05

    published = set(hangs.promised(traffic.publishers))
    assert len(published) > 100
    await until(partial(_are_buried, cluster, fails, len(published)))
    await until(partial(_are_buried, cluster, refuses, len(published)))
    await until(partial(_are_buried, cluster, hangs, len(published)), timeout_s=90)
    for hook, error in ((hangs, "no answer within 3 s"), (fails, "answered 500"), (refuses, "no answer: ")):
        for api in cluster.api:
            delivery = await hook.delivery(api)
            assert (delivery["waiting"], delivery["dead_letters"], delivery["dropped"]) == (0, len(published), 0)
            assert delivery["delivered"] == 0 < delivery["failures"]
            assert error in delivery["last_error"]
        letters = await hook.dead_letters(cluster.api[1])
        assert {id for letter in letters for id in letter["publications"]} == published
        assert all(letter["attempts"] == ATTEMPTS for letter in letters)
        assert all(letter["reason"].startswith(f"failed {ATTEMPTS} times; last: {error}") for letter in letters)
    await _replayed(cluster, receiver, dead, published)
    for hook in dead:
        assert hook.changed_bodies() == []
        assert hook.twice_under_another_id() == []
        hook.verify()
        await hook.remove(cluster.api[0])


async def _replayed(cluster: LocalCluster, receiver: Receiver, dead: list[Hook], published: set[str]) -> None:
    """They are well again: one dead letter by its id first, then all others."""
    receiver.let_go()
    receiver.moods.clear()
    for hook in dead:
        before = len(receiver.posted[hook.path])
        first, *others = await hook.dead_letters(cluster.api[0])
        if hook.path == "/refuses":
            await hook.change(cluster.api[1], receiver.url(hook.path))
        assert (await hook.replay(cluster.api[1], [first["id"]]))["requests"] == 1
        assert (await hook.replay(cluster.api[0]))["requests"] == len(others)
        await until(partial(_have_arrived, cluster, hook, len(published)))
        came = receiver.posted[hook.path][before:]
        assert sorted(posted.id for posted in came) == sorted(letter["id"] for letter in (first, *others))
        assert {id for posted in came for id in posted.publications} == published
        assert await hook.dead_letters(cluster.api[0]) == []


async def test_matchers_come_and_go_meanwhile(cluster: LocalCluster, receiver: Receiver) -> None:
    traffic = Traffic(publishers=4, subscribers=0, name="scaled")
    hooks = [Hook(receiver, f"/scaled/{sensor}", sensor) for sensor in range(4)]
    for number, hook in enumerate(hooks):
        await hook.subscribe(cluster.api[number % 2])
    with scaled(cluster) as scaling:
        async with traffic.flowing(cluster.api, cluster.api, PAUSE_S):
            for matchers in (3, 1, 2):
                ended = await scaling.scale(layers={"matcher": matchers})
                assert ended["state"] == "done"
                assert len(scaling.configuration().matchers) == matchers
    await _everything_came_once_and_in_order(cluster, hooks, traffic)


async def _everything_came_once_and_in_order(cluster: LocalCluster, hooks: list[Hook], traffic: Traffic) -> None:
    await settled(hooks, traffic.publishers)
    assert traffic.acknowledged > 500
    for hook in hooks:
        hook.verify()
        assert hook.lost(traffic.publishers) == []
        assert hook.twice() == []
        assert hook.out_of_order() == []
        assert hook.wrong(traffic.publishers) == []
        await hook.remove(cluster.api[0])


async def _latencies_s(cluster: LocalCluster, hook: Hook, traffic: Traffic | None = None) -> list[float]:
    """Of everything that comes to one that is well, in ascending order."""
    traffic = traffic or Traffic(publishers=4, subscribers=0, name="alone")
    await hook.subscribe(cluster.api[0])
    async with traffic.flowing(cluster.api, cluster.api, PAUSE_S):
        await asyncio.sleep(FLOWS_S)
    await settled([hook], traffic.publishers)
    assert hook.lost(traffic.publishers) == []
    assert hook.twice() == []
    await hook.remove(cluster.api[0])
    return hook.latencies_s(traffic.publishers)


async def _are_buried(cluster: LocalCluster, hook: Hook, notifications: int) -> bool:
    """Whatever was published waits or is a dead letter, at any time."""
    delivery = await hook.delivery(cluster.api[0])
    assert delivery["waiting"] + delivery["dead_letters"] == notifications
    return bool(delivery["waiting"] == 0)


async def _have_arrived(cluster: LocalCluster, hook: Hook, notifications: int) -> bool:
    return bool((await hook.delivery(cluster.api[0]))["delivered"] == notifications)
