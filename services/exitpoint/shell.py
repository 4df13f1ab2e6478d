"""The exit point as a process."""

import time
from collections.abc import Sequence
from typing import Any

from braid import messages, metrics
from braid.codec import Hello
from braid.config import Settings
from braid.messages import AnyMessage, Send
from braid.scaling import ReportStep
from braid.slice import ProbedSlice
from braid.topology import Configuration, Registration
from services.exitpoint.core import ExitPointCore
from services.exitpoint.measuring import Measuring


class ExitPoint(ProbedSlice):
    layer = "exitpoint"
    # What a connection point has not received is remembered by the core, and bounded by the windows of the origins:
    # a connection point that does not read delays nobody else.
    pause_upstream = False
    held_messages_max = 0

    def __init__(self, name: str, settings: Settings, http_port: int) -> None:
        super().__init__(name, settings, http_port)
        limits = settings.exitpoint
        self._core = ExitPointCore(name, time.time_ns, limits.gathers_max, limits.gather_s_max, limits.away_s_max)
        self._measuring = None if self.measures is None else Measuring(self.measures, self._core)

    def targets(self) -> list[str]:
        return [registration.name for registration in self.slices() if registration.layer == "connpoint"]

    def on_slices(self, slices: dict[str, Registration]) -> None:
        connpoints = {name: r.incarnation for name, r in slices.items() if r.layer == "connpoint"}
        self.perform(self._core.on_connpoints(connpoints))

    def on_configured(self, configuration: Configuration) -> None:
        self.perform(self._core.scaling.on_configuration(configuration))

    def on_peer_up(self, peer: Hello) -> None:
        if peer.layer == "connpoint":
            self.perform(self._core.on_connpoint_up(peer.name, peer.incarnation))

    def handle(self, peer: Hello, kind: type[AnyMessage], run: list[Any]) -> None:
        if kind is messages.Partial:
            self.perform(self._core.on_partials(run, time.time(), time.time_ns()))
        elif kind is messages.Received:
            self.perform(self._core.on_received(peer.name, run))
        elif kind is messages.ConfirmedElsewhere:
            self.perform(self._core.on_confirmed_elsewhere(run, time.time()))
        elif kind is messages.ChangeMatcherOnExitPoint:
            for message in run:
                self.perform(self._core.scaling.on_change_matcher_on_exit_point(peer.name, message))
        else:
            self.reject(peer, kind)

    def perform(self, effects: Sequence[Send | ReportStep]) -> None:
        super().perform(effects)
        if self._measuring is not None:
            self._measuring.on_performed()

    def queues(self) -> dict[str, int]:
        return {**super().queues(), "gathers": self._core.gathers}

    def on_tick(self, now_s: float) -> None:
        self.perform(self._core.on_tick(now_s))
        self.perform(self._core.scaling.on_tick(self._core.gathers))
        metrics.ORDER_VIOLATIONS.labels(self.layer).set(self._core.scaling.violations)
        metrics.GATHERS.set(self._core.gathers)
        metrics.UNDELIVERABLE.set(self._core.undeliverable)
        metrics.GATHERS_DROPPED.set(self._core.dropped)
        metrics.STALE.labels(self.layer).set(self._core.stale)
