"""The access point as a process."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from braid import messages, metrics
from braid.codec import Hello
from braid.config import Settings
from braid.coordination_events import CorruptConfiguration
from braid.matching.warm import warm
from braid.messages import AnyMessage, Send
from braid.scaling import ReportStep
from braid.slice import ProbedSlice
from braid.topology import Configuration
from services.accesspoint.core import AccessPointCore
from services.accesspoint.measuring import Measuring


class AccessPoint(ProbedSlice):
    layer = "accesspoint"

    def __init__(self, name: str, settings: Settings, http_port: int) -> None:
        super().__init__(name, settings, http_port)
        self._core = AccessPointCore(name, time.time_ns, keeps_publications=settings.storage.keep_publications)
        # Matchers have a bounded number of parts under way, so these are few.
        self._unread: list[tuple[str, messages.Anchors]] = []
        self._warming: asyncio.Task[None] | None = None
        self._is_warm = False
        self._measuring = None if self.measures is None else Measuring(self.measures, self._core)

    async def prepare(self) -> None:
        """Where publications are routed by anchors, or soon will be, the engine is loaded now and not at the cut."""
        try:
            configuration, _ = await self.coordination.read_configuration()
        except CorruptConfiguration:
            configuration = None  # it waits for one that can be read, as every slice does
        running = await self.coordination.read_running_scaling()
        wanted = None if running is None else running.asked.routing
        if wanted == "anchored" or (configuration is not None and configuration.routing == "anchored"):
            await asyncio.to_thread(warm)

    async def close(self) -> None:
        if self._warming is not None:
            self._warming.cancel()
        await super().close()

    def targets(self) -> list[str]:
        configuration = self.configuration()
        return [] if configuration is None else configuration.union("matcher")

    def on_configured(self, configuration: Configuration) -> None:
        self.perform(self._core.on_configuration(configuration, time.time()))

    def on_peer_up(self, peer: Hello) -> None:
        if peer.layer == "matcher":
            # A matcher that was started again counts its parts anew: it must not hear of old ones.
            self._unread = [(matcher, message) for matcher, message in self._unread if matcher != peer.name]
            self.perform(self._core.on_matcher_up(peer.name))
        elif peer.layer == "connpoint":
            self._core.scaling.on_connpoint_up(peer.name)

    def on_peer_down(self, peer: Hello) -> None:
        if peer.layer == "connpoint":
            self.perform(self._core.scaling.on_connpoint_down(peer.name, time.time()))

    def handle(self, peer: Hello, kind: type[AnyMessage], run: list[Any]) -> None:
        if kind is messages.Publications:
            self.perform(self._core.on_publications(run, time.time(), time.time_ns()))
            return
        for message in run:
            match message:
                case messages.Subscribe():
                    self.perform(self._core.on_subscribe(message, time.time()))
                case messages.Unsubscribe():
                    self.perform(self._core.on_unsubscribe(message, time.time()))
                case messages.FindSubscriptions():
                    self.perform(self._core.on_find_subscriptions(message))
                case messages.Explain():
                    self.perform(self._core.on_explain(message))
                case messages.FindPublications():
                    self.perform(self._core.on_find_publications(message))
                case (
                    messages.SubscriptionStored()
                    | messages.SubscriptionRemoved()
                    | messages.SubscriptionsFound()
                    | messages.SubscriptionGone()
                    | messages.Explained()
                    | messages.PublicationsFound()
                ):
                    self.perform(self._core.on_answer(message))
                case messages.Anchors():
                    self._on_anchors(peer.name, message)
                case messages.GoesElsewhere():
                    self.perform(self._core.scaling.on_goes_elsewhere(peer.name, message, time.time()))
                case _:
                    self.reject(peer, kind)

    def _on_anchors(self, matcher: str, message: messages.Anchors) -> None:
        """The matching engine is loaded when it is needed: where all publications go to all matchers it never is."""
        if self._is_warm:
            self.perform(self._core.on_anchors(matcher, message))
            return
        self._unread.append((matcher, message))
        if self._warming is None:
            self._warming = asyncio.get_running_loop().create_task(self._warm())

    async def _warm(self) -> None:
        await asyncio.to_thread(warm)
        self._is_warm = True  # also where the links of all that is unread were lost meanwhile
        unread, self._unread = self._unread, []
        for matcher, message in unread:
            self.perform(self._core.on_anchors(matcher, message))

    def perform(self, effects: Sequence[Send | ReportStep]) -> None:
        super().perform(effects)
        if self._measuring is not None:
            self._measuring.on_performed()

    def queues(self) -> dict[str, int]:
        buffers = self._core.scaling.buffers
        return {**super().queues(), "calls_kept_back": len(buffers.kept_back), "batches_held": len(buffers.held)}

    def on_tick(self, now_s: float) -> None:
        self.perform(self._core.scaling.on_tick(now_s))
        buffers = self._core.scaling.buffers
        metrics.STALE.labels(self.layer).set(self._core.stale)
        metrics.CALLS_KEPT_BACK.set(len(buffers.kept_back))
        metrics.BATCHES_HELD.set(len(buffers.held))
        metrics.SCALING_DROPPED.set(buffers.dropped)
        metrics.LEFT_EARLY.set(self._core.scaling.left_early)
        routes = self._core.routes
        if routes is not None:
            routes.clean()
            metrics.ANCHORS.set(routes.anchors)
            metrics.ANCHORS_REFUSED.set(routes.refused)
        self.show_progress({"kept_back": len(buffers.kept_back), "held": len(buffers.held)})
