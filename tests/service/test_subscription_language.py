"""Every part of a subscription from end to end: what is published comes to whom it matches, and to nobody else."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection

from tests.cluster.clients import socket
from tests.service.in_process import client_of, in_process_cluster
from tests.service.zookeeper_fixture import ZooKeeperServer

MADRID = {"type": "circle", "lat": 40.4168, "lon": -3.7038, "radius_m": 500}
NEAR_MADRID = {"type": "point", "lat": 40.4170, "lon": -3.7040}
BARCELONA = {"type": "circle", "lat": 41.3874, "lon": 2.1686, "radius_m": 500}
NEAR_BARCELONA = {"type": "Point", "coordinates": [2.1690, 41.3870]}

SUBSCRIPTIONS: dict[str, dict[str, Any]] = {
    "words": {"words": ["white", "house"]},
    "topic": {"topic": "sports/soccer"},
    "wildcards": {"topic": "sports/+/spain"},
    "zone": {"zone": MADRID},
    "open": {"filter": "window = true", "until": "+1h"},
    "later": {"filter": "window = true", "from": "+1h"},
    "fallen": {"filter": "price < prev(price) * 0.9"},
    "all parts": {"filter": "value > 40", "words": ["rain"], "topic": "weather", "zone": MADRID, "until": "+1h"},
    "end": {"filter": "end = true"},
}
ALL_PARTS: dict[str, Any] = {
    "topic": "weather/madrid",
    "text": "It rains.",
    "zone": NEAR_MADRID,
    "attributes": {"value": 41},
}


class Reader:
    """One subscriber with all the subscriptions."""

    def __init__(self, http: httpx.AsyncClient, connection: ClientConnection) -> None:
        self._http = http
        self._connection = connection
        self.ids: dict[str, str] = {}

    async def subscribe(self) -> None:
        for name, subscription in SUBSCRIPTIONS.items():
            await self._connection.send(json.dumps({"op": "subscribe", "ref": name, "subscription": subscription}))
            answer = json.loads(await self._connection.recv())
            assert answer["op"] == "subscribed", answer
            self.ids[name] = answer["id"]

    async def names_for(self, *publications: dict[str, Any]) -> list[list[str]]:
        """For each of these publications the names of the subscriptions that it comes for.

        What is published last comes last, so nothing is under way any more when it is there.
        """
        numbered = [{**publication, "id": str(number)} for number, publication in enumerate(publications)]
        answer = await self._http.post("/v1/publications", json=[*numbered, {"id": "end", "attributes": {"end": True}}])
        assert answer.status_code == 202, answer.text
        names = {id: name for name, id in self.ids.items()}
        found: list[list[str]] = [[] for _ in publications]
        async with asyncio.timeout(20):
            while True:
                for notification in json.loads(await self._connection.recv())["notifications"]:
                    if notification["publication"]["id"] == "end":
                        return found
                    number = int(notification["publication"]["id"])
                    found[number] += sorted(names[id] for id in notification["subscriptions"])


async def test_what_every_part_of_the_language_delivers(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    async with in_process_cluster(zookeeper.hosts, tmp_path) as cluster, client_of(cluster) as http:
        async with socket(cluster.api, subscriber="reader") as connection:
            reader = Reader(http, connection)
            await reader.subscribe()
            assert await reader.names_for(
                {"text": "A white wall and three houses"},
                {"text": "A whiter wall"},
                {"topic": "sports/soccer/spain"},
                {"topic": "sports"},
                {"topic": "sports/tennis"},
                {"zone": NEAR_MADRID},
                {"zone": NEAR_BARCELONA},
                {"attributes": {"window": True}},
                {"topic": "stocks/a", "attributes": {"price": 100}},
                {"topic": "stocks/b", "attributes": {"price": 50}},
                {"topic": "stocks/a", "attributes": {"price": 95}},
                {"topic": "stocks/a", "attributes": {"price": 80}},
                ALL_PARTS,
                {**ALL_PARTS, "text": "It snows."},
            ) == [
                ["words"],
                [],
                ["topic", "wildcards"],
                ["topic"],
                [],
                ["zone"],
                [],
                ["open"],
                [],
                [],
                [],
                ["fallen"],
                ["all parts", "zone"],
                ["zone"],
            ]
            # The metrics are set at every tick.
            async with asyncio.timeout(10):
                while (shown := await metrics(http))["braid_topics_remembered"] < 6:
                    await asyncio.sleep(0.02)
            assert shown["braid_topics_remembered"] == 6
            assert shown['braid_subscriptions{layer="matcher"}'] == len(SUBSCRIPTIONS)
            # Each has a program at least; a zone has one for each of its tiles.
            assert shown["braid_index_keys"] > shown["braid_index_programs"] > len(SUBSCRIPTIONS)
            assert "braid_index_candidates" in shown
            assert shown["braid_index_pool_bytes"] > 0
            assert shown["braid_subscriptions_refused"] == 0


async def metrics(http: httpx.AsyncClient) -> dict[str, float]:
    lines = (await http.get("/metrics")).text.splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


async def test_a_zone_that_is_moved_takes_what_is_delivered_with_it(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    async with in_process_cluster(zookeeper.hosts, tmp_path) as cluster, client_of(cluster) as http:
        async with socket(cluster.api, subscriber="reader") as connection:
            reader = Reader(http, connection)
            await reader.subscribe()
            path = f"/v1/subscriptions/{reader.ids['zone']}"
            here, there = {"zone": NEAR_MADRID}, {"zone": NEAR_BARCELONA}
            assert await reader.names_for(here, there) == [["zone"], []]
            assert (await http.patch(path, json={"zone": BARCELONA})).status_code == 200
            assert await reader.names_for(here, there) == [[], ["zone"]]

            # What is stored is the whole subscription: a matcher that starts again knows where it was moved to.
            await cluster.stop("matcher-1")
            cluster.start("matcher-1")
            await cluster.until_ready()
            assert await reader.names_for(here, there, ALL_PARTS) == [[], ["zone"], ["all parts"]]

            assert (await http.patch(path, json={"zone": None})).status_code == 200
            assert await reader.names_for(here, {}) == [["zone"], ["zone"]]


async def test_a_question_why_reaches_the_matchers_and_publishes_nothing(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    async with in_process_cluster(zookeeper.hosts, tmp_path) as cluster, client_of(cluster) as http:
        async with socket(cluster.api, subscriber="reader") as connection:
            reader = Reader(http, connection)
            await reader.subscribe()
            asked = {"publication": {**ALL_PARTS, "text": "It snows."}, "subscription": reader.ids["all parts"]}
            answer = (await http.post("/v1/explain", json=asked)).json()
            assert (answer["matches"], answer["count"]) == ([reader.ids["zone"]], 1)
            assert answer["explanation"]["failed"] == ["words"]
            assert await reader.names_for({}) == [[]]
