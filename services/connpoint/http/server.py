"""The port of a connection point: uvicorn inside the running event loop of the slice."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from braid import problems
from braid.config import Settings
from braid.problems import Problem
from services.connpoint.http.probes import PATHS as PROBES
from services.connpoint.http.problem_responses import problem_response
from services.connpoint.http.protocols import BoundedHttpProtocol, BoundedWebSocketProtocol

KEEP_ALIVE_S = 65  # longer than the idle time of the usual proxies, so that they and not we close
PING_S = 20.0
STOP_S = 3  # what is still open then is cut
FAREWELL_S = 0.1  # before that, connections that the door has just closed tell their clients why
LINGER_S = 10.0  # a closed connection whose peer does not read what is left is cut after one or two of these


class HttpServer:
    """Listens from `start` to `stop`."""

    def __init__(self, app: ASGIApp, settings: Settings, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._connections_max = settings.limits.connections_max
        self._app = app
        self._server = _EmbeddedServer(
            uvicorn.Config(
                self._admit,
                http=BoundedHttpProtocol,
                ws=BoundedWebSocketProtocol,
                ws_max_size=settings.limits.body_bytes_max,
                ws_per_message_deflate=False,
                ws_ping_interval=PING_S,
                ws_ping_timeout=PING_S,
                interface="asgi3",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,  # they would hide the port, by which a publisher is told from another
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=STOP_S,
            )
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> int:
        """The bound port. Raises `OSError` when it is taken."""
        listener = _listen(self._host, self._port)
        port: int = listener.getsockname()[1]
        serving = asyncio.create_task(self._server.serve([listener]))
        started = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait({serving, started}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            started.cancel()
            listener.close()
            await serving
        self._tasks = [serving, asyncio.create_task(self._cut_lingering())]
        return port

    async def stop(self) -> None:
        """Open requests get a little time; connections are cut after it."""
        if not self._tasks:
            return
        serving, cutting = self._tasks
        self._tasks = []
        cutting.cancel()
        await asyncio.sleep(FAREWELL_S)
        self._server.request_exit()
        await serving
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The limit on connections. uvicorn's own does not count WebSockets and answers in plain text."""
        open_now = len(self._server.server_state.connections)
        if open_now <= self._connections_max or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        refusal = problem_response(_too_many(self._connections_max), {"Connection": "close"})
        if scope["type"] == "websocket":
            await WebSocket(scope, receive, send).send_denial_response(refusal)
        else:
            await refusal(scope, receive, send)

    async def _cut_lingering(self) -> None:
        """Closing waits until everything is sent; a peer that reads nothing would be waited for for ever."""
        closing_before: set[object] = set()
        while True:
            await asyncio.sleep(LINGER_S)
            closing = {
                connection for connection in self._server.server_state.connections if connection.transport.is_closing()
            }
            for connection in closing & closing_before:
                connection.transport.abort()
            closing_before = set(closing)


class _EmbeddedServer(uvicorn.Server):
    """Leaves signals to the slice, says when it listens, and stops without being polled for it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._exit = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # tick 0 renews the Date header
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._exit.wait(), 1.0)

    def request_exit(self) -> None:
        self.should_exit = True
        self._exit.set()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches Nagle's algorithm off only where the protocol is named; with it every small answer takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except BaseException:
        listener.close()
        raise
    return listener


def _too_many(connections_max: int) -> Problem:
    problem = problems.unavailable(f"all {connections_max} connections are taken (limits.connections_max)")
    problem.members["limit"] = "limits.connections_max"
    return problem
