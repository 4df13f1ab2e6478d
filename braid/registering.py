"""The registration of this process: it stands again after every expiry, and no two processes hold one name."""

import asyncio
import contextlib

import msgspec
import structlog

from braid import znodes
from braid.coordination_events import CoordinationUnavailable, NameTaken, Registered, RegistrationRefused
from braid.reconciling import Reconciling
from braid.topology import Registration
from braid.zookeeper_session import NodeExistsError, NoNodeError, ZooKeeperSession

log = structlog.get_logger()


class Registering:
    def __init__(
        self, session: ZooKeeperSession, paths: znodes.Paths, reconciling: Reconciling, session_timeout_s: float
    ) -> None:
        self._session = session
        self._paths = paths
        self._reconciling = reconciling
        # A dead holder of our name is forgotten by ZooKeeper within its session timeout, give or take its ticks.
        self._name_wait_s = 1.5 * session_timeout_s + 2.0
        self._wanted: Registration | None = None
        self._predecessor: int | None = None
        self._registered = False
        self._outcome: asyncio.Future[None] | None = None  # of `register`, until it is known
        self._name_deadline: float | None = None

    async def register(self, registration: Registration, predecessor: int | None) -> None:
        if self._wanted is not None:
            raise RuntimeError(f"this process is registered as {self._wanted.name} already")
        self._wanted, self._predecessor = registration, predecessor
        self._outcome = asyncio.get_running_loop().create_future()
        self._reconciling.mark("registration")
        await self._outcome

    def stop(self) -> None:
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_exception(CoordinationUnavailable("stopped before the registration was confirmed"))

    def on_expired(self) -> None:
        self._registered, self._name_deadline = False, None

    def on_slices(self, slices: dict[str, Registration]) -> None:
        if self._wanted is not None and self._registered and slices.get(self._wanted.name) != self._wanted:
            self._registered = False  # somebody removed our znode
            self._reconciling.mark("registration")

    async def settle(self) -> None:
        wanted = self._wanted
        if wanted is None or self._registered:
            return
        path = self._paths.registration(wanted.layer, wanted.name)
        try:
            await self._session.create(path, znodes.encode(wanted), ephemeral=True)
        except NodeExistsError:
            if not await self._hold_name(path, wanted):
                return
        self._registered, self._name_deadline = True, None
        self._reconciling.mark("slices")
        self._reconciling.emit(Registered(wanted))
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(None)

    async def _hold_name(self, path: str, wanted: Registration) -> bool:
        """True when the name is ours after all: the answer to an earlier attempt got lost. Else judges its holder."""
        loop = asyncio.get_running_loop()
        try:
            payload, stat = await self._session.get(path)
            holder = znodes.decode_registration(payload)
        except NoNodeError:
            self._reconciling.mark("registration")  # it went away in this moment
            return False
        except msgspec.MsgspecError:
            self._refuse(f"{path} holds something that is not a registration; remove it")
            return False
        if stat.ephemeralOwner == self._session.id:
            return True
        if self._name_deadline is None:
            self._name_deadline = loop.time() + self._name_wait_s
        if znodes.judge_holder(holder, wanted, self._predecessor) != "unknown":
            log.info("removing the registration of an earlier session", slice=holder.name, pid=holder.pid)
            with contextlib.suppress(NoNodeError):
                await self._session.delete(path, stat.version)
            self._reconciling.mark("registration")
        elif loop.time() < self._name_deadline:
            self._reconciling.mark_later("registration")
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
            self._reconciling.emit(RegistrationRefused(reason))
