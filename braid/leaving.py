"""What a slice that is told to stop does first, so that others take over. Pure; docs/deployment.md has the table.

A slice that only stops loses nothing, but its share of the work waits for it. So it asks to be left out of the
configuration, where another one can do its part, and stops when it is out.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from braid.scaling import Ask
from braid.topology import CONFIGURED_LAYERS, Configuration, Layer, Registration

RECONNECT_S = 3.0  # a connection to ZooKeeper that was lost for a moment is waited for


@dataclass(frozen=True)
class Known:
    """Everything on which it depends."""

    configuration: Configuration | None
    slices: Mapping[str, Registration]
    disconnected_s: float = 0.0  # for how long ZooKeeper has been out of reach


@dataclass(frozen=True)
class Stop:
    why: str


@dataclass(frozen=True)
class Wait:
    why: str


@dataclass(frozen=True)
class Leave:
    ask: Ask


Step = Stop | Wait | Leave


def next_step(name: str, layer: Layer, known: Known) -> Step:
    """Of an access point, a matcher or an exit point."""
    if known.disconnected_s >= RECONNECT_S:
        return Stop("ZooKeeper cannot be reached")
    if known.disconnected_s > 0:
        return Wait("for ZooKeeper")
    if known.configuration is None:
        return Stop("there is no configuration yet")
    if name not in known.configuration.union(layer):
        return Stop("it takes no part")
    return _leave(name, layer, known.configuration, known.slices)


def _leave(name: str, layer: Layer, configuration: Configuration, slices: Mapping[str, Registration]) -> Step:
    if not any(each.layer == "connpoint" for each in slices.values()):
        return Stop("no connection point is there, so the whole cluster stops")
    if configuration.change is not None:
        return Wait(f"for the end of {configuration.change.id}")
    missing = [each for layer in CONFIGURED_LAYERS for each in configuration.of_layer(layer) if each not in slices]
    if missing:
        return Wait(f"for {', '.join(missing)}, without which no scaling can begin")
    return _take_over(name, layer, configuration, slices)


def _take_over(name: str, layer: Layer, configuration: Configuration, slices: Mapping[str, Registration]) -> Step:
    configured = configuration.of_layer(layer)
    if any(each.layer == layer and each.name not in configured for each in slices.values()):
        return Leave(Ask(replace=(name,)))
    if len(configured) > 1:
        return Leave(Ask({layer: len(configured) - 1}, replace=(name,)))
    return Stop("it is the only one of its layer, so what comes waits for it")
