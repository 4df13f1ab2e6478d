"""Keeps one WebSocket open: connects, reads, writes, and connects again."""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import urlsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from braid.client.backoff import Backoff, Verdict, verdict_on
from braid.client.conversation import Conversation
from braid.client.errors import BraidError, ConnectionLost, Replaced
from braid.client.frames import Frame, Gap, decode_frame, encode_ping
from braid.client.options import Options, is_loopback, socket_url
from braid.client.rest import problem_of
from braid.client.states import OnState, State

_OPEN_S = 10.0
_CLOSE_S = 1.0  # how long a goodbye may take
_QUEUED_FRAMES = 4  # received and not yet looked at; beyond it TCP holds the server back
_PING_REF = 0
_ABNORMAL = 1006
_RETRIED_STATUSES = frozenset({408, 425, 429})


class Loss(msgspec.Struct):
    """How a connection ended. `error` ends the client as well."""

    verdict: Verdict
    reason: str
    good: bool = False
    error: BraidError | None = None


class Connection:
    """Drives the conversation over one connection after another until it is closed or gives up."""

    def __init__(
        self,
        urls: Sequence[str],
        parameters: dict[str, str],
        headers: dict[str, str],
        options: Options,
        *,
        conversation: Conversation,
        alive_ids: Callable[[str], Awaitable[frozenset[str]]],
        on_state: OnState,
    ) -> None:
        self._parameters = parameters
        self._headers = headers
        self._options = options
        self._conversation = conversation
        self._session = conversation.session
        self._alive_ids = alive_ids
        self._on_state = on_state
        self._backoff = Backoff(
            urls, first_s=options.backoff_first_s, max_s=options.backoff_max_s, random=random.random
        )
        self._task: asyncio.Task[None] | None = None
        self._connections = 0
        self._heard_s: float | None = None  # when a message last came, over any connection

    @property
    def url(self) -> str:
        """The connection point in use, or the next to be tried."""
        return self._backoff.url

    def start(self) -> None:
        """Does nothing when it is already running."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._supervise(), name="braid-client")

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _supervise(self) -> None:
        try:
            error = await self._connect_again_and_again()
        except Exception as unexpected:
            # A mistake in this library must not leave callers waiting for ever.
            error = ConnectionLost(f"the client failed: {unexpected!r}")
            error.__cause__ = unexpected
        self._conversation.fail(error)
        self._on_state(State("closed", self.url, str(error)))

    async def _connect_again_and_again(self) -> BraidError:
        clock = asyncio.get_running_loop().time
        while True:
            loss = await self._one_connection(self.url)
            if loss.error is not None:
                return loss.error
            if loss.good:
                self._backoff.on_good()
            options = self._options
            timeout_s = options.reconnect_timeout_s if self._connections else options.connect_timeout_s
            pause_s = self._backoff.on_lost(clock(), loss.verdict, timeout_s)
            if pause_s is None:
                gave_up = f"gave up reconnecting after {timeout_s:g} s: " if self._connections else ""
                return ConnectionLost(f"{gave_up}{loss.reason}")
            self._on_state(State("reconnecting", self.url, loss.reason, self._backoff.attempt))
            await asyncio.sleep(pause_s)

    async def _one_connection(self, url: str) -> Loss:
        try:
            socket = await self._open(url)
        except InvalidStatus as refused:
            status = refused.response.status_code
            error = problem_of(bytes(refused.response.body or b""), status, f"{url}/v1/ws")
            fatal = 400 <= status < 500 and status not in _RETRIED_STATUSES
            return Loss("next", str(error), error=error if fatal else None)
        except (OSError, TimeoutError, WebSocketException) as error:
            return Loss("next", f"cannot connect to {url}: {error}")
        writer = asyncio.create_task(self._write(socket), name="braid-client-writer")
        try:
            return await self._serve(socket, url)
        finally:
            writer.cancel()
            self._conversation.outgoing = asyncio.Queue()  # the session says again what was not answered
            self._conversation.perform(self._session.on_disconnected())
            with contextlib.suppress(WebSocketException, OSError):
                await socket.close()

    async def _open(self, url: str) -> ClientConnection:
        parameters = dict(self._parameters)
        if self._session.last_event_id:
            parameters["last_event_id"] = self._session.last_event_id
        return await connect(
            socket_url(url, parameters),
            additional_headers=self._headers,
            compression=None,
            proxy=None if is_loopback(url) else True,
            open_timeout=min(_OPEN_S, self._options.call_timeout_s),
            close_timeout=_CLOSE_S,
            # A socket that is not read because a stream is full answers no pings; `_read` looks for silence itself.
            ping_interval=None,
            max_size=self._options.message_bytes_max,
            max_queue=_QUEUED_FRAMES,
        )

    async def _serve(self, socket: ClientConnection, url: str) -> Loss:
        alive: frozenset[str] = frozenset()
        if self._session.must_list:
            try:
                alive = await self._alive_ids(url)
            except BraidError as error:
                return Loss("next", f"cannot list the subscriptions: {error}")
        self._conversation.drop_reason = ""
        self._conversation.perform(self._session.on_connected(alive, time.time(), self._heard_s))
        self._on_state(State("connected", url, attempt=self._connections))
        self._connections += 1
        return await self._read(socket, url)

    async def _read(self, socket: ClientConnection, url: str) -> Loss:
        good = pinged = False
        heartbeat_s = self._options.heartbeat_s
        while True:
            await self._conversation.may_read.wait()
            try:
                async with asyncio.timeout(heartbeat_s):
                    message = await socket.recv(decode=False)
            except TimeoutError:
                if pinged:
                    return Loss("same", f"nothing was heard of {url} for {2 * heartbeat_s:g} s", good)
                pinged = True
                self._conversation.outgoing.put_nowait(encode_ping(_PING_REF))
                continue
            except ConnectionClosed as closed:
                return self._loss_of(closed, url, good)
            pinged = False
            self._heard_s = time.time()
            try:
                frame: Frame = decode_frame(message)
            except msgspec.DecodeError as error:
                text = f"{url} sent what this client does not understand ({error}); do the versions match?"
                return Loss("refused", text, error=ConnectionLost(text))
            self._conversation.perform(self._session.on_frame(frame))
            if self._conversation.drop_reason:
                return Loss("next", self._conversation.drop_reason, good)
            good = good or not isinstance(frame, Gap)

    async def _write(self, socket: ClientConnection) -> None:
        outgoing = self._conversation.outgoing
        # The reader notices the end of the connection, after it has read what had still arrived.
        with contextlib.suppress(ConnectionClosed):
            while True:
                await socket.send(await outgoing.get(), text=True)

    def _loss_of(self, closed: ConnectionClosed, url: str, good: bool) -> Loss:
        if closed.sent is not None and closed.sent.code == 1009 and not closed.rcvd_then_sent:
            text = f"{url} sent more than {self._options.message_bytes_max:,} bytes at once; raise message_bytes_max"
            return Loss("too-big", text, error=ConnectionLost(text))
        code = closed.rcvd.code if closed.rcvd is not None else _ABNORMAL
        said = (closed.rcvd.reason if closed.rcvd is not None else "") or "the connection broke"
        reason = f"{urlsplit(url).netloc}: {said} ({code})"
        verdict = verdict_on(code)
        loss = Loss(verdict, reason, good)
        if verdict == "too-big":
            self._conversation.perform(self._session.on_too_big())
        elif verdict == "replaced":
            loss.error = Replaced(f"another connection of the same subscriber took over: {reason}")
        elif verdict == "refused":
            loss.error = ConnectionLost(f"the server refused to go on: {reason}")
        return loss
