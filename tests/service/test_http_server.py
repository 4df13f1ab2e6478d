"""The port itself: starting, stopping, the limit on connections, and peers that do not let go."""

import asyncio
import json
import signal
import time

import httpx
import pytest
import uvloop
from websockets.exceptions import InvalidStatus

from braid.config import Limits, Settings
from services.connpoint.http import protocols, server
from services.connpoint.http.app import create_app
from services.connpoint.http.server import HttpServer
from tests.service.fake_door import FakeDoor, closing_of, problem_of, serving, stuck
from tests.service.waiting import until


async def test_a_taken_port_is_an_error_and_a_stopped_one_is_free() -> None:
    door = FakeDoor()
    first = HttpServer(create_app(door), door.settings, "127.0.0.1", 0)
    port = await first.start()
    second = HttpServer(create_app(door), door.settings, "127.0.0.1", port)
    with pytest.raises(OSError, match="in use"):
        await second.start()
    await second.stop()
    await first.stop()
    await first.stop()
    third = HttpServer(create_app(door), door.settings, "127.0.0.1", port)
    assert await third.start() == port
    await third.stop()


async def test_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    async with serving():
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


async def test_connections_are_bounded() -> None:
    async with serving(Settings(limits=Limits(connections_max=2))) as served:
        assert (await served.client.get("/v1/cluster")).status_code == 200
        async with served.connect():
            async with httpx.AsyncClient(base_url=str(served.client.base_url), trust_env=False) as third:
                refused = await third.get("/v1/cluster")
                problem = problem_of(refused, 503)
                assert problem["limit"] == "limits.connections_max"
                assert refused.headers["connection"] == "close"
                assert (await third.get("/healthz")).status_code == 200
            with pytest.raises(InvalidStatus) as refused_socket:
                await served.connect()
            assert refused_socket.value.response.status_code == 503
        await until(lambda: len(served.server._server.server_state.connections) < 2)
        async with served.connect():
            pass
        assert (await served.client.get("/v1/cluster")).status_code == 200


async def test_stopping_ends_every_connection_soon() -> None:
    async with serving() as served:
        anonymous = await served.connect()
        named = await served.connect("?subscriber=a")
        started = time.monotonic()
    assert time.monotonic() - started < 3
    assert (await closing_of(named))[0] == 1001
    assert (await closing_of(anonymous))[0] == 1012


async def test_a_closed_connection_that_nobody_reads_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LINGER_S", 0.2)
    monkeypatch.setattr(protocols, "CLOSE_S", 0.2)
    async with serving() as served, served.connect("?subscriber=stuck", max_queue=1) as ws:
        attachment = served.door.attachments["stuck"]
        await stuck(attachment)
        attachment.close("slow", "it does not read")
        await until(lambda: attachment.detached)
        await asyncio.sleep(1.5)
        assert await closing_of(ws) == (None, "")


async def test_a_publisher_that_waits_is_not_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """While we do not read, its pongs cannot arrive."""
    monkeypatch.setattr(server, "PING_S", 0.1)
    async with serving() as served, served.connect() as ws:
        served.door.publishing.clear()
        for ref in range(20):
            await ws.send(json.dumps({"op": "publish", "ref": ref, "publications": [{}]}))
        await asyncio.sleep(0.7)
        served.door.publishing.set()
        assert [json.loads(await ws.recv())["ref"] for _ in range(20)] == list(range(20))


def test_on_uvloop() -> None:
    """Slices run on uvloop; the tests around this one run on asyncio's own loop."""

    async def main() -> None:
        async with serving() as served:
            assert (await served.client.post("/v1/publications", json={"id": "a"})).json() == {"ids": ["a"]}
            async with served.connect("?subscriber=a", max_queue=1) as ws:
                await ws.send(json.dumps({"op": "publish", "ref": 1, "publications": [{"id": "b"}]}))
                assert json.loads(await ws.recv())["ids"] == ["b"]
                attachment = served.door.attachments["a"]
                await stuck(attachment)
                attachment.close("slow", "it does not read")
                await until(lambda: attachment.detached)
                assert (await closing_of(ws))[0] == 4408

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
