"""The slices that the settings want: what the first configuration waits for. Pure."""

from collections.abc import Mapping

from braid.config import Slices
from braid.topology import CONFIGURED_LAYERS, Configuration, Layer, Registration, slice_name
from coordinator.events import Inform
from coordinator.scaling import Decision, Wait, Write

Desired = Mapping[Layer, tuple[str, ...]]


def desired_names(slices: Slices) -> Desired:
    """{"matcher": ("matcher-1", "matcher-2"), …} for the layers that a configuration lists."""
    return {
        layer: tuple(slice_name(layer, number) for number in range(1, getattr(slices, layer) + 1))
        for layer in CONFIGURED_LAYERS
    }


def await_first(desired: Desired, slices: Mapping[str, Registration]) -> Decision:
    """The first configuration is written when every desired slice is registered."""
    missing = tuple(name for layer in CONFIGURED_LAYERS for name in desired[layer] if name not in slices)
    if missing:
        return Wait(missing)
    first = Configuration(
        epoch=1,
        accesspoints=desired["accesspoint"],
        matchers=desired["matcher"],
        exitpoints=desired["exitpoint"],
    )
    return Write(first, None)


def compare(desired: Desired, configuration: Configuration) -> list[Inform]:
    """A stored configuration is kept whatever the settings say; that is not kept secret."""
    what = "the stored configuration stays in force, although the settings want other slices; braid scale changes it"
    return [
        Inform(what, {"layer": layer, "configured": configured, "desired": desired[layer]}, warning=True)
        for layer in CONFIGURED_LAYERS
        if (configured := configuration.of_layer(layer)) != desired[layer]
    ]
