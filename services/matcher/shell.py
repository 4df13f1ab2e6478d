"""The matcher as a process."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog

from braid import messages, metrics
from braid.codec import Hello
from braid.config import Settings
from braid.matching.compiled import is_complete
from braid.matching.warm import warm
from braid.messages import AnyMessage, Send
from braid.slice import ProbedSlice
from braid.topology import Configuration
from services.matcher.core import Effect, Erase, MatcherCore, Store
from services.matcher.store import SubscriptionStore

log = structlog.get_logger()

_EXPIRE_EVERY_S = 1.0
_QUEUED_WRITES_MAX = 50_000  # a subscription beyond it is dropped; its connection point asks again


class Matcher(ProbedSlice):
    layer = "matcher"

    def __init__(self, name: str, settings: Settings, http_port: int) -> None:
        super().__init__(name, settings, http_port)
        self._core: MatcherCore  # made when the engine is compiled
        self._store = SubscriptionStore(self.directory / "subscriptions", settings.matching)
        self._expire_at_s = 0.0

    async def open(self) -> None:
        if not is_complete():
            log.warning("compiling the matching engine; 'python -m braid.matching.warm' does it ahead of time")
        await asyncio.to_thread(warm)
        self._core = MatcherCore(self.name, time.time_ns)
        started = time.perf_counter()
        records = await self._store.open()
        self._core.on_recovered(records)
        log.info("recovered", subscriptions=len(records), seconds=round(time.perf_counter() - started, 3))

    async def close(self) -> None:
        await super().close()
        await self._store.close()

    def targets(self) -> list[str]:
        configuration = self.configuration()
        return [] if configuration is None else list(configuration.exitpoints)

    def on_configured(self, configuration: Configuration) -> None:
        self._core.on_configuration(configuration)

    def handle(self, peer: Hello, kind: type[AnyMessage], run: list[Any]) -> None:
        if kind is messages.MatchRequest:
            self.perform(self._core.on_match_requests(run, time.time(), time.time_ns()))
            return
        if self._store.queued > _QUEUED_WRITES_MAX:
            metrics.MESSAGES_DROPPED.labels(self.layer, "store is behind").inc(len(run))
            return
        for message in run:
            match message:
                case messages.Subscribe():
                    effects = self._core.on_subscribe(message)
                case messages.Unsubscribe():
                    effects = self._core.on_unsubscribe(message)
                case messages.FindSubscriptions():
                    effects = self._core.on_find_subscriptions(message)
                case messages.Explain():
                    effects = self._core.on_explain(message, time.time())
                case _:
                    self.reject(peer, kind)
                    return
            self._perform_effects(effects, peer.name)

    def _perform_effects(self, effects: list[Effect], accesspoint: str) -> None:
        """Answers go back the way the question came, through the access point."""
        for effect in effects:
            match effect:
                case Send():
                    self.links.send(accesspoint, effect.messages)
                case Store(record, then):
                    self._store.put(record, self._answer_when_done(accesspoint, then))
                case Erase(id, then):
                    self._store.erase(id, None if then is None else self._answer_when_done(accesspoint, then))

    def _any_accesspoint(self) -> str:
        """For what nobody asked: any access point reaches every connection point."""
        configuration = self.configuration()
        return "" if configuration is None else configuration.accesspoints[0]

    def _answer_when_done(self, accesspoint: str, then: Send) -> Callable[[Exception | None], None]:
        return partial(self._answer, accesspoint, then)

    def _answer(self, accesspoint: str, then: Send, failure: Exception | None) -> None:
        if failure is None:
            self.links.send(accesspoint, then.messages)

    def on_tick(self, now_s: float) -> None:
        if now_s >= self._expire_at_s:
            self._expire_at_s = now_s + _EXPIRE_EVERY_S
            self._perform_effects(self._core.on_tick(now_s), self._any_accesspoint())
        self._store.flush()
        metrics.STALE.labels(self.layer).set(self._core.stale)
        metrics.UNREADABLE.set(self._core.unreadable)
        metrics.SUBSCRIPTIONS_REFUSED.set(self._core.refused)
        self._show(self._core.index.statistics())

    def _show(self, statistics: dict[str, int]) -> None:
        metrics.SUBSCRIPTIONS.labels(self.layer).set(statistics["subscriptions"])
        metrics.INDEX_PROGRAMS.set(statistics["programs"])
        metrics.INDEX_KEYS.set(statistics["keys"])
        metrics.INDEX_POOL_BYTES.set(statistics["pool_bytes"])
        metrics.INDEX_CANDIDATES.set(statistics["candidates"])
        metrics.TOPICS_REMEMBERED.set(statistics["topics_remembered"])
