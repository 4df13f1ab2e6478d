"""The four layers together: sessions that expire, backpressure, slow subscribers, foreign links, traces."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from websockets.exceptions import ConnectionClosed

from braid.scaling import Ask
from braid.topology import Change, Configuration, Target
from services.accesspoint.scaling import State
from services.accesspoint.shell import AccessPoint
from services.connpoint.subscribing import Subscribing
from tests.cluster.clients import socket
from tests.service.in_process import READY_S, client_of, in_process_cluster
from tests.service.waiting import until
from tests.service.zookeeper_fixture import ZooKeeperServer, expire_session

pytestmark = pytest.mark.slow  # real slices that lose one another


async def _ask(connection: Any, **frame: Any) -> dict[str, Any]:
    await connection.send(json.dumps(frame))
    answer: dict[str, Any] = json.loads(await connection.recv())
    return answer


async def _read_on(connection: Any) -> None:
    while True:
        await connection.recv()


async def _dropped(http: httpx.AsyncClient) -> float:
    lines = (await http.get("/metrics")).text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("braid_notifications_dropped_total{"))


@pytest.mark.slow
async def test_a_lost_session_ends_the_streams_and_the_resumed_one_is_told_of_the_gap(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    async with in_process_cluster(zookeeper.hosts, tmp_path) as cluster, client_of(cluster) as http:
        async with socket(cluster.api, subscriber="dashboard") as connection:
            assert (await _ask(connection, op="subscribe", ref=1, subscription={"filter": "value > 40"}))[
                "op"
            ] == "subscribed"
            await http.post("/v1/publications", json={"attributes": {"value": 41}})
            event = json.loads(await connection.recv())["event"]
            await asyncio.to_thread(expire_session, cluster.connpoint.coordination)
            with pytest.raises(ConnectionClosed) as closed:
                await connection.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1013
        await cluster.until_ready()
        async with socket(cluster.api, subscriber="dashboard", last_event_id=event) as connection:
            assert json.loads(await connection.recv())["op"] == "gap"
            await http.post("/v1/publications", json={"id": "later", "attributes": {"value": 42}})
            frame = json.loads(await connection.recv())
            assert [n["publication"]["id"] for n in frame["notifications"]] == ["later"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["accesspoint-1", "matcher-1", "exitpoint-1"])
async def test_a_slice_that_lost_its_session_answers_again_when_it_is_registered(
    zookeeper: ZooKeeperServer, tmp_path: Path, name: str
) -> None:
    async with in_process_cluster(zookeeper.hosts, tmp_path) as cluster, client_of(cluster) as http:
        async with socket(cluster.api, subscriber="dashboard") as connection:
            await _ask(connection, op="subscribe", ref=1, subscription={"filter": "value > 40"})
            await asyncio.to_thread(expire_session, cluster.slices[name].coordination)
            for number in range(20):
                answer = await http.post("/v1/publications", json={"id": f"p{number}", "attributes": {"value": 41}})
                assert answer.status_code == 202
            received: list[str] = []
            async with asyncio.timeout(20):
                while len(received) < 20:
                    frame = json.loads(await connection.recv())
                    received += [n["publication"]["id"] for n in frame["notifications"]]
            assert sorted(received) == sorted({f"p{number}" for number in range(20)})


@pytest.mark.slow
async def test_a_full_window_refuses_over_http_and_slows_a_websocket(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    ingress = {"window_publications_max": 10, "retry_s": 0.3, "retry_s_max": 0.5}
    async with in_process_cluster(zookeeper.hosts, tmp_path, ingress=ingress) as cluster, client_of(cluster) as http:
        async with socket(cluster.api, subscriber="dashboard") as receiver, socket(cluster.api) as publisher:
            await _ask(receiver, op="subscribe", ref=1, subscription={"filter": "value > 40"})
            await cluster.stop("matcher-1")
            for number in range(10):
                answer = await http.post("/v1/publications", json={"id": f"h{number}", "attributes": {"value": 41}})
                assert answer.status_code == 202
            refused = await http.post("/v1/publications", json={"attributes": {"value": 41}})
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.headers["content-type"] == "application/problem+json"
            publications = [{"id": "w0", "attributes": {"value": 41}}]
            await publisher.send(json.dumps({"op": "publish", "ref": 1, "publications": publications}))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await publisher.recv()
            cluster.start("matcher-1")
            async with asyncio.timeout(20):
                assert json.loads(await publisher.recv())["op"] == "published"
                received: list[str] = []
                while len(received) < 11:
                    frame = json.loads(await receiver.recv())
                    received += [n["publication"]["id"] for n in frame["notifications"]]
            assert sorted(received) == sorted([*(f"h{number}" for number in range(10)), "w0"])


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["disconnect", "drop-oldest"])
async def test_a_subscriber_that_does_not_read_is_bounded(
    zookeeper: ZooKeeperServer, tmp_path: Path, policy: str
) -> None:
    delivery = {"slow_subscriber": policy, "outbox_notifications_max": 50, "frame_notifications_max": 10}
    async with in_process_cluster(zookeeper.hosts, tmp_path, delivery=delivery) as cluster, client_of(cluster) as http:
        async with (
            socket(cluster.api, subscriber="sleeper") as sleeper,
            socket(cluster.api, subscriber="reader") as reader,
        ):
            for connection in (sleeper, reader):
                await _ask(connection, op="subscribe", ref=1, subscription={"filter": "value > 40"})
            sleeper.transport.pause_reading()
            heavy = "x" * 10_000
            dropped_before = await _dropped(http)
            sent = 0
            async with asyncio.timeout(30):
                while await _dropped(http) == dropped_before:
                    batch = [{"id": f"p{sent + n}", "attributes": {"value": 41}, "text": heavy} for n in range(40)]
                    assert (await http.post("/v1/publications", json=batch)).status_code == 202
                    sent += 40
                    # The one that reads is not delayed by the one that does not.
                    received = 0
                    while received < 40:
                        received += len(json.loads(await reader.recv())["notifications"])
                sleeper.transport.resume_reading()
                if policy == "disconnect":
                    with pytest.raises(ConnectionClosed) as closed:
                        await _read_on(sleeper)
                    assert closed.value.rcvd is not None
                    assert closed.value.rcvd.code == 4408
                else:
                    while json.loads(await sleeper.recv())["op"] != "gap":
                        pass


async def test_a_foreign_peer_on_a_link_port_touches_nothing_else(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    async with in_process_cluster(zookeeper.hosts, tmp_path) as cluster, client_of(cluster) as http:
        async with socket(cluster.api, subscriber="dashboard") as connection:
            await _ask(connection, op="subscribe", ref=1, subscription={"filter": "value > 40"})
            for entry in cluster.connpoint.slices():
                host, _, port = entry.address.rpartition(":")
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                async with asyncio.timeout(5):
                    assert b"braid" in await reader.read()  # its own handshake, then the end
                writer.close()
            await http.post("/v1/publications", json={"id": "after", "attributes": {"value": 41}})
            frame = json.loads(await connection.recv())
            assert frame["notifications"][0]["publication"]["id"] == "after"


async def test_a_trace_names_every_hop_in_order(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    async with in_process_cluster(zookeeper.hosts, tmp_path) as cluster, client_of(cluster) as http:
        async with socket(cluster.api, subscriber="dashboard") as connection:
            await _ask(connection, op="subscribe", ref=1, subscription={"filter": "value > 40"})
            answer = await http.post("/v1/publications?trace=true", json={"id": "traced", "attributes": {"value": 41}})
            assert answer.status_code == 202
            await connection.recv()
            async with asyncio.timeout(10):
                while not (trace := (await http.get("/v1/publications/traced/trace")).json())["complete"]:
                    await asyncio.sleep(0.02)
        hops = trace["hops"]
        assert [hop["slice"] for hop in hops] == [
            "connpoint-1",
            "accesspoint-1",
            "matcher-1",
            "exitpoint-1",
            "connpoint-1",
        ]
        times = [time for hop in hops for time in (hop["arrived_ns"], hop["left_ns"])]
        assert times == sorted(times)


async def test_a_batch_whose_matches_fill_many_frames_arrives_whole(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    links = {"frame_bytes_max": 64 * 1024}
    async with in_process_cluster(zookeeper.hosts, tmp_path, links=links) as cluster, client_of(cluster) as http:
        async with socket(cluster.api, subscriber="everything") as connection:
            for number in range(100):
                await _ask(connection, op="subscribe", ref=number, subscription={})
            batch = [{"id": f"p{number}", "text": "x" * 1000} for number in range(200)]
            assert (await http.post("/v1/publications", json=batch)).status_code == 202
            received: list[str] = []
            async with asyncio.timeout(20):
                while len(received) < 200:
                    frame = json.loads(await connection.recv())
                    assert all(len(n["subscriptions"]) == 100 for n in frame["notifications"])
                    received += [n["publication"]["id"] for n in frame["notifications"]]
            assert received == [f"p{number}" for number in range(200)]


@pytest.mark.slow
async def test_a_subscription_whose_window_is_over_is_forgotten_everywhere(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    async with in_process_cluster(zookeeper.hosts, tmp_path) as cluster, client_of(cluster) as http:
        answer = await http.post("/v1/subscriptions", json={"until": "+1s", "subscriber": "brief"})
        assert answer.status_code == 201
        routed = cluster.connpoint._delivery.subscribers
        assert answer.json()["id"] in routed
        async with asyncio.timeout(20):
            while answer.json()["id"] in routed:
                await asyncio.sleep(0.05)
        assert (await http.get(f"/v1/subscriptions/{answer.json()['id']}")).status_code == 404


async def test_a_mistake_while_subscriptions_are_restored_does_not_leave_the_slice_unready(
    zookeeper: ZooKeeperServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore, failed = Subscribing.restore, 0

    async def failing_once(subscribing: Subscribing) -> int:
        nonlocal failed
        if not failed:
            failed += 1
            raise KeyError("a mistake")
        return await restore(subscribing)

    monkeypatch.setattr(Subscribing, "restore", failing_once)
    async with in_process_cluster(zookeeper.hosts, tmp_path) as cluster, client_of(cluster) as http:
        assert failed == 1
        assert (await http.post("/v1/publications", json={"attributes": {"value": 41}})).status_code == 202


async def test_publishing_and_connecting_go_on_while_an_exit_point_is_away(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    async with in_process_cluster(zookeeper.hosts, tmp_path) as cluster, client_of(cluster) as http:
        async with socket(cluster.api, subscriber="before") as before:
            await _ask(before, op="subscribe", ref=1, subscription={})
            await cluster.stop("exitpoint-1")
            assert (await http.get("/readyz")).status_code == 503
            async with socket(cluster.api, subscriber="meanwhile") as meanwhile:
                assert (await _ask(meanwhile, op="subscribe", ref=1, subscription={}))["op"] == "subscribed"
                assert (await http.post("/v1/publications", json={"id": "kept"})).status_code == 202
                cluster.start("exitpoint-1")
                async with asyncio.timeout(20):
                    for connection in (before, meanwhile):
                        frame = json.loads(await connection.recv())
                        assert [n["publication"]["id"] for n in frame["notifications"]] == ["kept"]


async def test_a_scaling_asked_of_a_connection_point_stands_in_zookeeper(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    async with in_process_cluster(zookeeper.hosts, tmp_path) as cluster, client_of(cluster) as http:
        id = (await http.post("/v1/cluster/scale", json={"layer": "matcher", "to": 2})).json()["id"]
        record = await cluster.connpoint.coordination.read_scaling(id)
        assert record is not None
        assert (record.id, record.asked, record.state) == (id, Ask({"matcher": 2}), "running")
        found = (await http.get(f"/v1/cluster/scalings/{id}")).json()
        assert (found["state"], found["phase"], found["progress"]) == ("running", "asked", {})
        assert [each["id"] for each in (await http.get("/v1/cluster/scalings")).json()["scalings"]] == [id]
        other = await http.post("/v1/cluster/scale", json={"replace": ["matcher-1"]})
        assert (other.status_code, other.json()["scaling"]) == (409, id)
        for unknown in ("other", "a..b", "a%00", "a" * 300):
            assert (await http.get(f"/v1/cluster/scalings/{unknown}")).status_code == 404


async def test_an_access_point_that_leaves_is_told_that_nothing_more_comes(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    """By the connection point whose link it has, and not by the end of its patience."""
    both = Configuration(2, ("accesspoint-1", "accesspoint-2"), ("matcher-1",), ("exitpoint-1",))
    target = Target(3, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",))
    async with in_process_cluster(zookeeper.hosts, tmp_path) as cluster:
        cluster.start("accesspoint-2")
        leaving = cluster.slices["accesspoint-2"]
        assert isinstance(leaving, AccessPoint)
        await until(lambda: "accesspoint-2" in [slice.name for slice in cluster.connpoint.slices()], READY_S)
        version = await cluster.reconfigure(both)
        await until(lambda: cluster.connpoint.links.is_linked("accesspoint-2"), READY_S)
        await until(lambda: not leaving.not_ready(), READY_S)
        scaling = leaving._core.scaling
        assert scaling._connpoints == {"connpoint-1": 0}
        await cluster.reconfigure(replace(both, change=Change("scaling-1", "ending", target, {})), version)
        await until(lambda: scaling.state is State.LEFT, READY_S)
        assert (scaling._connpoints, scaling.left_early) == ({"connpoint-1": 3}, 0)
