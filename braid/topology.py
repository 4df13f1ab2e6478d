"""Who is there and who is in use: slices that registered, and the configuration in force."""

from typing import Literal, get_args

import msgspec

Layer = Literal["connpoint", "accesspoint", "matcher", "exitpoint"]
LAYERS: tuple[Layer, ...] = get_args(Layer)


class Registration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One running process of a layer, as it announces itself."""

    name: str
    layer: Layer
    address: str  # host:port where other slices link to it
    http: str  # host:port of its HTTP door: the public interface, or probes and metrics
    pid: int
    incarnation: int  # milliseconds since 1970 at process start; tells a restarted slice from its predecessor
    version: str


class Configuration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The slices that take part, in force from one cut to the next.

    Connection points are not listed: they hold no share of the state and take part once they register.
    """

    epoch: int
    accesspoints: tuple[str, ...]
    matchers: tuple[str, ...]
    exitpoints: tuple[str, ...]
    routing: Literal["broadcast"] = "broadcast"

    def of_layer(self, layer: Layer) -> tuple[str, ...]:
        return {
            "connpoint": (),
            "accesspoint": self.accesspoints,
            "matcher": self.matchers,
            "exitpoint": self.exitpoints,
        }[layer]


def slice_name(layer: Layer, number: int) -> str:
    return f"{layer}-{number}"
