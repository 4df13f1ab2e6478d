"""What ZooKeeper says of the cluster while the launcher runs: who registered, what is configured, what is scaled."""

from collections.abc import Callable, Mapping

from braid.config import Settings
from braid.coordination import Coordination
from braid.coordination_events import ConfigurationChanged, Event, ScalingChanged, SlicesChanged
from braid.scaling import ScalingRecord
from braid.topology import Configuration, Registration
from coordinator import restoring


class Following:
    """`on_registered` and `on_shape` are called on the loop, after what is known has changed."""

    def __init__(self, settings: Settings, on_registered: Callable[[], None], on_shape: Callable[[], None]) -> None:
        self._cluster = settings.cluster
        self._on_registered = on_registered
        self._on_shape = on_shape
        self._coordination: Coordination | None = None
        self.registered: Mapping[str, Registration] = {}
        self.configuration: Configuration | None = None
        self.scaling: ScalingRecord | None = None  # only while it runs
        self.knows_scaling = False

    async def start(self, zookeeper: str) -> None:
        """The configuration is known afterwards. Raises `CoordinationUnavailable`, `CorruptConfiguration`."""
        self._coordination = Coordination(
            zookeeper, self._cluster.name, self._cluster.session_timeout_s, self._on_event, follow_scalings=True
        )
        await self._coordination.start()
        self.configuration = await self.read_configuration()

    async def read_configuration(self) -> Configuration | None:
        """As it stands now; what was told may be a moment older."""
        assert self._coordination is not None, "not started"
        configuration, _ = await self._coordination.read_configuration()
        return configuration

    async def restore(self, kept: Configuration) -> bool:
        """Puts back what ZooKeeper has lost. False when it had not. Raises as `restoring.restore`."""
        assert self._coordination is not None, "not started"
        outcome = await restoring.restore(self._coordination, kept)
        self.configuration = outcome.configuration
        return outcome.restored

    async def stop(self) -> None:
        if self._coordination is not None:
            await self._coordination.stop()

    def _on_event(self, event: Event) -> None:
        match event:
            case SlicesChanged(slices):
                self.registered = slices
                self._on_registered()
            case ConfigurationChanged(configuration):
                self.configuration = configuration
                self._on_shape()
            case ScalingChanged(record):
                self.scaling = record if record is not None and record.state == "running" else None
                self.knows_scaling = True
                self._on_shape()
