"""Connections to receivers that are kept open: used again, bounded, and let go when the receiver closes them."""

import asyncio
from collections.abc import AsyncIterator

import httpcore
import pytest

from services.connpoint.webhooks import connections as module
from services.connpoint.webhooks.connections import Connections
from services.connpoint.webhooks.posting import _trust
from tests.service.waiting import TIMEOUT_S


class Listener:
    """Answers each request with 204; knows over which connections they came."""

    def __init__(self) -> None:
        self.port = 0
        self.came: list[int] = []  # for each request, the number of its connection
        self.open = 0
        self.closes = False  # behind each answer
        self._accepted = 0
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, self._accepted = self._accepted, self._accepted + 1
        self._writers.append(writer)
        self.open += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.came.append(number)
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
                if self.closes:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            self.open -= 1
            writer.close()

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()


@pytest.fixture
async def listeners() -> AsyncIterator[list[Listener]]:
    made = [Listener() for _ in range(3)]
    servers = [await asyncio.start_server(one.serve, "127.0.0.1", 0) for one in made]
    for one, server in zip(made, servers, strict=True):
        one.port = server.sockets[0].getsockname()[1]
    yield made
    for server in servers:
        server.close()


@pytest.fixture
async def kept() -> AsyncIterator[Connections]:
    connections = Connections(_trust(), httpcore.AnyIOBackend())
    yield connections
    await connections.close()


async def get(connections: Connections, url: str) -> int:
    async with connections.lent(url) as connection:
        answer = await connection.request("GET", url)
    return answer.status


async def until_open(listener: Listener, count: int) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while listener.open != count:
            await asyncio.sleep(0.005)


async def test_the_next_request_to_the_same_place_uses_the_same_connection(
    kept: Connections, listeners: list[Listener]
) -> None:
    first, second, _ = listeners
    for listener in (first, second, first):
        assert await get(kept, listener.url) == 204
    assert (first.came, second.came) == ([0, 0], [0])


async def test_requests_at_once_have_connections_of_their_own(kept: Connections, listeners: list[Listener]) -> None:
    first = listeners[0]
    async with kept.lent(first.url) as one, kept.lent(first.url) as other:
        assert one is not other
        assert (await one.request("GET", first.url)).status == 204
        assert (await other.request("GET", first.url)).status == 204
    assert first.came == [0, 1]
    await get(kept, first.url)
    assert len(first.came) == 3
    assert first.open == 2


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_connection_that_the_receiver_closed_is_not_used(
    kept: Connections, listeners: list[Listener], at_once: bool
) -> None:
    first = listeners[0]
    first.closes = at_once
    await get(kept, first.url)
    first.hang_up()
    await until_open(first, 0)
    assert await get(kept, first.url) == 204
    assert first.came == [0, 1]


async def test_the_one_that_was_used_least_recently_is_closed(
    kept: Connections, listeners: list[Listener], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_OPEN_MAX", 2)
    first, second, third = listeners
    for listener in (first, second, first, third):
        await get(kept, listener.url)
    await until_open(second, 0)
    assert (first.open, third.open) == (1, 1)


async def test_what_is_kept_too_long_is_closed_by_whoever_comes_next(
    kept: Connections, listeners: list[Listener], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = listeners
    monkeypatch.setattr(module, "KEPT_OPEN_S", 0.0)
    await get(kept, first.url)
    monkeypatch.setattr(module, "KEPT_OPEN_S", 30.0)
    await asyncio.sleep(0.01)
    await get(kept, second.url)
    await until_open(first, 0)
    assert second.open == 1


async def test_a_request_that_is_given_up_leaves_no_connection_behind(
    kept: Connections, listeners: list[Listener]
) -> None:
    first = listeners[0]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05), kept.lent(first.url) as connection:
            await connection.request("POST", first.url, headers=[("content-length", "10")], content=_never())
    await until_open(first, 0)
    assert await get(kept, first.url) == 204


async def test_nothing_is_open_when_it_is_closed(kept: Connections, listeners: list[Listener]) -> None:
    for listener in listeners:
        await get(kept, listener.url)
    await kept.close()
    for listener in listeners:
        await until_open(listener, 0)


async def _never() -> AsyncIterator[bytes]:
    yield b"12345"
    await asyncio.sleep(3600)
