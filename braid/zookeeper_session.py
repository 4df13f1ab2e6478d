"""The one file that owns kazoo: a session with ZooKeeper, as coroutines and callbacks on the asyncio loop.

kazoo calls back on its own threads; such a callback does one thing: it posts to the loop.

Invariants: no kazoo call waits on the loop; no request is made while there is no connection (kazoo would queue it).
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import structlog
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    SessionExpiredError,
)

from braid.coordination_events import CoordinationUnavailable

__all__ = [
    "BadVersionError",
    "KazooException",
    "NoNodeError",
    "NodeExistsError",
    "NotEmptyError",
    "SessionState",
    "Watch",
    "ZooKeeperSession",
]

log = structlog.get_logger()
kazoo_log = logging.getLogger("braid.kazoo")
kazoo_log.setLevel(logging.ERROR)  # it warns at every attempt to connect; the events say what matters

STOP_S = 5.0
HANDSHAKE_S = 2.5
AT_ONCE = 32  # each request wakes kazoo through a socket pair, where hundreds of them would block the loop
CONNECTION_ERRORS = (ConnectionLoss, SessionExpiredError, OperationTimeoutError)

SessionState = Literal["begun", "restored", "suspended", "expired"]
Watch = Callable[[Any], None]  # called on a thread of kazoo


class ZooKeeperSession:
    """One connection at a time, one session after the other, until stopped."""

    def __init__(self, hosts: str, timeout_s: float, on_state: Callable[[SessionState], None]) -> None:
        self.hosts = hosts
        self.id: int | None = None
        self.is_connected = False
        self._timeout_s = timeout_s
        self._on_state = on_state
        self._kazoo: Any = None
        self._loop: asyncio.AbstractEventLoop
        self._first_connection = asyncio.Event()
        self._stopping = False

    async def start(self, start_timeout_s: float) -> None:
        """Raises `CoordinationUnavailable` when no ZooKeeper answers in time."""
        self._loop = asyncio.get_running_loop()
        try:
            self._kazoo = KazooClient(
                hosts=_repeat_hosts(self.hosts, self._timeout_s),
                timeout=self._timeout_s,
                logger=kazoo_log,
                connection_retry={"max_tries": -1, "delay": 0.1, "backoff": 1.5, "max_delay": 1.0},
            )
        except ValueError as error:
            raise CoordinationUnavailable(f"'{self.hosts}' is not host:port,… of a ZooKeeper: {error}") from None
        self._kazoo.add_listener(self._on_kazoo_state)
        await asyncio.to_thread(self._kazoo.start_async)
        try:
            async with asyncio.timeout(start_timeout_s):
                await self._first_connection.wait()
        except TimeoutError:
            await self.stop()
            raise CoordinationUnavailable(
                f"no ZooKeeper answered at {self.hosts} within {start_timeout_s:g} s; "
                "check that it runs, and its address in cluster.zookeeper (--zookeeper)"
            ) from None

    async def stop(self) -> None:
        """Ends the session. Takes a few seconds at most, also without ZooKeeper."""
        if self._stopping or self._kazoo is None:
            return
        self._stopping = True
        # kazoo waits for its thread, which may sit in a connection attempt; a daemon thread can be left behind.
        closed = asyncio.Event()
        threading.Thread(target=self._close, args=(closed,), daemon=True, name="coordination-stop").start()
        try:
            async with asyncio.timeout(STOP_S):
                await closed.wait()
        except TimeoutError:
            log.warning("zookeeper session left to time out", hosts=self.hosts, waited_s=STOP_S)

    async def get(self, path: str) -> tuple[bytes, Any]:
        """Payload and stat."""
        payload, stat = await self._ask(self._kazoo.get_async, path)
        return payload, stat

    async def get_all(self, paths: list[str]) -> list[bytes | None]:
        """The payloads, in order; None for what is not there."""
        found: list[bytes | None] = []
        for start in range(0, len(paths), AT_ONCE):
            found += await asyncio.gather(*map(self._get_or_none, paths[start : start + AT_ONCE]))
        return found

    async def exists(self, path: str, watch: Watch | None = None) -> bool:
        return await self._ask(self._kazoo.exists_async, path, watch) is not None

    async def version_of(self, path: str) -> int | None:
        """How often it was written over; None when it is not there."""
        stat = await self._ask(self._kazoo.exists_async, path)
        return None if stat is None else int(stat.version)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        names: list[str] = await self._ask(self._kazoo.get_children_async, path, watch)
        return names

    async def create(self, path: str, payload: bytes, *, ephemeral: bool = False, sequence: bool = False) -> None:
        await self._ask(self._kazoo.create_async, path, payload, ephemeral=ephemeral, sequence=sequence)

    async def set(self, path: str, payload: bytes) -> None:
        await self._ask(self._kazoo.set_async, path, payload)

    async def delete(self, path: str, version: int = -1) -> None:
        await self._ask(self._kazoo.delete_async, path, version)

    async def ensure(self, path: str) -> None:
        await self._ask(self._kazoo.ensure_path_async, path)

    def transaction(self) -> Any:
        return self._kazoo.transaction()

    async def commit(self, transaction: Any) -> list[Any]:
        """One result per operation, or the error of the one that made all of them fail."""
        results: list[Any] = await self._ask(transaction.commit_async)
        return results

    def post(self, callback: Callable[..., None], *arguments: Any) -> None:
        """From any thread: calls it on the loop."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(callback, *arguments)

    async def _get_or_none(self, path: str) -> bytes | None:
        try:
            return (await self.get(path))[0]
        except NoNodeError:
            return None

    async def _ask(self, request: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Makes one of kazoo's asynchronous requests and awaits its answer."""
        if not self.is_connected:
            raise CoordinationUnavailable(f"the connection to ZooKeeper at {self.hosts} is lost")
        answer: asyncio.Future[Any] = self._loop.create_future()

        def settle(result: Any) -> None:
            if answer.done():
                return  # nobody waits any more
            if result.exception is None:
                answer.set_result(result.value)
            else:
                answer.set_exception(result.exception)

        request(*arguments, **options).rawlink(partial(self.post, settle))
        try:
            # Not wait_for, which before Python 3.12 may swallow a cancellation.
            async with asyncio.timeout(self._timeout_s):
                return await answer
        except (TimeoutError, *CONNECTION_ERRORS) as error:
            raise CoordinationUnavailable(f"ZooKeeper at {self.hosts} did not answer: {error!r}") from None

    def _on_kazoo_state(self, state: str) -> None:
        identity = self._kazoo.client_id
        self.post(self._take_state, state, identity[0] if identity else None)

    def _take_state(self, state: str, id: int | None) -> None:
        if self._stopping:
            return
        self.is_connected = state == KazooState.CONNECTED
        if state == KazooState.CONNECTED:
            is_same, self.id = id == self.id, id
            self._first_connection.set()
            self._on_state("restored" if is_same else "begun")
        elif state == KazooState.SUSPENDED:
            self._on_state("suspended")
        else:
            self.id = None
            self._on_state("expired")

    def _close(self, closed: asyncio.Event) -> None:
        try:
            self._kazoo.stop()
            self._kazoo.close()
        except Exception as error:
            log.debug("zookeeper client did not stop cleanly", error=repr(error))
        self.post(closed.set)


def _repeat_hosts(hosts: str, session_timeout_s: float) -> str:
    """kazoo waits the session timeout, divided by the number of hosts, for the answer to its first message.

    A server that is just starting may accept a connection and never answer. Waiting long for it would cost the
    session, so the same hosts are named several times.
    """
    servers, slash, root = hosts.partition("/")
    times = max(1, min(16, round(session_timeout_s / HANDSHAKE_S / len(servers.split(",")))))
    return ",".join([servers] * times) + slash + root
