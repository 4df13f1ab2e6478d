"""A receiver of webhooks in the test's own event loop: a real HTTP server whose moods are set by path."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
from standardwebhooks.webhooks import Webhook as Verifier
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from braid.http_server import HttpServer

Mood = Callable[[int], Any]  # of the number of the request, from 1: a status, a response, or "hang"


class Posted(NamedTuple):
    at_s: float
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def publications(self) -> list[str]:
        return [notification["publication"]["id"] for notification in msgspec.json.decode(self.body)["notifications"]]


class Receiver:
    """Hangs, fails or answers 204, as the mood of the path says."""

    def __init__(self) -> None:
        self.port = 0
        self.moods: dict[str, Mood] = {}
        self.posted: dict[str, list[Posted]] = defaultdict(list)
        self._is_over = asyncio.Event()

    def url(self, path: str = "/", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def publications(self, path: str = "/") -> list[str]:
        return [id for posted in self.posted[path] for id in posted.publications]

    def verify(self, secret: str, path: str = "/") -> None:
        for posted in self.posted[path]:
            Verifier(secret).verify(posted.body, posted.headers)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        posted = self.posted[request.url.path]
        posted.append(Posted(time.monotonic(), dict(request.headers), await request.body()))
        mood: Mood = self.moods.get(request.url.path, lambda _number: 204)
        answer = mood(len(posted))
        if answer == "hang":
            await self._is_over.wait()
            answer = 503
        response: Response = Response(status_code=answer) if isinstance(answer, int) else answer
        await response(scope, receive, send)

    def endless(self) -> StreamingResponse:
        """A head that says 200, and a body that never ends."""

        async def drip() -> AsyncIterator[bytes]:
            while not self._is_over.is_set():
                yield b"."
                await asyncio.sleep(0.05)

        return StreamingResponse(drip(), 200)

    def let_go(self) -> None:
        self._is_over.set()


@asynccontextmanager
async def receiving(host: str = "127.0.0.1", **options: Any) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = HttpServer(receiver, host, 0, **options)
    receiver.port = await server.start()
    try:
        yield receiver
    finally:
        receiver.let_go()
        await server.stop()
