"""Which processes make up a cluster, with their command lines and environment. Pure, but for trying ports."""

import socket
import sys
from collections.abc import Callable
from pathlib import Path

from braid.config import Settings, Slices
from braid.topology import LAYERS, Layer, slice_name
from coordinator.data_directory import DataDirectory
from coordinator.processes import Command
from coordinator.shape import Shape

# Who is stopped first: what takes in new work goes before what works on it, and ZooKeeper is needed until the end.
STOP_ORDER: tuple[str, ...] = (*LAYERS, "coordinator", "zookeeper")

SliceArguments = Callable[[Layer, str, int], list[str]]  # layer, name, HTTP port


class PortRefused(Exception):
    """A port that is needed cannot be had; the message says what to do."""


def slice_arguments(layer: Layer, name: str, http_port: int) -> list[str]:
    return [sys.executable, "-m", f"services.{layer}", "--name", name, "--http-port", str(http_port)]


def coordinator_arguments() -> list[str]:
    return [sys.executable, "-m", "coordinator"]


def connpoint_ports(settings: Settings) -> dict[str, int]:
    """The first connection point has the port of the settings, the others follow; 0 for all when it is 0."""
    first = settings.api.port
    ports = {
        slice_name("connpoint", number): first + number - 1 if first else 0
        for number in range(1, settings.slices.connpoint + 1)
    }
    if max(ports.values()) > 65535:
        raise PortRefused(f"{len(ports)} connection points need ports {first} and up, beyond 65535")
    return ports


def check_ports(settings: Settings) -> None:
    """Asked before anything starts, because a slice that cannot listen would only be found in its log."""
    host = settings.api.host
    for name, port in connpoint_ports(settings).items():
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                raise PortRefused(
                    f"{name} cannot listen on {host}:{port} ({error.strerror}). Stop what uses that port, "
                    "or choose another with --port (0 lets the system choose)"
                ) from None


class Plan:
    """How the coordinator and the slices are started."""

    def __init__(
        self, settings: Settings, zookeeper: str, data: DataDirectory, config: Path | None, arguments_of: SliceArguments
    ) -> None:
        self._settings = settings
        self._zookeeper = zookeeper
        self._data = data
        self._config = config
        self._arguments_of = arguments_of
        self._ports = connpoint_ports(settings)

    def commands(self, shape: Shape) -> list[Command]:
        """The coordinator, the slices of this shape, and the connection points."""
        names = {**shape, "connpoint": tuple(self._ports)}
        numbers = {f"BRAID_SLICES__{layer.upper()}": str(len(names[layer])) for layer in LAYERS}
        coordinator = self._command("coordinator", "coordinator", coordinator_arguments(), numbers)
        return [coordinator, *(self.slice(layer, name) for layer in reversed(LAYERS) for name in names[layer])]

    def slice(self, layer: Layer, name: str) -> Command:
        return self._command(name, layer, self._arguments_of(layer, name, self._ports.get(name, 0)), {})

    def _command(self, name: str, group: str, argv: list[str], environment: dict[str, str]) -> Command:
        # What was given to the launcher reaches all processes the same way, stronger than the file.
        given = {
            "BRAID_CLUSTER__ZOOKEEPER": self._zookeeper,
            "BRAID_CLUSTER__DATA": str(self._data.path),
            "BRAID_API__PORT": str(self._settings.api.port),
            "BRAID_TELEMETRY__SINK": self._settings.telemetry.sink,
        }
        passed_on = ["--config", str(self._config)] if self._config is not None else []
        return Command(name, group, [*argv, *passed_on], self._data.log(name), {**given, **environment})


def parse_slices(text: str) -> dict[str, str]:
    """`matcher=2,exitpoint=1` -> settings of the section slices. Raises `ValueError`."""
    pairs = dict(part.strip().partition("=")[::2] for part in text.split(","))
    unknown = set(pairs) - set(Slices.model_fields)
    if unknown or not all(pairs.values()):
        raise ValueError(f"'{text}' is not of the form {','.join(f'{layer}=1' for layer in LAYERS)}")
    return pairs
