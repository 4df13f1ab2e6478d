"""A whole cluster in the test's own event loop: real sockets, real LevelDB, real ZooKeeper, no processes.

For what a test must reach into: sessions that expire, slices that stop, single links.
"""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx

from braid.config import load
from braid.coordination import Coordination
from braid.coordination_events import Elected
from braid.slice import ProbedSlice, Slice
from braid.topology import Configuration
from braid.znodes import NO_VERSION
from services.accesspoint.shell import AccessPoint
from services.connpoint.shell import ConnPoint
from services.exitpoint.shell import ExitPoint
from services.matcher.shell import Matcher
from tests.service.waiting import until

_LAYERS: dict[str, type[Slice]] = {
    "connpoint": ConnPoint,
    "accesspoint": AccessPoint,
    "matcher": Matcher,
    "exitpoint": ExitPoint,
}
READY_S = 20.0


class InProcessCluster:
    def __init__(self, hosts: str, directory: Path, **sections: dict[str, Any]) -> None:
        # A name of its own, so that tests share one ZooKeeper and nothing else.
        cluster = {"zookeeper": hosts, "data": directory, "name": f"t{uuid.uuid4().hex[:12]}", "session_timeout_s": 4.0}
        given = {**sections, "cluster": cluster | sections.get("cluster", {})}
        self.settings = load(overrides=given).settings
        self.slices: dict[str, Slice] = {}
        self._running: dict[str, asyncio.Task[int]] = {}

    def start(self, name: str) -> None:
        self.slices[name] = _LAYERS[name.rpartition("-")[0]](name, self.settings, 0)
        self._running[name] = asyncio.create_task(self.slices[name].run())

    async def stop(self, name: str) -> None:
        self.slices[name].stop()
        assert await self._running.pop(name) == 0

    @property
    def connpoint(self) -> ConnPoint:
        found = self.slices["connpoint-1"]
        assert isinstance(found, ConnPoint)
        return found

    @property
    def api(self) -> str:
        (http,) = self._doors()
        return f"http://{http}"

    def _doors(self) -> list[str]:
        return [entry.http for entry in self.connpoint.slices() if entry.name == "connpoint-1"]

    async def until_ready(self) -> None:
        """A connection point may be ready before it is told of its own registration."""
        await until(lambda: not self.connpoint.not_ready() and self._doors(), READY_S)

    async def start_all(self) -> None:
        """The connection point last: what it asks before the others are linked is answered only when it asks again."""
        for name in ("exitpoint-1", "matcher-1", "accesspoint-1"):
            self.start(name)
        for slice in self.slices.values():
            assert isinstance(slice, ProbedSlice)
            await until(lambda slice=slice: not slice.not_ready(), READY_S)  # type: ignore[misc]  # bound now
        self.start("connpoint-1")
        await self.until_ready()

    async def configure(self) -> None:
        """What the coordinator does at the first start."""
        first = Configuration(1, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",))
        await self.reconfigure(first, NO_VERSION)

    async def reconfigure(self, configuration: Configuration, version: int = 0) -> int:
        """As a coordinator that leads; the version is that of the configuration before it."""
        elected = asyncio.Event()
        coordination = Coordination(
            self.settings.cluster.zookeeper,
            self.settings.cluster.name,
            self.settings.cluster.session_timeout_s,
            lambda event: elected.set() if isinstance(event, Elected) else None,
        )
        await coordination.start()
        await coordination.lead()
        async with asyncio.timeout(READY_S):
            await elected.wait()
        written = await coordination.write_configuration(configuration, version)
        await coordination.stop()
        return written

    async def close(self) -> None:
        await asyncio.gather(*(self.stop(name) for name in list(self._running)))


@contextlib.asynccontextmanager
async def in_process_cluster(
    hosts: str, directory: Path, **sections: dict[str, Any]
) -> AsyncIterator[InProcessCluster]:
    cluster = InProcessCluster(hosts, directory, **sections)
    await cluster.configure()
    try:
        await cluster.start_all()
        yield cluster
    finally:
        await cluster.close()


def client_of(cluster: InProcessCluster) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=cluster.api, trust_env=False, timeout=20)
