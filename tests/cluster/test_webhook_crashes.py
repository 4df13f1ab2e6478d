"""The connection point that delivers webhooks is killed under load: what was acknowledged arrives, at least once."""

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial

import pytest

from benchmarks.local_cluster import local_cluster
from tests.cluster.hooks import Hook, Late, settled
from tests.cluster.scaled_cluster import ScaledCluster, scaled, until
from tests.cluster.traffic import Traffic
from tests.service.webhook_receiver import Receiver, receiving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

HOME, OTHER = "connpoint-1", "connpoint-2"
SETTINGS = {
    "BRAID_WEBHOOKS__ALLOW_PRIVATE": "true",
    "BRAID_WEBHOOKS__RETRY_S": "0.1",
    "BRAID_WEBHOOKS__RETRY_S_MAX": "0.5",
}
ANSWERS_S = 0.15  # so long each request is under way, so that a crash finds one
PAUSE_S = 0.02
KILLS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScaledCluster]:
    slices = "connpoint=2,accesspoint=1,matcher=2,exitpoint=2"
    with local_cluster(tmp_path_factory.mktemp("cluster"), slices, SETTINGS) as local, scaled(local) as running:
        yield running


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


async def test_the_home_is_killed_again_and_again(cluster: ScaledCluster, receiver: Receiver) -> None:
    """Publishers are at both connection points, so some of what it had acknowledged is lost to all but its disk."""
    home, other = cluster.address_of(HOME), cluster.address_of(OTHER)
    traffic = Traffic(publishers=4, subscribers=0, name="killed")
    for publisher in traffic.publishers[::2]:  # one that starts again listens before it is registered
        publisher.may_be_refused = True
    hooks = [Hook(receiver, f"/killed/{sensor}", sensor) for sensor in range(4)]
    for hook in hooks:
        receiver.moods[hook.path] = lambda _number: Late(ANSWERS_S)
        await hook.subscribe(home())
    async with traffic.flowing([home, other], [home], PAUSE_S):
        for _ in range(KILLS):
            await _more(lambda: len(receiver.posted[hooks[0].path]), 5)
            killed = cluster.pid(HOME)
            cluster.kill(HOME)
            await until(partial(_is_started_again, cluster, killed))
            await _more(lambda: traffic.acknowledged, 200)
    await settled(hooks, traffic.publishers)
    assert sum(publisher.connections for publisher in traffic.publishers) >= len(traffic.publishers) + KILLS
    repeated = 0
    for hook in hooks:
        hook.verify()
        assert hook.lost(traffic.publishers) == []
        assert hook.twice_under_another_id() == []
        assert hook.changed_bodies() == []
        assert hook.wrong(traffic.publishers) == []
        assert hook.out_of_order() == []
        repeated += len(hook.twice())
    assert repeated > 0, "no request was under way when it was killed, so nothing was tried"
    for hook in hooks:
        delivery = await hook.delivery(other())
        assert (delivery["waiting"], delivery["dead_letters"], delivery["dropped"]) == (0, 0, 0)


async def _more(count: Callable[[], int], more: int) -> None:
    wanted = count() + more
    await until(lambda: count() >= wanted)


def _is_started_again(cluster: ScaledCluster, killed: int) -> bool:
    registration = cluster.registrations().get(HOME)
    return registration is not None and registration.pid != killed
