"""Which coordinator leads: the candidate that came first, and only while it is sure of its connection."""

import contextlib
import os
import socket
import uuid

import msgspec
import structlog

from braid import znodes
from braid.coordination_events import Deposed, Elected, NotLeading
from braid.reconciling import Reconciling
from braid.zookeeper_session import NoNodeError, ZooKeeperSession

log = structlog.get_logger()


class Election:
    def __init__(self, session: ZooKeeperSession, paths: znodes.Paths, reconciling: Reconciling) -> None:
        self._session = session
        self._paths = paths
        self._reconciling = reconciling
        self._standing = False
        self._leading = False
        # Part of our name in the election, so that a candidate whose creation was never confirmed is known as ours.
        self._candidacy = f"{uuid.uuid4().hex}-"
        self._candidate: str | None = None  # path of our znode
        self._ours = znodes.Candidate(socket.gethostname(), os.getpid())

    def stand(self) -> None:
        self._standing = True
        self._reconciling.mark("coordinators")

    def proof(self) -> str:
        """A znode that exists as long as this process may write; a transaction checks it.

        Who never stood for election is not held back. Raises `NotLeading`.
        """
        if self._standing and not self._leading:
            raise NotLeading("another coordinator leads, or the connection is lost")
        return self._candidate or self._paths.coordinators

    async def settle(self) -> None:
        if not self._standing:
            return
        names = await self._session.children(self._paths.coordinators, self._reconciling.watch("coordinators"))
        order = znodes.in_order_of_arrival(names)
        ours = [name for name in order if name.startswith(self._candidacy)]
        if not ours:
            self.depose()
            payload = znodes.encode(self._ours)
            await self._session.create(self._paths.candidate(self._candidacy), payload, ephemeral=True, sequence=True)
            return  # the watch fires, and the next round sees our place
        self._candidate = self._paths.candidate(ours[0])
        if ours[0] == order[0] and self._session.is_connected and not self._leading:
            self._leading = True
            self._reconciling.emit(Elected())
        elif ours[0] != order[0]:
            await self._remove_dead(order[: order.index(ours[0])])

    def on_expired(self) -> None:
        self._candidate = None

    def depose(self) -> None:
        if self._leading:
            self._leading = False
            self._reconciling.emit(Deposed())

    async def _remove_dead(self, names: list[str]) -> None:
        """Whoever was killed on this host is not waited for. The watch fires, and the next round sees our place."""
        paths = [self._paths.candidate(name) for name in names]
        for path, payload in zip(paths, await self._session.get_all(paths), strict=True):
            try:
                candidate = None if payload is None else znodes.decode_candidate(payload)
            except msgspec.MsgspecError:
                continue  # whose it is cannot be known; it goes away with its session
            if candidate is not None and znodes.is_dead_candidate(candidate, self._ours):
                log.info("removing the candidacy of a coordinator that is gone", pid=candidate.pid)
                with contextlib.suppress(NoNodeError):
                    await self._session.delete(path)
