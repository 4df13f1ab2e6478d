"""Which slices a scaling leads to. Pure.

Configured slices keep their place, because whatever stays need not move. New ones are taken from those that are
registered and idle, else they get a name and are to be started.
"""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import NamedTuple

from braid.naming import in_order_of_numbers
from braid.scaling import Ask
from braid.topology import CONFIGURED_LAYERS, Configuration, Layer, Registration, slice_name


class Placement(NamedTuple):
    layers: dict[Layer, tuple[str, ...]]  # what is configured when the scaling has ended
    wants: tuple[str, ...]  # those of them that are to be started first

    def differs_from(self, configuration: Configuration) -> bool:
        return any(names != configuration.of_layer(layer) for layer, names in self.layers.items())


def place(ask: Ask, configuration: Configuration, slices: Mapping[str, Registration]) -> Placement:
    """Asked again whenever other slices are registered: what registers meanwhile takes the place of a wanted name.

    The ask is one that `refusal` lets pass.
    """
    layers = {layer: _place_layer(layer, ask, configuration, slices) for layer in CONFIGURED_LAYERS}
    chosen = [name for layer, names in layers.items() for name in names if name not in configuration.of_layer(layer)]
    return Placement(layers, tuple(name for name in chosen if name not in slices))


def _place_layer(
    layer: Layer, ask: Ask, configuration: Configuration, slices: Mapping[str, Registration]
) -> tuple[str, ...]:
    configured = configuration.of_layer(layer)
    number = ask.layers.get(layer, len(configured))
    replaced = [name for name in configured if name in ask.replace]
    # Who is to be replaced leaves anyway, so where fewer are asked for these go first and nobody is started for them.
    first_to_leave = [*reversed(replaced), *(name for name in reversed(configured) if name not in replaced)]
    leaving = first_to_leave[: max(0, len(configured) - number)]
    newcomers = _newcomers(layer, configuration, slices)
    kept = [next(newcomers) if name in replaced else name for name in configured if name not in leaving]
    added = [next(newcomers) for _ in range(number - len(kept))]
    return (*kept, *added)


def _newcomers(layer: Layer, configuration: Configuration, slices: Mapping[str, Registration]) -> Iterator[str]:
    configured = configuration.of_layer(layer)
    registered = [each.name for each in slices.values() if each.layer == layer]
    yield from in_order_of_numbers(name for name in registered if name not in configured)
    for number in count(1):
        name = slice_name(layer, number)
        if name not in configured and name not in slices:
            yield name
