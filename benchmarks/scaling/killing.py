"""The process that kills: it watches the configuration in ZooKeeper, and the instant a phase stands there, it kills.

A phase at the cut lasts some 50 milliseconds, so nothing else is done in this process. It says which phase it saw, and
which one stood there behind the kill: where that is another one, the later one counts, unless ZooKeeper wrote it later.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from benchmarks.scaling.kill_cases import COORDINATOR, OVER, Case, has_reached, victim_of
from benchmarks.scaling.processes import Worker
from braid import znodes
from braid.anchor_map import AnchorMap
from braid.topology import LAYERS, Configuration

_LOOKS_S = 0.2  # whether it was called off
_CLUSTER = "braid"


class Hit(NamedTuple):
    victim: str  # empty: nobody was killed
    phase: str  # in which it was; `OVER` when the change had ended
    at_s: float  # since 1970


MISSED = Hit("", OVER, 0.0)


def kill(hosts: str, orders: Connection, _count: Any) -> None:
    """The whole process: a case comes, a hit goes back."""
    sys.setswitchinterval(0.0002)  # kazoo answers on threads of its own
    with contextlib.suppress(PermissionError):
        os.nice(-10)  # the machine is busy, and the phase does not wait
    zookeeper = KazooClient(hosts)
    zookeeper.start()
    watch = _Watch(zookeeper)
    while True:
        case = orders.recv()
        if case is not None:  # else it was called off when it had answered already
            orders.send(watch.hit(case, orders))


class _Watch:
    def __init__(self, zookeeper: KazooClient) -> None:
        self._zookeeper = zookeeper
        self._paths = znodes.Paths(_CLUSTER)
        self._maps: dict[str, AnchorMap] = {}  # by version, which never means another one
        self._changed = threading.Event()

    def hit(self, case: Case, orders: Connection) -> Hit:
        victim, pid = "", 0
        while not orders.poll():
            self._changed.clear()
            payload, stat = self._zookeeper.get(self._paths.configuration, watch=lambda _event: self._changed.set())
            configuration = self._decode(payload)
            change = configuration.change
            if change is None and pid:
                return MISSED
            if change is not None and not pid:
                victim, pid = self._find(case.participant, configuration)
            if change is not None and pid and has_reached(change.phase, case.phase):
                return self._kill(victim, pid, change.phase, stat.version)
            self._changed.wait(_LOOKS_S)
        orders.recv()
        return MISSED

    def _kill(self, victim: str, pid: int, seen: str, version: int) -> Hit:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:  # it has been left out and stopped
            return MISSED
        killed_s = time.time()
        payload, stat = self._zookeeper.get(self._paths.configuration)
        if stat.version == version or stat.mtime > 1000 * killed_s:
            return Hit(victim, seen, killed_s)
        change = self._decode(payload).change
        return Hit(victim, OVER if change is None else change.phase, killed_s)

    def _find(self, participant: str, configuration: Configuration) -> tuple[str, int]:
        """Name and process id, as they stand in ZooKeeper."""
        if participant == COORDINATOR:
            leader = znodes.in_order_of_arrival(self._zookeeper.get_children(self._paths.coordinators))[0]
            return COORDINATOR, znodes.decode_candidate(self._get(self._paths.candidate(leader))).pid
        victim = victim_of(participant, configuration)
        for layer in LAYERS:
            with contextlib.suppress(NoNodeError):
                return victim, znodes.decode_registration(self._get(self._paths.registration(layer, victim))).pid
        return "", 0

    def _decode(self, payload: bytes) -> Configuration:
        """With its maps. They are read once, long before the phase that is waited for."""
        for version in znodes.maps_named_in(payload):
            if version not in self._maps:
                self._maps[version] = AnchorMap.decode(self._get(self._paths.map(version)))
        return znodes.decode_configuration(payload, self._maps)

    def _get(self, path: str) -> bytes:
        payload: bytes = self._zookeeper.get(path)[0]
        return payload


class Killer(Worker):
    """The other end."""

    def __init__(self, hosts: str) -> None:
        super().__init__(kill, hosts)

    def aim(self, case: Case) -> None:
        self.orders.send(case)

    def hit(self) -> Hit:
        """What came of it. Called when the scaling has ended, so nobody is killed any more."""
        if not self.orders.poll():
            self.orders.send(None)
        answer: Hit = self.receive()
        return answer
