"""Slices and configuration in ZooKeeper, read and followed."""

from collections.abc import Callable

import msgspec
import structlog

from braid import znodes
from braid.coordination_events import ConfigurationChanged, CorruptConfiguration, SlicesChanged
from braid.map_store import MapStore
from braid.reconciling import Reconciling
from braid.topology import LAYERS, Configuration, Registration
from braid.zookeeper_session import NoNodeError, ZooKeeperSession

log = structlog.get_logger()


class TopologyStore:
    def __init__(
        self,
        session: ZooKeeperSession,
        paths: znodes.Paths,
        reconciling: Reconciling,
        maps: MapStore,
        *,
        on_slices: Callable[[dict[str, Registration]], None],
        on_configuration: Callable[[Configuration | None], None],
    ) -> None:
        self._session = session
        self._paths = paths
        self._reconciling = reconciling
        self._maps = maps
        self._on_slices = on_slices
        self._on_configuration = on_configuration
        # What was told last; None: nothing yet.
        self._slices: dict[str, Registration] | None = None
        self._configuration: tuple[Configuration | None] | None = None

    async def read_configuration(self) -> tuple[Configuration | None, int]:
        """With its version. Raises `CorruptConfiguration`."""
        try:
            return await self._read()
        except CorruptConfiguration:
            # A map that it names may have been removed since it was read, because the next one does not name it.
            return await self._read()

    async def _read(self) -> tuple[Configuration | None, int]:
        try:
            payload, stat = await self._session.get(self._paths.configuration)
        except NoNodeError:
            return None, znodes.NO_VERSION
        try:
            named = znodes.maps_named_in(payload)
            maps = await self._maps.load(named, self._reconciling.watch("configuration"))
            return znodes.decode_configuration(payload, maps), stat.version
        except msgspec.MsgspecError as error:
            raise CorruptConfiguration(f"{self._paths.configuration} at {self._session.hosts}: {error}") from None

    async def watch_slices(self) -> None:
        slices: dict[str, Registration] = {}
        for layer in LAYERS:
            names = await self._session.children(self._paths.layer(layer), self._reconciling.watch("slices"))
            paths = [self._paths.registration(layer, name) for name in names]
            for path, payload in zip(paths, await self._session.get_all(paths), strict=True):
                if payload is None:
                    continue  # gone since the names were listed, and that watch has fired
                try:
                    registration = znodes.decode_registration(payload)
                except msgspec.MsgspecError as error:
                    log.warning("a registration cannot be read and is left out", path=path, error=str(error))
                    continue
                slices[registration.name] = registration
        self._on_slices(slices)
        if slices != self._slices:
            self._slices = slices
            self._reconciling.emit(SlicesChanged(slices))

    async def watch_configuration(self) -> None:
        # `exists` and not `get`: it also watches for a znode that is not there yet.
        await self._session.exists(self._paths.configuration, self._reconciling.watch("configuration"))
        try:
            configuration, _ = await self.read_configuration()
        except CorruptConfiguration as error:
            log.error("the configuration cannot be read; the last one stays in force", error=str(error))
            return
        if self._configuration != (configuration,):
            self._configuration = (configuration,)
            self._reconciling.emit(ConfigurationChanged(configuration))
            self._on_configuration(configuration)
