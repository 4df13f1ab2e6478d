"""Any process of the cluster is killed in any phase of a scaling: nothing is lost, and the scaling ends one way."""

import uuid
from collections.abc import Iterator

import pytest

from benchmarks.local_cluster import LocalCluster, local_cluster
from braid.topology import CONFIGURED_LAYERS, PHASES, REVERSIBLE, Configuration, Layer, Phase, Routing
from tests.cluster.holding import Held, hold
from tests.cluster.scaled_cluster import ScaledCluster, scaled, until
from tests.cluster.traffic import Traffic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

PAUSE_S = 0.08  # between the batches of each publisher
VICTIMS = ["coordinator", "accesspoint-2", "leaving matcher", "new matcher", "exitpoint-2", "connpoint-2"]
# Before the cut it ends the same way for each. Behind it these have something to do; `./dev bench scaling --kill` tries
# each of them in each phase.
AT_THE_EDGES: list[tuple[Phase, str]] = [
    ("copying", "new accesspoint"),
    ("copying", "leaving exitpoint"),
    ("moving", "leaving accesspoint"),
    ("moving", "new exitpoint"),
    ("changing", "new accesspoint"),
    ("changing", "leaving accesspoint"),
    ("changing", "new exitpoint"),
    ("changing", "leaving exitpoint"),
    ("flushing", "new accesspoint"),
    ("flushing", "leaving accesspoint"),
    ("ending", "leaving accesspoint"),
    ("ending", "leaving exitpoint"),
]


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
    await _kill(cluster, phase, victim, ["matcher"])


@pytest.mark.parametrize(("phase", "victim"), AT_THE_EDGES)
async def test_one_that_comes_or_leaves_is_killed(cluster: ScaledCluster, phase: Phase, victim: str) -> None:
    """Two layers change in one scaling."""
    await _kill(cluster, phase, victim, ["accesspoint", "exitpoint"])


async def _kill(cluster: ScaledCluster, phase: Phase, victim: str, layers: list[Layer]) -> None:
    traffic = Traffic(publishers=4, subscribers=8, newcomers=1, name=uuid.uuid4().hex)
    for subscriber in traffic.subscribers[1::2]:
        subscriber.may_break = victim == "connpoint-2"
    for publisher in traffic.publishers[1::2]:  # one that starts again listens before it is registered
        publisher.may_be_refused = victim == "connpoint-2"
    await _route(cluster, "anchored" if phase in ("copying", "changing", "ending") else "broadcast")
    before = _slices(cluster.configuration())
    first, second = cluster.address_of("connpoint-1"), cluster.address_of("connpoint-2")
    async with traffic.flowing([first, second], [first, second], PAUSE_S):
        held = await hold(cluster, phase, layers)
        name = _name(held, victim)
        acknowledged = traffic.acknowledged
        killed = cluster.pid(name)
        cluster.kill(name)
        cluster.resume_all()
        await until(lambda: cluster.ended(held.id))
        await cluster.ready()
        assert killed not in [registration.pid for registration in cluster.registrations().values()]
        await until(lambda: traffic.acknowledged > acknowledged + 200)
    ended, after = cluster.ended(held.id), _slices(cluster.configuration())
    assert ended is not None
    if ended.state == "aborted":
        assert phase in REVERSIBLE
        assert ended.reason in (f"{name} is gone", f"{name} started again")
        assert after == before
    else:
        others = {held.leaving[layer]: held.coming[layer] for layer in layers}
        assert after == [others.get(slice, slice) for slice in before]
    traffic.check()
    for subscriber in traffic.subscribers:
        assert len(subscriber.earlier) == (1 if subscriber.may_break else 0)


def _name(held: Held, victim: str) -> str:
    """Of the slice that is meant; a process that neither comes nor leaves has a name of its own."""
    coming = {f"new {layer}": name for layer, name in held.coming.items()}
    leaving = {f"leaving {layer}": name for layer, name in held.leaving.items()}
    return {**coming, **leaving}.get(victim, victim)


def _slices(configuration: Configuration) -> list[str]:
    return [name for layer in CONFIGURED_LAYERS for name in configuration.of_layer(layer)]


async def _route(cluster: ScaledCluster, routing: Routing) -> None:
    if cluster.configuration().routing != routing:
        ended = await cluster.scale(routing=routing)
        assert ended["state"] == "done"
