"""Publications of the past, through all layers: kept, found, given before the live ones, once."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection

from tests.cluster.clients import socket
from tests.service.in_process import InProcessCluster, client_of, in_process_cluster
from tests.service.zookeeper_fixture import ZooKeeperServer

pytestmark = pytest.mark.slow

TIMEOUT_S = 20


class Stage:
    """A cluster, and one connection to it."""

    def __init__(self, cluster: InProcessCluster, http: httpx.AsyncClient, connection: ClientConnection) -> None:
        self.cluster = cluster
        self.http = http
        self._connection = connection
        self._notified: list[dict[str, Any]] = []

    async def publish(self, *publications: dict[str, Any]) -> None:
        answer = await self.http.post("/v1/publications", json=list(publications))
        assert answer.status_code == 202, answer.text

    async def subscribe(self, **subscription: Any) -> dict[str, Any]:
        """The answer; what came before it is notified too."""
        await self._connection.send(json.dumps({"op": "subscribe", "ref": 1, "subscription": subscription}))
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                frame: dict[str, Any] = json.loads(await self._connection.recv())
                if frame["op"] != "notify":
                    return frame
                self._notified += frame["notifications"]

    async def unsubscribe(self, id: str) -> None:
        assert (await self.http.delete(f"/v1/subscriptions/{id}")).status_code == 204

    async def notified(self, last: str) -> list[str]:
        """Ids of all that came until this one."""
        ids = [one["publication"]["id"] for one in self._notified]
        async with asyncio.timeout(TIMEOUT_S):
            while last not in ids:
                frame = json.loads(await self._connection.recv())
                assert frame["op"] == "notify", frame
                ids += [one["publication"]["id"] for one in frame["notifications"]]
        self._notified = []
        return ids


@pytest.fixture
async def stage(zookeeper: ZooKeeperServer, tmp_path: Path) -> AsyncIterator[Stage]:
    async with (
        in_process_cluster(zookeeper.hosts, tmp_path) as cluster,
        client_of(cluster) as http,
        socket(cluster.api) as connection,
    ):
        yield Stage(cluster, http, connection)


async def test_the_past_comes_first_then_what_is_new(stage: Stage) -> None:
    for number in range(5):
        await stage.publish({"id": f"p{number}", "attributes": {"n": number}})
    await stage.publish({"id": "gone", "attributes": {"n": 3}, "expires": "+1ms"}, {"id": "other"})
    await asyncio.sleep(0.01)
    answer = await stage.subscribe(filter="n >= 2", **{"from": "-1m"})
    assert answer["op"] == "subscribed", answer
    await stage.publish({"id": "p5", "attributes": {"n": 5}})
    assert await stage.notified("p5") == ["p2", "p3", "p4", "p5"]


MADRID = {"type": "circle", "lat": 40.4168, "lon": -3.7038, "radius_m": 500}


@pytest.mark.parametrize(
    "wanted",
    [
        {"filter": "n = 1"},
        {"words": ["rain"]},
        {"topic": "weather/madrid"},
        {"topic": "weather"},
        {"topic": "+/madrid"},
        {"zone": MADRID},
        {"zone": MADRID, "topic": "#", "words": ["raining"], "filter": "n < 2"},
    ],
    ids=str,
)
async def test_every_part_of_a_subscription_finds_its_past(stage: Stage, wanted: dict[str, Any]) -> None:
    yes = {
        "id": "yes",
        "topic": "weather/madrid",
        "text": "It rains.",
        "attributes": {"n": 1},
        "zone": {"type": "point", "lat": 40.4170, "lon": -3.7040},
    }
    no = {
        "id": "no",
        "topic": "traffic/toledo",
        "text": "Jam.",
        "attributes": {"n": 9},
        "zone": {"type": "point", "lat": 39.86, "lon": -4.03},
    }
    await stage.publish(yes, no)
    assert (await stage.subscribe(**wanted, **{"from": "-1m"}))["past"] == {"publications": 1, "complete": True}
    assert await stage.notified("yes") == ["yes"]


async def test_what_was_given_is_not_given_again_to_a_distinct_one(stage: Stage) -> None:
    await stage.publish({"id": "p1", "attributes": {"n": 1}}, {"id": "p2", "attributes": {"n": 2}})
    first = await stage.subscribe(filter="n = 1", distinct=True, **{"from": "-1m"})
    assert await stage.notified("p1") == ["p1"]
    second = await stage.subscribe(filter="n >= 1", distinct=True, **{"from": "-1m"})
    assert second["past"] == {"publications": 1, "complete": True}
    assert await stage.notified("p2") == ["p2"]
    for ended in (first, second):
        await stage.unsubscribe(ended["id"])
    again = await stage.subscribe(filter="n >= 1", distinct=True, **{"from": "-1m"})
    assert again["past"] == {"publications": 0, "complete": True}
    plain = await stage.subscribe(filter="n >= 1", **{"from": "-1m"})
    assert plain["past"] == {"publications": 2, "complete": True}


async def test_of_two_distinct_ones_that_are_made_at_once_one_gives_what_both_match(stage: Stage) -> None:
    await stage.publish(*({"id": f"p{number}", "attributes": {"n": number}} for number in range(1, 6)))
    wanted = [
        {"filter": filter, "distinct": True, "from": "-1m", "subscriber": "anna"} for filter in ("n > 0", "n > 1")
    ]
    answers = await asyncio.gather(*(stage.http.post("/v1/subscriptions", json=one) for one in wanted))
    assert sum(answer.json()["past"]["publications"] for answer in answers) == 5


async def test_what_one_gives_live_is_known_from_when_it_was_stored(stage: Stage) -> None:
    await stage.publish({"id": "p1"})
    live = await stage.subscribe()
    await stage.publish({"id": "p2"})
    assert await stage.notified("p2") == ["p2"]
    later = await stage.subscribe(distinct=True, **{"from": "-1m"})
    assert later["past"] == {"publications": 1, "complete": True}
    changed = await stage.http.patch(f"/v1/subscriptions/{live['id']}", json={"filter": "n = 1"})
    assert changed.status_code == 200, changed.text
    await stage.unsubscribe(later["id"])
    await stage.unsubscribe(live["id"])
    again = await stage.subscribe(distinct=True, **{"from": "-1m"})
    assert again["past"] == {"publications": 0, "complete": True}


async def test_the_past_knows_what_came_before(stage: Stage) -> None:
    for number, price in enumerate((100, 99, 80, 79, 60)):
        await stage.publish({"id": f"p{number}", "topic": "stocks/acme", "attributes": {"price": price}})
        await stage.publish({"id": f"q{number}", "topic": "stocks/other", "attributes": {"price": 50}})
    answer = await stage.subscribe(filter="price < prev(price) * 0.9", **{"from": "-1m"})
    assert answer["past"] == {"publications": 2, "complete": True}
    assert await stage.notified("p4") == ["p2", "p4"]


async def test_the_most_recent_ones_can_be_looked_up(stage: Stage) -> None:
    for number in range(30):
        await stage.publish({"id": f"p{number}", "topic": f"a/{number % 2}", "attributes": {"n": number}})
    answer = await stage.http.get("/v1/publications", params={"where": "n < 20", "topic": "a/1", "limit": 3})
    assert answer.status_code == 200, answer.text
    found = answer.json()["publications"]
    assert [one["publication"]["id"] for one in found] == ["p19", "p17", "p15"]
    assert found[0]["published"] > found[1]["published"]


async def test_publications_survive_a_restart_of_the_matcher(stage: Stage) -> None:
    await stage.publish({"id": "p1", "attributes": {"n": 1}})
    await stage.cluster.stop("matcher-1")
    stage.cluster.start("matcher-1")
    answer = await stage.subscribe(filter="n = 1", **{"from": "-1m"})
    assert answer["past"] == {"publications": 1, "complete": True}
