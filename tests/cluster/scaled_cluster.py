"""A real cluster that is scaled under test: asked over REST, watched in ZooKeeper, its processes stopped and killed.

A phase of a scaling lasts milliseconds. To do something in it for sure, a process that must report in it is stopped
before it begins (`SIGSTOP`), which holds the phase until that process goes on.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import psutil
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.retry import KazooRetry

from benchmarks.local_cluster import LocalCluster
from braid import znodes
from braid.anchor_map import AnchorMap
from braid.scaling import ScalingRecord, Step
from braid.topology import CONFIGURED_LAYERS, Change, Configuration, Registration
from tests.cluster.clients import Address

CLUSTER = "braid"
ENDS_S = 45.0


class ScaledCluster:
    def __init__(self, local: LocalCluster, zookeeper: KazooClient) -> None:
        self.local = local
        self._zookeeper = zookeeper
        self._paths = znodes.Paths(CLUSTER)
        self._stopped: dict[str, int] = {}

    # What ZooKeeper says

    def _ask(self, question: Callable[[str], Any], path: str) -> Any:
        """Whoever looks on may lose its connection on a busy machine, as anybody; it asks again."""
        return KazooRetry(max_tries=-1, max_delay=0.5, deadline=20)(question, path)

    def configuration(self) -> Configuration:
        payload, _ = self._ask(self._zookeeper.get, self._paths.configuration)
        try:
            named = {version: self._paths.map(version) for version in znodes.maps_named_in(payload)}
            maps = {
                version: AnchorMap.decode(self._ask(self._zookeeper.get, path)[0]) for version, path in named.items()
            }
        except NoNodeError:
            return self.configuration()  # the next one does not name it, and it was swept
        return znodes.decode_configuration(payload, maps)

    def change(self) -> Change | None:
        return self.configuration().change

    def phase(self) -> str:
        change = self.change()
        return "" if change is None else change.phase

    def record(self) -> ScalingRecord | None:
        """Of the scaling under way."""
        try:
            return znodes.decode_record(self._ask(self._zookeeper.get, self._paths.scaling)[0])
        except NoNodeError:
            return None

    def ended(self, id: str) -> ScalingRecord | None:
        try:
            return znodes.decode_record(self._ask(self._zookeeper.get, self._paths.ended(id))[0])
        except NoNodeError:
            return None

    def has_reported(self, step: Step, slice: str) -> bool:
        change = self.change()
        return change is not None and bool(
            self._ask(self._zookeeper.exists, self._paths.report(change.id, step, slice))
        )

    def registrations(self) -> dict[str, Registration]:
        found = {}
        for layer in ("connpoint", *CONFIGURED_LAYERS):
            for name in self._ask(self._zookeeper.get_children, self._paths.layer(layer)):
                with contextlib.suppress(NoNodeError):
                    payload, _ = self._ask(self._zookeeper.get, self._paths.registration(layer, name))
                    found[name] = znodes.decode_registration(payload)
        return found

    def address_of(self, connpoint: str) -> Address:
        """Where it was registered last; while it is being started again it is nowhere."""
        known = ""

        def address() -> str:
            nonlocal known
            registration = self.registrations().get(connpoint)
            if registration is not None:
                known = f"http://{registration.http}"
            return known

        return address

    # What REST says

    async def ask(self, **asked: Any) -> str:
        """Returns the id of the scaling."""
        answer = await self.call("/v1/cluster/scale", asked)
        id: str = answer["id"]
        return id

    async def scale(self, **asked: Any) -> dict[str, Any]:
        """Returns the scaling as it is shown when it has ended."""
        id = await self.ask(**asked)
        await until(lambda: self.ended(id))
        return await self.call(f"/v1/cluster/scalings/{id}")

    async def call(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """An answer that is none becomes `{"status": …}`. Any connection point may be the one that is away."""
        return await asyncio.to_thread(self._call, path, body)

    def _call(self, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.local.api[0] + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                answer: dict[str, Any] = json.load(response)
        except urllib.error.HTTPError as error:
            answer = json.load(error)
        return answer

    def subscriptions_at(self, matcher: str) -> int:
        """As its metrics say, a moment ago; 0 as long as one that has just started has not told."""
        with urllib.request.urlopen(f"http://{self.registrations()[matcher].http}/metrics", timeout=5) as response:
            found = re.search(r'^braid_subscriptions\{layer="matcher"\} (\S+)$', response.read().decode(), re.MULTILINE)
        return 0 if found is None else int(float(found[1]))

    async def ready(self) -> None:
        """Every slice of the configuration and every connection point is registered and says that it is ready."""
        await until(self._is_ready, pause_s=0.1)  # asking everybody costs more than all else that is waited for

    def _is_ready(self) -> bool:
        configuration, there = self.configuration(), self.registrations()
        configured = [name for layer in CONFIGURED_LAYERS for name in configuration.of_layer(layer)]
        if configuration.change is not None or self.record() is not None or not set(configured) <= set(there):
            return False
        expected = set(configured) | {name for name in there if name.startswith("connpoint-")}
        if set(there) != expected or set(self.local.slice_pids()) != expected:
            return False  # what is not in use any more is about to stop
        return all(psutil.pid_exists(one.pid) and _answers_ready(one.http) for one in there.values())

    # What happens to processes

    def pid(self, name: str) -> int:
        if name != "coordinator":
            return self.local.slice_pids()[name]
        for child in psutil.Process(self.local.process.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.cmdline()[1:] == ["-m", "coordinator"]:
                    return child.pid
        raise LookupError("no coordinator runs")

    def stop(self, name: str) -> None:
        self._stopped[name] = self.pid(name)
        os.kill(self._stopped[name], signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Does nothing when it was killed meanwhile."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._stopped.pop(name), signal.SIGCONT)

    def resume_all(self) -> None:
        for name in list(self._stopped):
            self.resume(name)

    def kill(self, name: str) -> None:
        os.kill(self.pid(name), signal.SIGKILL)


@contextlib.contextmanager
def scaled(local: LocalCluster) -> Iterator[ScaledCluster]:
    client = KazooClient(local.zookeeper, connection_retry=KazooRetry(max_tries=-1, max_delay=0.5))
    client.start()
    try:
        yield ScaledCluster(local, client)
    finally:
        client.stop()
        client.close()


async def until(condition: Callable[[], object], timeout_s: float = ENDS_S, pause_s: float = 0.02) -> None:
    """The condition asks ZooKeeper or files, so it is tried on a thread while traffic flows."""
    async with asyncio.timeout(timeout_s):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(pause_s)


def _answers_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False
