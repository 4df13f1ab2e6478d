"""What is said about a scaling in ZooKeeper: who asked for what, how far it is, and what the slices report."""

from typing import Literal

import msgspec

from braid.topology import Change, Layer, Routing

Step = Literal["copied", "change-ready", "refused", "exit-point-matcher-updated", "done", "scale-end", "drained"]


NO_MAP = "none"  # in the place of a version


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What somebody wants: numbers of slices, slices to be replaced, another routing or map, or all in one scaling."""

    layers: dict[Layer, int] = {}
    replace: tuple[str, ...] = ()
    routing: Routing | None = None  # None: as it is
    map: str | None = None  # the version of an `AnchorMap`, or `NO_MAP`; None: as it is

    @property
    def named_map(self) -> str | None:
        """The version, where a map is asked for."""
        return None if self.map == NO_MAP else self.map


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A slice has done its part of a phase. Written once, as the znode `changes/<change>/<step>:<slice>`."""

    change: str
    step: Step
    slice: str
    incarnation: int
    details: dict[str, float] = {}  # "moved": subscriptions sent, "held_s": longest time a publication was held, …


class Progress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far one slice is within a phase; for people who watch. `changes/<change>/progress:<slice>`, written over."""

    change: str
    slice: str
    details: dict[str, float] = {}


class ScalingRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One scaling from the question to its end. The running one is the znode `scaling`, of which there is only one."""

    id: str
    asked: Ask
    asked_s: float  # seconds since 1970
    state: Literal["running", "done", "aborted"] = "running"
    phase: str = "asked"  # "asked", "gathering", the phases of a change, "done", "aborted"
    reason: str = ""  # why it was aborted
    wants: tuple[
        str, ...
    ] = ()  # slices that are to be started for it; a launcher does so, others register by themselves
    epoch: int | None = None  # of the configuration that it leads to
    began_s: dict[str, float] = {}  # phase -> seconds since 1970
    moved: int = 0  # subscriptions that went to another matcher
    longest_pause_s: float = 0.0  # for which a publication was held
    longest_wait_s: float = 0.0  # for which a subscription was kept back


class ReportStep(msgspec.Struct, frozen=True):
    """The effect of a core: its slice has done its part. The shell adds who and which incarnation."""

    change: str
    step: Step
    details: dict[str, float] = {}


class Reports:
    """Each step of a change is reported once, however often a slice comes to it."""

    def __init__(self) -> None:
        self._made: set[tuple[str, Step]] = set()

    def once(self, change: Change | None, step: Step, details: dict[str, float] | None = None) -> list[ReportStep]:
        if change is None or (change.id, step) in self._made:
            return []
        self._made = {made for made in self._made if made[0] == change.id} | {(change.id, step)}
        return [ReportStep(change.id, step, details or {})]
