"""What stands in ZooKeeper: paths, payloads, and whose a znode is. No connection is made here.

`docs/znodes.md` lists every path with who writes it, who watches it and when it goes away.
"""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from braid.anchor_map import AnchorMap
from braid.scaling import Progress, Report, ScalingRecord, Step
from braid.topology import LAYERS, Configuration, Layer, Registration

ROOT = "/braid"
NO_VERSION = -1  # the version of a znode that is not there
PROGRESS = "progress"  # instead of a step, in the name of the znode


class Paths:
    """Every path of one cluster."""

    def __init__(self, cluster: str) -> None:
        self.cluster = f"{ROOT}/{cluster}"
        self.configuration = f"{self.cluster}/configuration"
        self.coordinators = f"{self.cluster}/coordinators"
        self.scaling = f"{self.cluster}/scaling"
        self.scalings = f"{self.cluster}/scalings"
        self.changes = f"{self.cluster}/changes"
        self.maps = f"{self.cluster}/maps"

    def layer(self, layer: Layer) -> str:
        return f"{self.cluster}/slices/{layer}"

    def registration(self, layer: Layer, name: str) -> str:
        return f"{self.layer(layer)}/{name}"

    def candidate(self, name: str) -> str:
        return f"{self.coordinators}/{name}"

    def ended(self, scaling: str) -> str:
        return f"{self.scalings}/{scaling}"

    def change(self, change: str) -> str:
        return f"{self.changes}/{change}"

    def report(self, change: str, step: Step, slice: str) -> str:
        return f"{self.change(change)}/{step}:{slice}"

    def progress(self, change: str, slice: str) -> str:
        return f"{self.change(change)}/{PROGRESS}:{slice}"

    def map(self, version: str) -> str:
        return f"{self.maps}/{version}"

    def directories(self) -> tuple[str, ...]:
        """The znodes that stay and only hold others."""
        return (*(self.layer(layer) for layer in LAYERS), self.coordinators, self.scalings, self.changes, self.maps)


class Candidate(msgspec.Struct, frozen=True):
    """A coordinator that stands for election."""

    host: str
    pid: int


def encode(payload: Registration | Configuration | Candidate | ScalingRecord | Report | Progress) -> bytes:
    """Of a map its version stands for it; the map itself is a znode of its own."""
    return msgspec.json.encode(payload, enc_hook=_version_of)


def decode_registration(payload: bytes) -> Registration:
    """Raises `msgspec.MsgspecError` for anything else."""
    return msgspec.json.decode(payload, type=Registration)


def decode_candidate(payload: bytes) -> Candidate:
    """Raises `msgspec.MsgspecError` for anything else."""
    return msgspec.json.decode(payload, type=Candidate)


def decode_configuration(payload: bytes, maps: Mapping[str, AnchorMap] | None = None) -> Configuration:
    """With the maps that it names. Raises `msgspec.MsgspecError` for anything else, or where one of them is missing."""

    def resolve(_kind: type, version: Any) -> AnchorMap:
        found = None if maps is None or not isinstance(version, str) else maps.get(version)
        if found is None:
            raise ValueError(f"the map {version} is missing, or damaged")
        return found

    return msgspec.json.decode(payload, type=Configuration, dec_hook=resolve)


def maps_named_in(payload: bytes) -> list[str]:
    """The versions of the maps that a configuration names. Raises `msgspec.MsgspecError` for anything else."""
    named = msgspec.json.decode(payload, type=_Named)
    versions = (named.map, None if named.change is None else named.change.to.map)
    return [version for version in dict.fromkeys(versions) if version is not None and is_map_version(version)]


def decode_record(payload: bytes) -> ScalingRecord:
    """Raises `msgspec.MsgspecError` for anything else."""
    return msgspec.json.decode(payload, type=ScalingRecord)


def decode_report(payload: bytes) -> Report:
    """Raises `msgspec.MsgspecError` for anything else."""
    return msgspec.json.decode(payload, type=Report)


def decode_progress(payload: bytes) -> Progress:
    """Raises `msgspec.MsgspecError` for anything else."""
    return msgspec.json.decode(payload, type=Progress)


def is_scaling_id(text: str) -> bool:
    """It becomes part of a path, and comes from people."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}", text) is not None


def is_map_version(text: str) -> bool:
    """It becomes part of a path too."""
    return re.fullmatch(r"[0-9a-f]{1,64}", text) is not None


def in_order_of_arrival(candidates: Iterable[str]) -> list[str]:
    """ZooKeeper ends each name with a number that only grows; the first one leads."""
    return sorted(candidates, key=lambda name: int(name.rpartition("-")[2]))


Holder = Literal["ourselves", "gone", "unknown"]


def judge_holder(holder: Registration, ours: Registration, predecessor: int | None = None) -> Holder:
    """Who holds the name that we want? Called only when it was registered by another session than ours.

    A slice that was killed leaves its znode until its session times out. When it ran on this host, the process
    table knows at once that it is gone, and its successor need not wait; nor when its incarnation is that of the
    predecessor whose lock we hold.
    """
    if (holder.pid, holder.incarnation) == (ours.pid, ours.incarnation):
        return "ourselves"
    if holder.incarnation == predecessor:
        return "gone"
    if _host(holder) == _host(ours) and _is_gone(holder.pid, ours.pid):
        return "gone"
    return "unknown"


def is_dead_candidate(candidate: Candidate, ours: Candidate) -> bool:
    """The same for a coordinator: one that was killed would lead until its session times out.

    Where two containers have the name of one host, a living one may be taken for dead. That does no harm: a leader
    writes only while its znode is there, and stands again without it.
    """
    return candidate.host == ours.host and _is_gone(candidate.pid, ours.pid)


class _NamedTarget(msgspec.Struct):
    map: str | None = None


class _NamedChange(msgspec.Struct):
    to: _NamedTarget


class _Named(msgspec.Struct):
    """Just what a configuration says of maps."""

    map: str | None = None
    change: _NamedChange | None = None


def _version_of(value: Any) -> str:
    if isinstance(value, AnchorMap):
        return value.version
    raise NotImplementedError(f"{type(value).__name__} has no place in ZooKeeper")


def _is_gone(pid: int, ours: int) -> bool:
    """Whether the process table of this host is sure of it."""
    if pid == ours or pid <= 0:
        return False  # another container, where the same number means another process
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False  # there is such a process, but its number may have been given to a new one


def _host(registration: Registration) -> str:
    return registration.address.rpartition(":")[0]
