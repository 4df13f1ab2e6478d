"""A copy of the data directory is a backup: whoever puts it back has the subscriptions and the past of that moment."""

import asyncio
import json
import shutil
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from benchmarks.local_cluster import LocalCluster, local_cluster
from tests.cluster.scaled_cluster import ScaledCluster, scaled, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SUBSCRIPTIONS = 40
PUBLICATIONS = 100


def call(cluster: LocalCluster, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(cluster.api[0] + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as response:
        return json.load(response)


def filters(cluster: LocalCluster) -> set[str]:
    found = call(cluster, "/v1/subscriptions?subscriber=dashboard&limit=1000")["subscriptions"]
    assert len({each["filter"] for each in found}) == len(found)
    return {each["filter"] for each in found}


def past(cluster: LocalCluster) -> list[int]:
    found = call(cluster, "/v1/publications?topic=readings&limit=1000")
    return sorted(each["publication"]["attributes"]["n"] for each in found["publications"])


def subscribe(cluster: LocalCluster, numbers: range) -> None:
    for number in numbers:
        call(cluster, "/v1/subscriptions", {"filter": f"n = {number}", "subscriber": "dashboard"})


def publish(cluster: LocalCluster, numbers: range) -> None:
    call(cluster, "/v1/publications", [{"topic": "readings", "attributes": {"n": number}} for number in numbers])


def received(cluster: LocalCluster, numbers: range, expected: set[int]) -> set[int]:
    """By the dashboard, of what is published now, until it has what is expected."""
    found: set[int] = set()
    with urllib.request.urlopen(f"{cluster.api[0]}/v1/stream?subscriber=dashboard", timeout=30) as stream:
        publish(cluster, numbers)
        for line in stream:
            if line.startswith(b"data:") and (data := json.loads(line[5:])).get("publication"):
                found.add(data["publication"]["attributes"]["n"])
            if found >= expected:
                break
    return found


async def test_a_copy_of_everything_is_put_back(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    before, after = range(SUBSCRIPTIONS), range(SUBSCRIPTIONS, 2 * SUBSCRIPTIONS)
    with local_cluster(data) as cluster, scaled(cluster) as running:
        assert (await running.scale(layer="matcher", to=2))["state"] == "done"
        await running.ready()
        await asyncio.to_thread(subscribe, cluster, before)
        await asyncio.to_thread(publish, cluster, range(PUBLICATIONS))
        await until(lambda: past(cluster) == list(range(PUBLICATIONS)))
    shutil.copytree(data, backup)
    with local_cluster(data) as cluster, scaled(cluster) as running:
        await asyncio.to_thread(subscribe, cluster, after)
        await asyncio.to_thread(publish, cluster, range(PUBLICATIONS, 2 * PUBLICATIONS))
        # The slices of the backup are others than those of today.
        assert (await running.scale(layers={"matcher": 1}, replace=["matcher-1"]))["state"] == "done"
        await running.ready()
        assert filters(cluster) == {f"n = {number}" for number in (*before, *after)}
    shutil.rmtree(data)
    shutil.copytree(backup, data)
    with local_cluster(data) as cluster, scaled(cluster) as running:
        assert running.configuration().matchers == ("matcher-1", "matcher-2")
        assert filters(cluster) == {f"n = {number}" for number in before}
        assert past(cluster) == list(range(PUBLICATIONS))
        assert await asyncio.to_thread(received, cluster, before, set(before)) == set(before)


async def test_the_directories_of_the_slices_are_enough(tmp_path: Path) -> None:
    """Without that of ZooKeeper: matchers know which configuration they belong to."""
    data, backup = tmp_path / "data", tmp_path / "backup"
    numbers = range(SUBSCRIPTIONS)
    with local_cluster(data) as cluster, scaled(cluster) as running:
        asked = {"layers": {"matcher": 2}, "replace": ["matcher-1"], "routing": "anchored"}
        assert (await running.scale(**asked))["state"] == "done"
        await running.ready()
        matchers = running.configuration().matchers
        await asyncio.to_thread(subscribe, cluster, numbers)
        await asyncio.to_thread(publish, cluster, range(PUBLICATIONS))
        await until(lambda: past(cluster) == list(range(PUBLICATIONS)))
    for directory in (*data.glob("connpoint-*"), *data.glob("matcher-*")):
        shutil.copytree(directory, backup / directory.name)
    shutil.rmtree(data)
    with local_cluster(backup) as cluster, scaled(cluster) as running:
        assert (running.configuration().matchers, running.configuration().routing) == (matchers, "anchored")
        assert filters(cluster) == {f"n = {number}" for number in numbers}
        assert past(cluster) == list(range(PUBLICATIONS))
        assert await asyncio.to_thread(received, cluster, numbers, set(numbers)) == set(numbers)


async def counts(running: ScaledCluster, total: int) -> dict[str, int]:
    """Of the subscriptions at each matcher, when their metrics have come to know all."""

    def counted() -> dict[str, int]:
        return {name: running.subscriptions_at(name) for name in ("matcher-1", "matcher-2")}

    await until(lambda: sum(counted().values()) == total)
    return counted()


async def test_one_matcher_is_put_back_beside_the_others(tmp_path: Path) -> None:
    """Its later subscriptions are gone, its earlier ones are back; those of the others are as they were."""
    data, backup = tmp_path / "data", tmp_path / "backup"
    before, after = range(SUBSCRIPTIONS), range(SUBSCRIPTIONS, 2 * SUBSCRIPTIONS)
    with local_cluster(data, "matcher=2") as cluster, scaled(cluster) as running:
        await asyncio.to_thread(subscribe, cluster, before)
        counted = await counts(running, SUBSCRIPTIONS)
        assert all(counted.values())
    shutil.copytree(data / "matcher-1", backup)
    with local_cluster(data) as cluster, scaled(cluster) as running:
        await asyncio.to_thread(subscribe, cluster, after)
        of_others = (await counts(running, 2 * SUBSCRIPTIONS))["matcher-2"]
        assert of_others > counted["matcher-2"]
    shutil.rmtree(data / "matcher-1")
    shutil.copytree(backup, data / "matcher-1")
    with local_cluster(data) as cluster, scaled(cluster) as running:
        expected = {"matcher-1": counted["matcher-1"], "matcher-2": of_others}
        assert await counts(running, sum(expected.values())) == expected
        found = filters(cluster)
        assert {f"n = {number}" for number in before} <= found
        assert len(found) == counted["matcher-1"] + of_others
        numbers = range(2 * SUBSCRIPTIONS)
        there = {int(each.removeprefix("n = ")) for each in found}
        assert await asyncio.to_thread(received, cluster, numbers, there) == there
