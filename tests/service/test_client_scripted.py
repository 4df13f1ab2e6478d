"""A connection point that plays a script, one part per connection. The tests of the client and the CLI use it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

PATIENCE_S = 20.0


class Peer:
    """The server's end of one connection."""

    def __init__(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        self.connection = connection
        self.parameters = dict(parse_qsl(urlsplit(connection.request.path).query))
        self.headers = connection.request.headers

    async def expect(self, op: str) -> dict[str, Any]:
        """The next frame, which must be of this operation."""
        async with asyncio.timeout(PATIENCE_S):
            frame: dict[str, Any] = json.loads(await self.connection.recv())
        assert frame["op"] == op, frame
        return frame

    async def send(self, **frame: Any) -> None:
        await self.connection.send(json.dumps(frame))

    async def notify(self, *publications: str | dict[str, Any], to: str | list[str], event: str = "") -> None:
        """Publications may be given by their id alone."""
        ids = [to] if isinstance(to, str) else to
        notifications = [
            {"subscriptions": ids, "publication": {"id": given} if isinstance(given, str) else given}
            for given in publications
        ]
        await self.send(op="notify", notifications=notifications, event=event)

    async def accept_subscription(self, id: str) -> dict[str, Any]:
        frame = await self.expect("subscribe")
        await self.send(op="subscribed", ref=frame["ref"], id=id)
        return frame

    async def accept_publications(self) -> list[dict[str, Any]]:
        frame = await self.expect("publish")
        publications: list[dict[str, Any]] = frame["publications"]
        await self.send(op="published", ref=frame["ref"], ids=[publication["id"] for publication in publications])
        return publications

    async def accept_unsubscription(self) -> str:
        frame = await self.expect("unsubscribe")
        await self.send(op="unsubscribed", ref=frame["ref"])
        return str(frame["id"])

    def drop(self) -> None:
        """As a network does: without goodbye."""
        self.connection.transport.abort()

    async def close(self, code: int, reason: str = "") -> None:
        await self.connection.close(code, reason)


Script = Callable[[Peer], Awaitable[None]]
Answer = tuple[int, Any]


async def obliging(peer: Peer) -> None:
    """Answers everything, and delivers every publication to every subscription of the connection."""
    subscriptions: list[str] = []
    try:
        async for message in peer.connection:
            frame = json.loads(message)
            match frame["op"]:
                case "subscribe":
                    subscriptions.append(f"s{len(subscriptions) + 1}")
                    await peer.send(op="subscribed", ref=frame["ref"], id=subscriptions[-1])
                case "unsubscribe":
                    subscriptions.remove(frame["id"])
                    await peer.send(op="unsubscribed", ref=frame["ref"])
                case "publish":
                    publications = frame["publications"]
                    await peer.send(op="published", ref=frame["ref"], ids=[given["id"] for given in publications])
                    if subscriptions:
                        await peer.notify(*publications, to=subscriptions)
    except ConnectionClosed:
        pass


class ScriptedServer:
    """Plays `scripts[n]` on the n-th connection; connections beyond the last are turned away."""

    def __init__(self, scripts: tuple[Script, ...]) -> None:
        self.url = ""
        self.scripts = list(scripts)
        self.alive: list[str] = []  # what GET /v1/subscriptions lists
        self.answers: dict[str, Answer] = {}  # path -> what other GETs are answered
        self.asked: list[str] = []  # paths of all requests that were no WebSocket
        self.peers: list[Peer] = []
        self.failures: list[BaseException] = []
        self._played: list[asyncio.Event] = [asyncio.Event() for _ in scripts]

    async def played(self, number: int) -> None:
        """Waits until a script has been played to its end."""
        async with asyncio.timeout(PATIENCE_S):
            await self._played[number].wait()

    async def on_connection(self, connection: ServerConnection) -> None:
        number = len(self.peers)
        peer = Peer(connection)
        self.peers.append(peer)
        try:
            await self.scripts[number](peer)
        except BaseException as error:
            self.failures.append(error)
            raise
        finally:
            self._played[number].set()
        await connection.wait_closed()

    def on_request(self, connection: ServerConnection, request: Request) -> Response | None:
        path = urlsplit(request.path).path
        if path == "/v1/ws":
            if len(self.peers) < len(self.scripts):
                return None
            return connection.respond(503, "no script is left")
        self.asked.append(path)
        listed = {"subscriptions": [{"id": id} for id in self.alive]}
        status, body = self.answers.get(path, (200, listed) if path == "/v1/subscriptions" else (404, {}))
        return connection.respond(status, json.dumps(body))


@asynccontextmanager
async def scripted(*scripts: Script) -> AsyncIterator[ScriptedServer]:
    server = ScriptedServer(scripts)
    async with serve(
        server.on_connection, "127.0.0.1", 0, process_request=server.on_request, compression=None, max_queue=1
    ) as listening:
        port = next(iter(listening.sockets)).getsockname()[1]
        server.url = f"http://127.0.0.1:{port}"
        yield server
    if server.failures:
        raise server.failures[0]


async def test_the_scripted_server_fails_the_test_when_its_script_does() -> None:
    async def wants_a_subscription(peer: Peer) -> None:
        await peer.expect("subscribe")

    async def play() -> None:
        async with (
            scripted(wants_a_subscription) as server,
            connect(f"ws{server.url[4:]}/v1/ws", proxy=None) as socket,
        ):
            await socket.send('{"op": "publish"}')
            await server.played(0)

    with pytest.raises(AssertionError, match="publish"):
        await play()
