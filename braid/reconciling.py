"""Keeps a process and ZooKeeper together: what may have changed is marked, and one task reads it again.

Each read sets the next watch in the same request. A change that happens between two reads fires the watch of the
first; a lost connection fires all of them; a new session reads everything. So no change is missed, and a burst of
changes costs one more read and leaves one event, the newest.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Literal

import structlog

from braid.coordination_events import CoordinationUnavailable, Event
from braid.zookeeper_session import KazooException, Watch, ZooKeeperSession

log = structlog.get_logger()

RETRY_S = 0.2  # pause after a request that failed although there is a connection

Area = Literal["directories", "registration", "slices", "configuration", "scaling", "reports", "coordinators"]


class Reconciling:
    """The areas, in the order in which they are read, each with what brings it up to date."""

    def __init__(self, session: ZooKeeperSession, on_event: Callable[[Event], None]) -> None:
        self._session = session
        self._on_event = on_event
        self._readers: Mapping[Area, Callable[[], Awaitable[None]]] = {}
        self._watches: dict[Area, Watch] = {}
        self._dirty: set[Area] = set()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, readers: Mapping[Area, Callable[[], Awaitable[None]]]) -> None:
        self._readers = readers
        self.mark_all()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="coordination")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def watch(self, area: Area) -> Watch:
        """For a request of kazoo. Always the same one for an area, so that kazoo keeps it once."""
        return self._watches.setdefault(area, partial(self._on_watch, area))

    def mark(self, area: Area) -> None:
        if area in self._readers:
            self._dirty.add(area)
            self._wake.set()

    def mark_all(self) -> None:
        self._dirty.update(self._readers)
        self._wake.set()

    def mark_later(self, area: Area) -> None:
        asyncio.get_running_loop().call_later(RETRY_S, self.mark, area)

    def emit(self, event: Event) -> None:
        # Not called from here: an error in the listener must not stop the reconciliation.
        asyncio.get_running_loop().call_soon(self._on_event, event)

    def _on_watch(self, area: Area, _event: object) -> None:
        self._session.post(self.mark, area)

    async def _run(self) -> None:
        """Until stopped: whenever something may have changed, makes our znodes and what we know right again."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not self._session.is_connected:
                continue  # the connection will wake us
            try:
                for area, read in self._readers.items():
                    if area in self._dirty:
                        self._dirty.discard(area)  # before the read, whose watch may fire before its answer is here
                        await read()
            except (CoordinationUnavailable, KazooException) as error:
                log.debug("coordination tries again", error=repr(error))
                self._dirty.update(self._readers)
                asyncio.get_running_loop().call_later(RETRY_S, self._wake.set)
