"""uvicorn's protocols, with the bounds that a public port needs and uvicorn leaves out."""

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from braid import problems
from braid.problems import Problem
from services.connpoint.http.stream import ABORT

HEAD_S = 10.0  # from the first byte of a request, or of the connection, to the end of its headers
HEAD_BYTES_MAX = 64 * 1024
CLOSE_S = 5.0  # how long a client may take to answer a close frame


class BoundedHttpProtocol(HttpToolsProtocol):
    """Bounds the head of a request in size and time, and refuses what is not HTTP with a problem document."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_open = True
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(HEAD_S, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head_open and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                detail = f"the head of a request has at most {HEAD_BYTES_MAX} bytes"
                self._refuse(Problem(431, "head-too-large", "The head of the request is too large", detail))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[ABORT] = self.transport.abort  # type: ignore[literal-required]  # a key of our own
        self._head_open = True
        self._head_bytes = 0
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S, self._head_is_late)

    def on_headers_complete(self) -> None:
        self._head_open = False
        self._stop_head_timer()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(problems.malformed(msg))

    def _head_is_late(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, problem: Problem) -> None:
        body = problem.encode()
        head = (
            f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}\r\n"
            f"content-type: {problems.MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


class BoundedWebSocketProtocol(WebSocketsSansIOProtocol):
    """Lets go of clients that do not read, and is patient with clients that we do not read."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.close_timeout = CLOSE_S

    async def send(self, message: Any) -> None:
        if message["type"] == "websocket.close":
            # A close frame is small. Waiting for room would keep a client for ever that has stopped reading.
            self.writable.set()
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # by refusal; uvicorn would log that as an error of the application

    def keepalive_timeout(self) -> None:
        if self.read_paused:  # the pong may well be there: it is we who do not read, to slow a publisher down
            self.pong_timer = None
            self.pending_ping_payload = None
            self.schedule_ping()
        else:
            super().keepalive_timeout()
