"""Slices come and go with the scalings: the launcher starts those that one wants, and stops those that are left out."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from braid.coordination_events import CoordinationUnavailable, CorruptConfiguration
from braid.scaling import ScalingRecord
from braid.topology import CONFIGURED_LAYERS, Configuration
from coordinator.data_directory import DataDirectory
from coordinator.following import Following
from coordinator.processes import Command
from coordinator.screen import Screen
from coordinator.shape import in_force, layer_of
from coordinator.supervisor import Supervisor

LEAVE_PATIENCE_S = 30.0  # nobody waits for a slice that was left out, so it may take its time
RETRY_S = 1.0
# A script may scale in and out again at once. Whoever is told to stop is still registered for a moment, and a scaling
# that took it in then would be given up when it goes.
IDLE_S = 2.0


def wanted(
    configuration: Configuration | None, scaling: ScalingRecord | None, running: Iterable[str], stopped: Iterable[str]
) -> list[str]:
    """The slices that the scaling waits for and that do not run yet.

    And those that were being stopped here when a scaling took them in: they take part without running.
    """
    names = list(scaling.wants) if scaling is not None else []
    if configuration is not None:
        taking_part = {name for layer in CONFIGURED_LAYERS for name in configuration.union(layer)}
        names += [name for name in stopped if name in taking_part]
    return [name for name in dict.fromkeys(names) if name not in running and layer_of(name)]


def left_out(configuration: Configuration | None, scaling: ScalingRecord | None, running: Iterable[str]) -> list[str]:
    """The slices that nobody has a use for. While anything changes nobody is judged."""
    if configuration is None or configuration.change is not None or scaling is not None:
        return []
    configured = {name for names in in_force(configuration).values() for name in names}
    return [name for name in running if layer_of(name) and name not in configured]


def is_needed(configuration: Configuration | None, name: str) -> bool:
    """Whether the cluster cannot work without it. Before the first configuration that is so for everything."""
    layer = layer_of(name)
    return layer is None or configuration is None or name in in_force(configuration)[layer]


class Idling:
    """Since when nobody has had a use for each slice."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}

    def long_enough(self, left_out: Iterable[str], now_s: float) -> tuple[list[str], float | None]:
        """Those of them that were left out for long enough, and when to ask again."""
        self._since_s = {name: self._since_s.get(name, now_s) for name in left_out}
        due_s = {name: since_s + IDLE_S for name, since_s in self._since_s.items()}
        later = [at_s for at_s in due_s.values() if at_s > now_s]
        return [name for name, at_s in due_s.items() if at_s <= now_s], min(later, default=None)


class Growing:
    """One after the other, so that a slice whose name is wanted again is started when its predecessor is gone."""

    def __init__(
        self,
        following: Following,
        supervisor: Supervisor,
        data: DataDirectory,
        screen: Screen,
        command_of: Callable[[str], Command],
    ) -> None:
        self._following = following
        self._supervisor = supervisor
        self._data = data
        self._screen = screen
        self._command_of = command_of
        self._idling = Idling()
        self._leaving: set[str] = set()
        self._stopped: dict[str, None] = {}  # what was started here and let go, in order
        self._scaling_id = ""
        self.changed = asyncio.Event()
        self.changed.set()

    async def run(self) -> None:
        while True:
            await self.changed.wait()
            self.changed.clear()
            self._keep_shape()
            await self._start_wanted()
            await self._stop_left_out()

    def _keep_shape(self) -> None:
        if self._following.configuration is None:
            return
        try:
            self._data.keep_shape(in_force(self._following.configuration))
        except OSError as error:  # the next start asks ZooKeeper first
            self._screen.note(f"the shape of the cluster cannot be written to {self._data.path}: {error.strerror}")

    async def _start_wanted(self) -> None:
        scaling = self._following.scaling
        if scaling is not None and scaling.id != self._scaling_id:
            # Another attempt, perhaps after the reason was found in the log.
            self._scaling_id = scaling.id
            self._supervisor.given_up.clear()
        for name in wanted(self._following.configuration, scaling, self._supervisor.names(), self._stopped):
            if name not in self._supervisor.given_up:
                self._screen.note(f"starting {name}" + (f" for {scaling.id}" if scaling is not None else ""))
                await self._supervisor.add(self._command_of(name))

    async def _stop_left_out(self) -> None:
        following = self._following
        if not following.knows_scaling or not self._idle(following.configuration):
            return
        try:
            # A scaling ends in the configuration first. What was told of the two may not be of the same moment.
            configuration = await following.read_configuration()
        except (CoordinationUnavailable, CorruptConfiguration):
            asyncio.get_running_loop().call_later(RETRY_S, self.changed.set)
            return
        for name in self._idle(configuration):
            self._screen.note(f"stopping {name}, which is not part of the cluster any more")
            self._leaving.add(name)
            self._stopped[name] = None
            self._supervisor.let_go(name, LEAVE_PATIENCE_S).add_done_callback(partial(self._on_left, name))

    def _idle(self, configuration: Configuration | None) -> list[str]:
        """Those that may be stopped now. For those that may be later, it comes back then."""
        running = [name for name in self._supervisor.names() if name not in self._leaving]
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        idle, again_s = self._idling.long_enough(left_out(configuration, self._following.scaling, running), now_s)
        if again_s is not None:
            loop.call_at(again_s, self.changed.set)
        return idle

    def _on_left(self, name: str, _task: asyncio.Task[None]) -> None:
        self._leaving.discard(name)
        self.changed.set()
