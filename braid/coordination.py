"""The one file that owns kazoo: its callbacks become events on the asyncio loop.

kazoo calls back on its own threads. Such a callback does one thing: it notes on the loop that something may have
changed. One task then brings this process and ZooKeeper together again: it registers, stands for election, and
reads what changed, each read setting the next watch in the same request. A change that happens between two reads
fires the watch of the first; a lost connection fires all of them; a new session reads everything. So no change is
missed, and a burst of changes costs one more read and leaves one event, the newest.

Invariants: no kazoo call waits on the loop; no request is made while there is no connection (kazoo would queue it);
`on_event` is called on the loop, in order, never from within a call of `Coordination`.
"""

import asyncio
import contextlib
import logging
import os
import socket
import threading
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal

import msgspec
import structlog
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)

from braid import znodes
from braid.coordination_events import (
    ConfigurationChanged,
    CoordinationUnavailable,
    CorruptConfiguration,
    Deposed,
    Elected,
    Event,
    NameTaken,
    NotLeading,
    Registered,
    RegistrationRefused,
    SessionExpired,
    SessionRestored,
    SessionSuspended,
    SlicesChanged,
    StaleVersion,
)
from braid.topology import LAYERS, Configuration, Registration
from braid.znodes import NO_VERSION

__all__ = [
    "NO_VERSION",
    "ConfigurationChanged",
    "Coordination",
    "CoordinationUnavailable",
    "CorruptConfiguration",
    "Deposed",
    "Elected",
    "Event",
    "NameTaken",
    "NotLeading",
    "Registered",
    "RegistrationRefused",
    "SessionExpired",
    "SessionRestored",
    "SessionSuspended",
    "SlicesChanged",
    "StaleVersion",
]

log = structlog.get_logger()
kazoo_log = logging.getLogger("braid.kazoo")
kazoo_log.setLevel(logging.ERROR)  # it warns at every attempt to connect; the events say what matters

RETRY_S = 0.2  # pause after a request that failed although there is a connection
STOP_S = 5.0
HANDSHAKE_S = 2.5
READS_AT_ONCE = 32  # each request wakes kazoo through a socket pair, where hundreds of them would block the loop
CONNECTION_ERRORS = (ConnectionLoss, SessionExpiredError, OperationTimeoutError)

Area = Literal["slices", "configuration", "coordinators"]


class Coordination:
    """The session of one process of the cluster with ZooKeeper."""

    def __init__(
        self,
        hosts: str,
        cluster: str,
        session_timeout_s: float,
        on_event: Callable[[Event], None],
        *,
        start_timeout_s: float = 15.0,
    ) -> None:
        self.hosts = hosts
        self._paths = znodes.Paths(cluster)
        self._session_timeout_s = session_timeout_s
        self._start_timeout_s = start_timeout_s
        # A dead holder of our name is forgotten by ZooKeeper within its session timeout, give or take its ticks.
        self._name_wait_s = 1.5 * session_timeout_s + 2.0
        self._on_event = on_event
        self._watches: dict[Area, Callable[[Any], None]] = {
            "slices": partial(self._on_watch, "slices"),
            "configuration": partial(self._on_watch, "configuration"),
            "coordinators": partial(self._on_watch, "coordinators"),
        }
        self._kazoo: Any = None
        self._loop: asyncio.AbstractEventLoop
        self._reconciling: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._first_connection = asyncio.Event()
        self._stopping = False
        # The session.
        self._session: int | None = None
        self._connected = False
        self._prepared = False  # the directories are there
        self._dirty: set[Area] = set(self._watches)
        # What we want to stand in ZooKeeper.
        self._wanted: Registration | None = None
        self._registered = False
        self._outcome: asyncio.Future[None] | None = None  # of `register`, until it is known
        self._name_deadline: float | None = None
        self._standing = False
        # Part of our name in the election, so that a candidate whose creation was never confirmed is known as ours.
        self._candidacy = f"{uuid.uuid4().hex}-"
        self._candidate: str | None = None  # path of our znode in the election
        self._leading = False
        # What was told last; None: nothing yet.
        self._slices: dict[str, Registration] | None = None
        self._configuration: tuple[Configuration | None] | None = None

    async def start(self) -> None:
        """Connects. The first `SlicesChanged` and `ConfigurationChanged` follow, even when there is nothing.

        Raises `CoordinationUnavailable` when no ZooKeeper answers in time.
        """
        self._loop = asyncio.get_running_loop()
        try:
            self._kazoo = KazooClient(
                hosts=_repeat_hosts(self.hosts, self._session_timeout_s),
                timeout=self._session_timeout_s,
                logger=kazoo_log,
                connection_retry={"max_tries": -1, "delay": 0.1, "backoff": 1.5, "max_delay": 1.0},
            )
        except ValueError as error:
            raise CoordinationUnavailable(f"'{self.hosts}' is not host:port,… of a ZooKeeper: {error}") from None
        self._kazoo.add_listener(self._on_kazoo_state)
        await asyncio.to_thread(self._kazoo.start_async)
        try:
            async with asyncio.timeout(self._start_timeout_s):
                await self._first_connection.wait()
        except TimeoutError:
            await self.stop()
            raise CoordinationUnavailable(
                f"no ZooKeeper answered at {self.hosts} within {self._start_timeout_s:g} s; "
                "check that it runs, and its address in cluster.zookeeper (--zookeeper)"
            ) from None
        self._reconciling = self._loop.create_task(self._reconcile(), name="coordination")

    async def stop(self) -> None:
        """Closes the session, and with it our znodes. Takes a few seconds at most, also without ZooKeeper."""
        if self._stopping or self._kazoo is None:
            return
        self._stopping = True
        if self._reconciling is not None:
            self._reconciling.cancel()
            await asyncio.wait([self._reconciling])
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_exception(CoordinationUnavailable("stopped before the registration was confirmed"))
        # kazoo waits for its thread, which may sit in a connection attempt; a daemon thread can be left behind.
        closed = asyncio.Event()
        threading.Thread(target=self._close, args=(closed,), daemon=True, name="coordination-stop").start()
        try:
            async with asyncio.timeout(STOP_S):
                await closed.wait()
        except TimeoutError:
            log.warning("zookeeper session left to time out", hosts=self.hosts, waited_s=STOP_S)

    async def register(self, registration: Registration) -> None:
        """Announces this process, now and again after every expiry.

        Waits while ZooKeeper is away, and while a predecessor that was killed may still be listed.
        Raises `NameTaken` when another process keeps the name.
        """
        if self._wanted is not None:
            raise RuntimeError(f"this process is registered as {self._wanted.name} already")
        self._wanted = registration
        self._outcome = asyncio.get_running_loop().create_future()
        self._wake.set()
        await self._outcome

    async def lead(self) -> None:
        """Stands for election, now and again after every expiry; `Elected` and `Deposed` tell the result."""
        self._standing = True
        self._on_dirty("coordinators")

    async def read_configuration(self) -> tuple[Configuration | None, int]:
        """The stored configuration with its version; `(None, NO_VERSION)` when there is none."""
        try:
            payload, stat = await self._ask(self._kazoo.get_async, self._paths.configuration)
        except NoNodeError:
            return None, NO_VERSION
        try:
            return znodes.decode_configuration(payload), stat.version
        except msgspec.MsgspecError as error:
            raise CorruptConfiguration(f"{self._paths.configuration} at {self.hosts}: {error}") from None

    async def write_configuration(self, configuration: Configuration, expected_version: int) -> int:
        """Replaces exactly the version that was read (`NO_VERSION`: there is none yet); returns the new version.

        A candidate's write also checks, in the same transaction, that its own znode is still there: a leader that
        was deposed without knowing it changes nothing. Raises `StaleVersion`, `NotLeading`.
        """
        if self._standing and not self._leading:
            raise NotLeading("another coordinator leads, or the connection is lost")
        payload = znodes.encode(configuration)
        await self._prepare()
        transaction = self._kazoo.transaction()
        transaction.check(self._candidate or self._paths.coordinators, -1)
        if expected_version == NO_VERSION:
            transaction.create(self._paths.configuration, payload)
        else:
            transaction.set_data(self._paths.configuration, payload, expected_version)
        checked, written = await self._ask(transaction.commit_async)
        if isinstance(checked, NoNodeError):
            raise NotLeading("the session under which this process was elected is over")
        if isinstance(written, (BadVersionError, NodeExistsError, NoNodeError)):
            raise StaleVersion(f"the configuration is no longer at version {expected_version}: {written!r}")
        if isinstance(written, KazooException):
            raise CoordinationUnavailable(f"ZooKeeper refused the configuration: {written!r}")
        return 0 if expected_version == NO_VERSION else int(written.version)

    # Called by kazoo's threads: these only note on the loop that there is something to do.

    def _on_kazoo_state(self, state: str) -> None:
        identity = self._kazoo.client_id
        self._post(self._on_state, state, identity[0] if identity else None)

    def _on_watch(self, area: Area, _event: Any) -> None:
        self._post(self._on_dirty, area)

    def _post(self, callback: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _close(self, closed: asyncio.Event) -> None:
        try:
            self._kazoo.stop()
            self._kazoo.close()
        except Exception as error:
            log.debug("zookeeper client did not stop cleanly", error=repr(error))
        self._post(closed.set)

    # On the loop from here on.

    def _on_dirty(self, area: Area) -> None:
        self._dirty.add(area)
        self._wake.set()

    def _on_state(self, state: str, session: int | None) -> None:
        if self._stopping:
            return
        self._connected = state == KazooState.CONNECTED
        if state == KazooState.CONNECTED:
            if session == self._session:
                self._emit(SessionRestored())
            self._session = session
            self._dirty.update(self._watches)
            self._first_connection.set()
            self._wake.set()
            return
        self._depose()
        if state == KazooState.SUSPENDED:
            self._emit(SessionSuspended())
        else:
            self._session = self._candidate = self._name_deadline = None
            self._registered = self._prepared = False
            self._emit(SessionExpired())

    def _emit(self, event: Event) -> None:
        # Not called from here: an error in the listener must not stop the reconciliation.
        self._loop.call_soon(self._on_event, event)

    async def _ask(self, request: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Makes one of kazoo's asynchronous requests and awaits its answer."""
        if not self._connected:
            raise CoordinationUnavailable(f"the connection to ZooKeeper at {self.hosts} is lost")
        answer: asyncio.Future[Any] = self._loop.create_future()

        def settle(result: Any) -> None:
            if answer.done():
                return  # nobody waits any more
            if result.exception is None:
                answer.set_result(result.value)
            else:
                answer.set_exception(result.exception)

        request(*arguments, **options).rawlink(partial(self._post, settle))
        try:
            # Not wait_for, which before Python 3.12 may swallow a cancellation.
            async with asyncio.timeout(self._session_timeout_s):
                return await answer
        except (TimeoutError, *CONNECTION_ERRORS) as error:
            raise CoordinationUnavailable(f"ZooKeeper at {self.hosts} did not answer: {error!r}") from None

    async def _reconcile(self) -> None:
        """Until stopped: whenever something may have changed, makes our znodes and what we know right again."""
        readers: dict[Area, Callable[[], Awaitable[None]]] = {
            "slices": self._read_slices,
            "configuration": self._watch_configuration,
            "coordinators": self._settle_election,
        }
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not self._connected:
                continue  # the connection will wake us
            try:
                await self._prepare()
                if self._wanted is not None and not self._registered:
                    await self._settle_registration(self._wanted)
                for area, read in readers.items():
                    if area in self._dirty:
                        self._dirty.discard(area)  # before the read, whose watch may fire before its answer is here
                        await read()
            except (CoordinationUnavailable, KazooException) as error:
                log.debug("coordination tries again", error=repr(error))
                self._prepared = False
                self._dirty.update(self._watches)
                self._wake_later()

    async def _prepare(self) -> None:
        if not self._prepared:
            for path in self._paths.directories():
                await self._ask(self._kazoo.ensure_path_async, path)
            self._prepared = True

    async def _settle_registration(self, wanted: Registration) -> None:
        path = self._paths.registration(wanted.layer, wanted.name)
        try:
            await self._ask(self._kazoo.create_async, path, znodes.encode(wanted), ephemeral=True)
        except NodeExistsError:
            if not await self._hold_name(path, wanted):
                return
        self._registered, self._name_deadline = True, None
        self._dirty.add("slices")
        self._emit(Registered(wanted))
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(None)

    async def _hold_name(self, path: str, wanted: Registration) -> bool:
        """True when the name is ours after all: the answer to an earlier attempt got lost. Else judges its holder."""
        try:
            payload, stat = await self._ask(self._kazoo.get_async, path)
            holder = znodes.decode_registration(payload)
        except NoNodeError:
            self._wake.set()  # it went away in this moment
            return False
        except msgspec.MsgspecError:
            self._refuse(f"{path} holds something that is not a registration; remove it")
            return False
        if stat.ephemeralOwner == self._session:
            return True
        if self._name_deadline is None:
            self._name_deadline = self._loop.time() + self._name_wait_s
        if znodes.judge_holder(holder, wanted) != "unknown":
            log.info("removing the registration of an earlier session", slice=holder.name, pid=holder.pid)
            with contextlib.suppress(NoNodeError):
                await self._ask(self._kazoo.delete_async, path, stat.version)
            self._wake.set()
        elif self._loop.time() < self._name_deadline:
            self._wake_later()
        else:
            self._refuse(
                f"the name {wanted.name} is in use by process {holder.pid} at {holder.address}; "
                "stop that one, or start this one with another --name"
            )
        return False

    def _refuse(self, reason: str) -> None:
        self._wanted = self._name_deadline = None
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_exception(NameTaken(reason))
        else:
            self._emit(RegistrationRefused(reason))

    async def _read_slices(self) -> None:
        slices: dict[str, Registration] = {}
        for layer in LAYERS:
            names = await self._ask(self._kazoo.get_children_async, self._paths.layer(layer), self._watches["slices"])
            for start in range(0, len(names), READS_AT_ONCE):
                paths = [self._paths.registration(layer, name) for name in names[start : start + READS_AT_ONCE]]
                found = await asyncio.gather(*map(self._read_registration, paths))
                slices.update({each.name: each for each in found if each is not None})
        if self._wanted is not None and self._registered and slices.get(self._wanted.name) != self._wanted:
            self._registered = False  # somebody removed our znode
            self._wake.set()
        if slices != self._slices:
            self._slices = slices
            self._emit(SlicesChanged(slices))

    async def _read_registration(self, path: str) -> Registration | None:
        try:
            payload, _ = await self._ask(self._kazoo.get_async, path)
            return znodes.decode_registration(payload)
        except NoNodeError:
            return None  # gone since the names were listed, and that watch has fired
        except msgspec.MsgspecError as error:
            log.warning("a registration cannot be read and is left out", path=path, error=str(error))
            return None

    async def _watch_configuration(self) -> None:
        # `exists` and not `get`: it also watches for a znode that is not there yet.
        await self._ask(self._kazoo.exists_async, self._paths.configuration, self._watches["configuration"])
        try:
            configuration, _ = await self.read_configuration()
        except CorruptConfiguration as error:
            log.error("the configuration cannot be read; the last one stays in force", error=str(error))
            return
        if self._configuration != (configuration,):
            self._configuration = (configuration,)
            self._emit(ConfigurationChanged(configuration))

    async def _settle_election(self) -> None:
        if not self._standing:
            return
        names = await self._ask(self._kazoo.get_children_async, self._paths.coordinators, self._watches["coordinators"])
        order = znodes.in_order_of_arrival(names)
        ours = [name for name in order if name.startswith(self._candidacy)]
        if not ours:
            self._depose()
            payload = znodes.encode(znodes.Candidate(socket.gethostname(), os.getpid()))
            path = self._paths.candidate(self._candidacy)
            await self._ask(self._kazoo.create_async, path, payload, ephemeral=True, sequence=True)
            return  # the watch fires, and the next round sees our place
        self._candidate = self._paths.candidate(ours[0])
        if ours[0] == order[0] and self._connected and not self._leading:
            self._leading = True
            self._emit(Elected())

    def _depose(self) -> None:
        if self._leading:
            self._leading = False
            self._emit(Deposed())

    def _wake_later(self) -> None:
        self._loop.call_later(RETRY_S, self._wake.set)


def _repeat_hosts(hosts: str, session_timeout_s: float) -> str:
    """kazoo waits the session timeout, divided by the number of hosts, for the answer to its first message.

    A server that is just starting may accept a connection and never answer. Waiting long for it would cost the
    session, so the same hosts are named several times.
    """
    servers, slash, root = hosts.partition("/")
    times = max(1, min(16, round(session_timeout_s / HANDSHAKE_S / len(servers.split(",")))))
    return ",".join([servers] * times) + slash + root
