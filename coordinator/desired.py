"""How many slices the settings want: what the first configuration waits for. Pure.

Only numbers are wanted, not names: under an orchestrator names come from whoever starts first.
"""

from collections.abc import Mapping
from itertools import islice

from braid.config import Slices
from braid.naming import in_order_of_numbers, names_to_try
from braid.topology import CONFIGURED_LAYERS, Configuration, Layer, Registration
from coordinator.events import Inform
from coordinator.scaling import Decision, Wait, Write

Desired = Mapping[Layer, int]


def desired_numbers(slices: Slices) -> Desired:
    """For the layers that a configuration lists."""
    return {layer: getattr(slices, layer) for layer in CONFIGURED_LAYERS}


def await_first(desired: Desired, slices: Mapping[str, Registration]) -> Decision:
    """The first configuration is written when as many slices as desired are registered, of those with the lowest
    numbers.
    """
    registered = {layer: [each.name for each in slices.values() if each.layer == layer] for layer in CONFIGURED_LAYERS}
    missing = [
        name
        for layer in CONFIGURED_LAYERS
        for name in islice(names_to_try(layer, {}, slices, None), max(0, desired[layer] - len(registered[layer])))
    ]
    if missing:
        return Wait(tuple(missing))
    taken = {layer: tuple(in_order_of_numbers(names)[: desired[layer]]) for layer, names in registered.items()}
    first = Configuration(
        epoch=1,
        accesspoints=taken["accesspoint"],
        matchers=taken["matcher"],
        exitpoints=taken["exitpoint"],
    )
    return Write(first, None)


def compare(desired: Desired, configuration: Configuration) -> list[Inform]:
    """A stored configuration is kept whatever the settings say; that is not kept secret."""
    what = "the stored configuration stays in force, although the settings want other slices; braid scale changes it"
    return [
        Inform(what, {"layer": layer, "configured": configured, "desired": desired[layer]}, warning=True)
        for layer in CONFIGURED_LAYERS
        if len(configured := configuration.of_layer(layer)) != desired[layer]
    ]
