"""Who is there and who is in use: slices that registered, the configuration in force, and the change under way."""

from typing import Literal, get_args

import msgspec

from braid.anchor_map import AnchorMap

Layer = Literal["connpoint", "accesspoint", "matcher", "exitpoint"]
LAYERS: tuple[Layer, ...] = get_args(Layer)
CONFIGURED_LAYERS: tuple[Layer, ...] = ("accesspoint", "matcher", "exitpoint")

Routing = Literal["broadcast", "anchored"]
ROUTINGS: tuple[Routing, ...] = get_args(Routing)

Phase = Literal["copying", "moving", "changing", "flushing", "ending"]
PHASES: tuple[Phase, ...] = get_args(Phase)
REVERSIBLE: tuple[Phase, ...] = ("copying", "moving")  # the old configuration is in force


class Registration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One running process of a layer, as it announces itself."""

    name: str
    layer: Layer
    address: str  # host:port where other slices link to it
    http: str  # host:port of its HTTP door: the public interface, or probes and metrics
    pid: int
    incarnation: int  # milliseconds since 1970 at process start; tells a restarted slice from its predecessor
    version: str


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The configuration that a change leads to."""

    epoch: int
    accesspoints: tuple[str, ...]
    matchers: tuple[str, ...]
    exitpoints: tuple[str, ...]
    routing: Routing = "broadcast"
    map: AnchorMap | None = None  # with `anchored` only; None: anchors lie where they hash to


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scaling under way: what it leads to, and how far it is."""

    id: str
    phase: Phase
    to: Target
    participants: dict[str, int]  # incarnations of all slices of both configurations when it began


class Configuration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The slices that take part, in force from one cut to the next, and the change that leads to the next ones.

    Connection points are not listed: they hold no share of the state and take part once they register.
    """

    epoch: int
    accesspoints: tuple[str, ...]
    matchers: tuple[str, ...]
    exitpoints: tuple[str, ...]
    routing: Routing = "broadcast"
    map: AnchorMap | None = None  # as in `Target`; in ZooKeeper only its version stands here
    epochs: int = 0  # the highest number that any change used, also one that was given up
    change: Change | None = None

    def of_layer(self, layer: Layer) -> tuple[str, ...]:
        return {
            "connpoint": (),
            "accesspoint": self.accesspoints,
            "matcher": self.matchers,
            "exitpoint": self.exitpoints,
        }[layer]

    def target(self) -> "Configuration | None":
        """What is in force when the change has ended."""
        if self.change is None:
            return None
        to = self.change.to
        return Configuration(to.epoch, to.accesspoints, to.matchers, to.exitpoints, to.routing, to.map, epochs=to.epoch)

    def in_force(self) -> "Configuration":
        """Without the change; from the phase `changing` on, what the change leads to."""
        if self.change is None:
            return self
        if self.change.phase in REVERSIBLE:
            return msgspec.structs.replace(self, change=None)
        target = self.target()
        assert target is not None
        return target

    def union(self, layer: Layer) -> list[str]:
        """The slices of a layer before and after the change, the old ones first."""
        target = self.target()
        return list(dict.fromkeys([*self.of_layer(layer), *(target.of_layer(layer) if target is not None else ())]))

    def taking(self) -> list[str]:
        """Access points that take publications and calls: also those that leave, until they have said the last word."""
        if self.change is not None and self.change.phase == "ending":
            return list(self.change.to.accesspoints)
        return self.union("accesspoint")


def slice_name(layer: Layer, number: int) -> str:
    return f"{layer}-{number}"
