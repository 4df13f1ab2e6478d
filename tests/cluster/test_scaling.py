"""Real processes while the cluster is scaled under traffic: nothing is lost, nothing comes twice or out of order."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from benchmarks.local_cluster import LocalCluster, local_cluster
from braid.selector import selector_of
from tests.cluster.clients import SENSORS, SLOTS, socket
from tests.cluster.scaled_cluster import ENDS_S, ScaledCluster, scaled, until
from tests.cluster.traffic import Traffic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PAUSE_S = 0.03  # between the batches of each publisher


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with local_cluster(tmp_path_factory.mktemp("cluster"), "connpoint=2") as running:
        yield running


@pytest.fixture
def cluster(local: LocalCluster) -> Iterator[ScaledCluster]:
    with scaled(local) as running:
        yield running


@pytest.fixture
async def traffic(cluster: ScaledCluster) -> AsyncIterator[Traffic]:
    """Flows during the whole test, and for a moment afterwards; then everything sent is looked for."""
    traffic = Traffic(publishers=4, subscribers=8, newcomers=2, name=uuid.uuid4().hex)
    api = cluster.local.api
    async with traffic.flowing(api, api, PAUSE_S):
        await _some_more(traffic)
        yield traffic
        await cluster.ready()
        await _some_more(traffic)
    traffic.check()


async def _some_more(traffic: Traffic) -> None:
    publications, subscriptions = traffic.acknowledged, traffic.subscribed
    await until(lambda: traffic.acknowledged > publications + 200 and traffic.subscribed > subscriptions + 10)


async def test_matchers_become_more_and_fewer(cluster: ScaledCluster, traffic: Traffic) -> None:
    for number in (3, 2, 1):
        ended = await cluster.scale(layer="matcher", to=number)
        assert (ended["state"], ended["reason"]) == ("done", "")
        assert len(cluster.configuration().matchers) == number
        await _some_more(traffic)
        assert ended["moved"] > 0


@pytest.mark.parametrize("layer", ["exitpoint", "accesspoint"])
async def test_other_layers_become_more_and_fewer(cluster: ScaledCluster, traffic: Traffic, layer: Any) -> None:
    for number in (2, 1):
        ended = await cluster.scale(layer=layer, to=number)
        assert (ended["state"], ended["reason"]) == ("done", "")
        assert len(cluster.configuration().of_layer(layer)) == number
        await _some_more(traffic)


async def test_two_layers_in_one_scaling_and_a_second_one_meanwhile(cluster: ScaledCluster, traffic: Traffic) -> None:
    id = await cluster.ask(layers={"matcher": 2, "exitpoint": 2})
    refused = await cluster.call("/v1/cluster/scale", {"layer": "accesspoint", "to": 2})
    assert (refused["status"], refused["scaling"]) == (409, id)
    await until(lambda: cluster.ended(id))
    configuration = cluster.configuration()
    assert (len(configuration.matchers), len(configuration.exitpoints)) == (2, 2)
    await _some_more(traffic)
    ended = await cluster.scale(layers={"matcher": 1, "exitpoint": 1})
    assert ended["state"] == "done"


WORDS = ["white house", "house", "gardens", "river", "senate"]
ANCHORS = [f"filter:sensor = {n}" for n in range(SENSORS)] + [f"filter:slot = {n}" for n in range(SLOTS)]


def all_in(part: int) -> dict[str, Any]:
    """A map that brings whatever is subscribed here to one of three parts."""
    return {"parts": 3, "words": dict.fromkeys(WORDS, part), "anchors": dict.fromkeys(ANCHORS, part)}


async def test_routing_by_anchors_and_maps_and_back(cluster: ScaledCluster, traffic: Traffic) -> None:
    """With other slices at once, then with the same slices and another map, then none, then with fewer slices."""
    async with socket(cluster.local.api[0], subscriber=uuid.uuid4().hex, temporary="true") as connection:
        for words in WORDS:
            await connection.send(json.dumps({"op": "subscribe", "ref": 1, "subscription": {"words": [words]}}))
            assert json.loads(await connection.recv())["op"] == "subscribed"
        for asked, matchers, routing, part in (
            ({"layers": {"matcher": 3}, "routing": "anchored", "map": all_in(1)}, 3, "anchored", 1),
            ({"map": all_in(2)}, 3, "anchored", 2),
            ({"map": "none"}, 3, "anchored", None),
            ({"routing": "broadcast"}, 3, "broadcast", None),
            ({"routing": "anchored", "map": all_in(0)}, 3, "anchored", 0),
            ({"layers": {"matcher": 1, "accesspoint": 2}}, 1, "anchored", 0),
            ({"layers": {"accesspoint": 1}, "routing": "broadcast"}, 1, "broadcast", None),
        ):
            ended = await cluster.scale(**asked)
            assert (ended["state"], ended["reason"]) == ("done", "")
            configuration = cluster.configuration()
            assert (len(configuration.matchers), configuration.routing) == (matchers, routing)
            assert (configuration.map is None) == (part is None)
            if part is not None:
                await _until_all_at(cluster, configuration.matchers[part])
            await _some_more(traffic)
            await _check_found(cluster, connection)


async def _until_all_at(cluster: ScaledCluster, matcher: str) -> None:
    """The others have nothing left, while subscriptions come."""
    others = [name for name in cluster.configuration().matchers if name != matcher]
    await until(lambda: not any(map(cluster.subscriptions_at, others)))
    assert cluster.subscriptions_at(matcher) >= len(WORDS)


async def _check_found(cluster: ScaledCluster, connection: ClientConnection) -> None:
    """Every subscription on words is found where it lies now, once."""
    await cluster.call("/v1/publications", {"text": " ".join(WORDS)})
    found: list[str] = []
    async with asyncio.timeout(ENDS_S):
        while len(found) < len(WORDS):
            frame = json.loads(await connection.recv())
            found += [id for notification in frame["notifications"] for id in notification["subscriptions"]]
    assert len(set(found)) == len(WORDS)


async def test_a_matcher_is_replaced(cluster: ScaledCluster, traffic: Traffic) -> None:
    before = cluster.configuration().matchers
    ended = await cluster.scale(replace=list(before))
    assert ended["state"] == "done"
    after = cluster.configuration().matchers
    assert len(after) == len(before)
    assert not set(before) & set(after)


async def test_what_was_published_before_a_scaling_or_a_crash_is_looked_back_to(cluster: ScaledCluster) -> None:
    """What `prev` needs moves to another matcher, survives that one, and moves back."""
    api, topic = cluster.local.api[0], f"stocks/{uuid.uuid4().hex[:8]}"
    fallen = {"filter": "price < prev(price) * 0.9", "topic": topic}

    async def publish(price: int) -> None:
        published = {"topic": topic, "attributes": {"price": price}}
        assert len((await cluster.call("/v1/publications", published))["ids"]) == 1

    async def next_price(connection: ClientConnection) -> int:
        async with asyncio.timeout(ENDS_S):
            frame = json.loads(await connection.recv())
        (notification,) = frame["notifications"]
        price: int = notification["publication"]["attributes"]["price"]
        return price

    async with socket(api, subscriber=uuid.uuid4().hex, temporary="true") as connection:
        await connection.send(json.dumps({"op": "subscribe", "ref": 1, "subscription": fallen}))
        id = json.loads(await connection.recv())["id"]
        await publish(1000)
        (only,) = cluster.configuration().matchers
        ended = await cluster.scale(layers={"matcher": 2}, replace=[only])
        assert ended["state"] == "done"
        await publish(800)
        assert await next_price(connection) == 800
        cluster.kill(selector_of(cluster.configuration()).matcher_of(id))
        await publish(600)
        assert await next_price(connection) == 600
        await cluster.ready()
        await cluster.scale(layer="matcher", to=1)
        await publish(400)
        assert await next_price(connection) == 400


async def test_a_start_after_a_scaling_finds_all_subscriptions(tmp_path: Path) -> None:
    wanted = {f"value = {number}" for number in range(60)}
    with local_cluster(tmp_path) as local, scaled(local) as cluster:
        for filter in sorted(wanted):
            await cluster.call("/v1/subscriptions", {"filter": filter, "subscriber": "dashboard"})
        await cluster.scale(layer="matcher", to=3)
        await cluster.scale(layer="matcher", to=2)
        await cluster.ready()
        matchers = cluster.configuration().matchers
    with local_cluster(tmp_path) as local, scaled(local) as cluster:
        assert cluster.configuration().matchers == matchers
        found = await cluster.call("/v1/subscriptions?subscriber=dashboard&limit=1000")
        assert {each["filter"] for each in found["subscriptions"]} == wanted
        assert len(found["subscriptions"]) == len(wanted)
