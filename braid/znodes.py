"""What stands in ZooKeeper: paths, payloads, and whose a znode is. No connection is made here.

`docs/znodes.md` lists every path with who writes it, who watches it and when it goes away.
"""

import os
from collections.abc import Iterable
from typing import Literal

import msgspec

from braid.topology import LAYERS, Configuration, Layer, Registration

ROOT = "/braid"
NO_VERSION = -1  # the version of a znode that is not there


class Paths:
    """Every path of one cluster."""

    def __init__(self, cluster: str) -> None:
        self.cluster = f"{ROOT}/{cluster}"
        self.configuration = f"{self.cluster}/configuration"
        self.coordinators = f"{self.cluster}/coordinators"

    def layer(self, layer: Layer) -> str:
        return f"{self.cluster}/slices/{layer}"

    def registration(self, layer: Layer, name: str) -> str:
        return f"{self.layer(layer)}/{name}"

    def candidate(self, name: str) -> str:
        return f"{self.coordinators}/{name}"

    def directories(self) -> tuple[str, ...]:
        """The znodes that stay and only hold others."""
        return (*(self.layer(layer) for layer in LAYERS), self.coordinators)


class Candidate(msgspec.Struct, frozen=True):
    """A coordinator that stands for election. For people who look; nothing is decided from it."""

    host: str
    pid: int


def encode(payload: Registration | Configuration | Candidate) -> bytes:
    return msgspec.json.encode(payload)


def decode_registration(payload: bytes) -> Registration:
    """Raises `msgspec.MsgspecError` for anything else."""
    return msgspec.json.decode(payload, type=Registration)


def decode_configuration(payload: bytes) -> Configuration:
    """Raises `msgspec.MsgspecError` for anything else."""
    return msgspec.json.decode(payload, type=Configuration)


def in_order_of_arrival(candidates: Iterable[str]) -> list[str]:
    """ZooKeeper ends each name with a number that only grows; the first one leads."""
    return sorted(candidates, key=lambda name: int(name.rpartition("-")[2]))


Holder = Literal["ourselves", "gone", "unknown"]


def judge_holder(holder: Registration, ours: Registration) -> Holder:
    """Who holds the name that we want? Called only when it was registered by another session than ours.

    A slice that was killed leaves its znode until its session times out. When it ran on this host, the process
    table knows at once that it is gone, and its successor need not wait.
    """
    if (holder.pid, holder.incarnation) == (ours.pid, ours.incarnation):
        return "ourselves"
    if _host(holder) != _host(ours) or holder.pid == ours.pid or holder.pid <= 0:
        return "unknown"  # another machine, or another container where the same number means another process
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return "gone"
    except PermissionError:
        pass
    return "unknown"  # there is such a process, but its number may have been given to a new one


def _host(registration: Registration) -> str:
    return registration.address.rpartition(":")[0]
