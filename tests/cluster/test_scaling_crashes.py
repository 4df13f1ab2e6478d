"""Any process of the cluster is killed in any phase of a scaling: nothing is lost, and the scaling ends one way."""

import uuid
from collections.abc import Iterator

import pytest

from benchmarks.local_cluster import LocalCluster, local_cluster
from braid.topology import PHASES, REVERSIBLE, Phase, Routing
from tests.cluster.holding import hold
from tests.cluster.scaled_cluster import ScaledCluster, scaled, until
from tests.cluster.traffic import Traffic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

PAUSE_S = 0.04  # between the batches of each publisher
VICTIMS = ["coordinator", "accesspoint-2", "old matcher", "new matcher", "exitpoint-2", "connpoint-2"]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    two_of_each = "connpoint=2,accesspoint=2,matcher=2,exitpoint=2"
    with local_cluster(tmp_path_factory.mktemp("cluster"), two_of_each) as running:
        yield running


@pytest.fixture
def cluster(local: LocalCluster) -> Iterator[ScaledCluster]:
    with scaled(local) as running:
        yield running
        running.resume_all()


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("phase", PHASES)
async def test_a_process_is_killed(cluster: ScaledCluster, phase: Phase, victim: str) -> None:
    traffic = Traffic(publishers=4, subscribers=8, newcomers=1, name=uuid.uuid4().hex)
    for subscriber in traffic.subscribers[1::2]:
        subscriber.may_break = victim == "connpoint-2"
    await _route(cluster, "anchored" if phase in ("copying", "changing", "ending") else "broadcast")
    before = cluster.configuration().matchers
    first, second = cluster.address_of("connpoint-1"), cluster.address_of("connpoint-2")
    async with traffic.flowing([first, second], [first, second], PAUSE_S):
        held = await hold(cluster, phase)
        name = {"old matcher": held.old_matcher, "new matcher": held.new_matcher}.get(victim, victim)
        acknowledged = traffic.acknowledged
        killed = cluster.pid(name)
        cluster.kill(name)
        cluster.resume_all()
        await until(lambda: cluster.ended(held.id))
        await cluster.ready()
        assert killed not in [registration.pid for registration in cluster.registrations().values()]
        await until(lambda: traffic.acknowledged > acknowledged + 200)
    ended, after = cluster.ended(held.id), cluster.configuration().matchers
    assert ended is not None
    if ended.state == "aborted":
        assert phase in REVERSIBLE
        assert ended.reason in (f"{name} is gone", f"{name} started again")
        assert after == before
    else:
        assert after == tuple(held.new_matcher if matcher == held.old_matcher else matcher for matcher in before)
    traffic.check()
    for subscriber in traffic.subscribers:
        assert len(subscriber.earlier) == (1 if subscriber.may_break else 0)


async def _route(cluster: ScaledCluster, routing: Routing) -> None:
    if cluster.configuration().routing != routing:
        ended = await cluster.scale(routing=routing)
        assert ended["state"] == "done"
