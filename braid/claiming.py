"""Takes a name for a slice that was started without one, and holds it until the process ends.

The kernel lets go of a lock when its owner ends, however it ends. So a lock that can be had says that whoever held
the name before is gone, also when ZooKeeper does not know it yet.
"""

import asyncio
import fcntl
import os
import re
from itertools import islice
from pathlib import Path
from typing import IO

import structlog

from braid.config import Settings
from braid.coordination import Coordination
from braid.coordination_events import ConfigurationChanged, CoordinationUnavailable, Event, NameTaken, SlicesChanged
from braid.naming import names_to_try
from braid.topology import Configuration, Layer, Registration

log = structlog.get_logger()

HOLDER_FILE = "holder"
TRIES_MAX = 1000


class ClaimedName:
    """Held as long as this object is."""

    def __init__(self, name: str, predecessor: int | None, file: IO[str]) -> None:
        self.name = name
        self.predecessor = predecessor  # the incarnation that held it last, which is gone
        self._file = file

    def hold_as(self, incarnation: int) -> None:
        """Who comes next learns from this whose registration may be left behind. Written before registering."""
        self._file.seek(0)
        self._file.truncate()
        self._file.write(f"{incarnation}\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def release(self) -> None:
        self._file.close()


async def claim_name(layer: Layer, settings: Settings) -> ClaimedName:
    """Raises `CoordinationUnavailable` without ZooKeeper, `NameTaken` when there is no name left."""
    registered, configuration = await _look(settings)
    here = read_holders(settings.cluster.data, layer)
    for name in islice(names_to_try(layer, here, registered, configuration), TRIES_MAX):
        claimed = try_to_claim(settings.cluster.data, name)
        if claimed is not None:
            log.info("takes a name", name=name, predecessor=claimed.predecessor)
            return claimed
    raise NameTaken(f"{TRIES_MAX} names of the layer {layer} are in use; give one with --name")


def read_holders(data: Path, layer: Layer) -> dict[str, int | None]:
    """The names of this layer that have a directory here, and the incarnation that held each of them last."""
    pattern = re.compile(rf"{layer}-[1-9][0-9]{{0,8}}")
    try:
        found = [entry for entry in data.iterdir() if pattern.fullmatch(entry.name) and entry.is_dir()]
    except FileNotFoundError:
        return {}
    return {entry.name: _read_incarnation(entry / HOLDER_FILE) for entry in found}


def try_to_claim(data: Path, name: str) -> ClaimedName | None:
    """None while another process holds it."""
    directory = data / name
    directory.mkdir(parents=True, exist_ok=True)
    file = (directory / HOLDER_FILE).open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return ClaimedName(name, _read_incarnation(directory / HOLDER_FILE), file)


def _read_incarnation(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (FileNotFoundError, ValueError):
        return None


async def _look(settings: Settings) -> tuple[dict[str, Registration], Configuration | None]:
    """Who is registered and what is configured, asked in a session that ends at once."""
    slices: asyncio.Future[dict[str, Registration]] = asyncio.get_running_loop().create_future()
    configured: asyncio.Future[Configuration | None] = asyncio.get_running_loop().create_future()

    def on_event(event: Event) -> None:
        if isinstance(event, SlicesChanged) and not slices.done():
            slices.set_result(dict(event.slices))
        if isinstance(event, ConfigurationChanged) and not configured.done():
            configured.set_result(event.configuration)

    cluster = settings.cluster
    coordination = Coordination(cluster.zookeeper, cluster.name, cluster.session_timeout_s, on_event)
    await coordination.start()
    try:
        async with asyncio.timeout(cluster.session_timeout_s):
            return await slices, await configured
    except TimeoutError:
        raise CoordinationUnavailable("ZooKeeper does not say who is registered") from None
    finally:
        await coordination.stop()
