"""The shape of a cluster: the names of its access points, matchers and exit points. Pure.

Subscriptions are placed by the names of the matchers, so a shape belongs to its data. Only a scaling changes it.
"""

import re
from collections.abc import Mapping

import msgspec

from braid.config import Slices
from braid.topology import CONFIGURED_LAYERS, Configuration, Layer, slice_name

Shape = dict[Layer, tuple[str, ...]]

_NAME = re.compile(rf"({'|'.join(CONFIGURED_LAYERS)})-[1-9][0-9]{{0,8}}")


class ShapeRefused(Exception):
    """Another shape is asked than there is; the message says what to do."""


def layer_of(name: str) -> Layer | None:
    """None for a connection point, and for what is not the name of a slice at all: it becomes the name of files."""
    found = _NAME.fullmatch(name)
    return next((layer for layer in CONFIGURED_LAYERS if found is not None and layer == found[1]), None)


def numbered(slices: Slices) -> Shape:
    """The shape of a cluster that starts for the first time."""
    return {
        layer: tuple(slice_name(layer, number) for number in range(1, getattr(slices, layer) + 1))
        for layer in CONFIGURED_LAYERS
    }


def in_force(configuration: Configuration) -> Shape:
    return {layer: configuration.in_force().of_layer(layer) for layer in CONFIGURED_LAYERS}


def taking_part(configuration: Configuration) -> Shape:
    """Also those that come and go with the change under way: without them it cannot end."""
    return {layer: tuple(configuration.union(layer)) for layer in CONFIGURED_LAYERS}


def decode(content: bytes) -> Shape:
    """Raises `ValueError`. Earlier versions wrote numbers instead of names."""
    kept = msgspec.json.decode(content, type=dict[Layer, int | tuple[str, ...]])
    if set(kept) != set(CONFIGURED_LAYERS):
        raise ValueError(f"expected {', '.join(CONFIGURED_LAYERS)}")
    shape: Shape = {}
    for layer in CONFIGURED_LAYERS:
        names = kept[layer]
        if isinstance(names, int):
            names = tuple(slice_name(layer, number) for number in range(1, min(names, 64) + 1))
        if not names or any(layer_of(name) != layer for name in names):
            raise ValueError(f"expected names such as {layer}-1")
        shape[layer] = names
    return shape


def numbers(shape: Shape) -> str:
    return ",".join(f"{layer}={len(names)}" for layer, names in shape.items())


def check_asked(shape: Shape, asked: Mapping[Layer, int], what: str) -> None:
    """`asked` are numbers that somebody gave for this start; `what` has the shape."""
    others = {layer: number for layer, number in asked.items() if layer in shape and number != len(shape[layer])}
    if others:
        wanted = ",".join(f"{layer}={number}" for layer, number in others.items())
        raise ShapeRefused(
            f"{what} was made for {numbers(shape)}, and {wanted} is asked. Start it without --slices, then change it "
            f"while it runs: braid scale {wanted.replace(',', ' ')}. Or choose another --data directory"
        )


def check_first(shape: Shape, data: str, cluster: str) -> None:
    """The first configuration is made from numbers, and these do not say which slices the scalings have left."""
    counted = {layer: {slice_name(layer, number + 1) for number in range(len(names))} for layer, names in shape.items()}
    if any(set(names) != counted[layer] for layer, names in shape.items()):
        raise ShapeRefused(
            f"{data} belongs to {', '.join(name for names in shape.values() for name in names)}, but {cluster} has no "
            "configuration. Start it with the ZooKeeper and the cluster.name that it was scaled with, "
            "or choose another --data directory"
        )
