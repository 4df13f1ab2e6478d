"""The access point as a process."""

import time
from typing import Any

from braid import messages, metrics
from braid.codec import Hello
from braid.config import Settings
from braid.messages import AnyMessage
from braid.slice import ProbedSlice
from braid.topology import Configuration
from services.accesspoint.core import AccessPointCore


class AccessPoint(ProbedSlice):
    layer = "accesspoint"

    def __init__(self, name: str, settings: Settings, http_port: int) -> None:
        super().__init__(name, settings, http_port)
        self._core = AccessPointCore(name, time.time_ns)

    def targets(self) -> list[str]:
        configuration = self.configuration()
        return [] if configuration is None else configuration.union("matcher")

    def on_configured(self, configuration: Configuration) -> None:
        self.perform(self._core.on_configuration(configuration, time.time()))

    def on_peer_up(self, peer: Hello) -> None:
        if peer.layer == "matcher":
            self.perform(self._core.on_matcher_up(peer.name))

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
                case (
                    messages.SubscriptionStored()
                    | messages.SubscriptionRemoved()
                    | messages.SubscriptionsFound()
                    | messages.SubscriptionGone()
                    | messages.Explained()
                ):
                    self.perform(self._core.on_answer(message))
                case _:
                    self.reject(peer, kind)

    def on_tick(self, now_s: float) -> None:
        self.perform(self._core.scaling.on_tick(now_s))
        buffers = self._core.scaling.buffers
        metrics.STALE.labels(self.layer).set(self._core.stale)
        metrics.CALLS_KEPT_BACK.set(len(buffers.kept_back))
        metrics.BATCHES_HELD.set(len(buffers.held))
        metrics.SCALING_DROPPED.set(buffers.dropped)
        self.show_progress({"kept_back": len(buffers.kept_back), "held": len(buffers.held)})
