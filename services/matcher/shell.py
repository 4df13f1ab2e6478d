"""The matcher as a process."""

import asyncio
import gc
import time
from collections import deque
from functools import partial
from typing import Any

import structlog

from braid import kept_configuration, messages, metrics
from braid.codec import Hello
from braid.config import Settings
from braid.matching.compiled import is_complete
from braid.matching.warm import warm
from braid.messages import AnyMessage, Send
from braid.scaling import ReportStep
from braid.slice import ProbedSlice
from braid.subscription import SubscriptionRecord
from braid.topology import Configuration
from services.matcher import searching
from services.matcher.core import MatcherCore
from services.matcher.effects import (
    Answer,
    Continue,
    Effects,
    Erase,
    ExpectForeign,
    Forget,
    Keep,
    KeepForeign,
    ReadKept,
    RemoveKept,
    Search,
    Store,
    StorePrevious,
    StoreState,
    WhenForgotten,
)
from services.matcher.measuring import Measuring
from services.matcher.pacing import Pacing
from services.matcher.storage.records import Cursor, Usage
from services.matcher.store import MatcherStore

log = structlog.get_logger()

_EXPIRE_EVERY_S = 1.0
_TELL_RECOVERY_S = 1.0
_CHUNKS_AT_ONCE = 4
_IN_BULK_MAX = 2_000  # subscriptions that wait for their turn on the way to disk; no more are forgotten or sent
_QUEUED_WRITES_MAX = 50_000  # what is to be written beyond it is dropped; its connection point asks or sends again
_THROUGH_ACCESS_POINTS = _WRITTEN = (messages.Subscribe, messages.Unsubscribe, messages.MatchRequest)


class Matcher(ProbedSlice):
    layer = "matcher"

    def __init__(self, name: str, settings: Settings, http_port: int) -> None:
        super().__init__(name, settings, http_port)
        self._core: MatcherCore  # made when the engine is compiled
        self._store = MatcherStore(self.directory / "store", settings)
        self._following = kept_configuration.Following(self.directory / kept_configuration.FILE)
        self._expire_at_s = 0.0
        self._pacing = Pacing()
        self._continue_at_s: float | None = None  # when long work goes on, if there is some
        self._receivers: list[str] = []
        self._chunks: deque[tuple[str, messages.AddMatcherState]] = deque()  # bounded by what is under way
        self._measuring: Measuring | None = None

    async def open(self) -> None:
        self._following.open()
        if not is_complete():
            log.warning("compiling the matching engine; 'python -m braid.matching.warm' does it ahead of time")
        await asyncio.to_thread(warm)
        storage = self.settings.storage
        self._core = MatcherCore(
            self.name,
            time.time_ns,
            keeps_publications=storage.keep_publications,
            remember_s=storage.remember_s,
            incarnation=self.incarnation,
        )
        if self.measures is not None:
            self._measuring = Measuring(self.measures, self._core)
        self._store.on_expired = self._on_expired
        await self._recover()

    async def _recover(self) -> None:
        """Says how far it is, because very many take a while."""
        started = told = time.perf_counter()

        def on_recovering(records: list[SubscriptionRecord], entries: int) -> None:
            nonlocal told
            self._core.on_recovering(records)
            if time.perf_counter() - told >= _TELL_RECOVERY_S:
                told = time.perf_counter()
                log.info("recovering", subscriptions=len(self._core.index), entries=entries)

        gc.disable()  # all of it stays, so nothing of it is garbage
        try:
            foreign_expected = await self._store.open(on_recovering)
        finally:
            gc.enable()
        self._core.on_recovered([], foreign_expected)
        self._core.ended.add(await self._store.read_ended())
        self._core.on_previous_recovered(await self._store.read_previous())
        seconds = time.perf_counter() - started
        log.info("recovered", subscriptions=len(self._core.index), seconds=round(seconds, 3))
        metrics.RECOVERY_SECONDS.set(seconds)

    async def close(self) -> None:
        await super().close()
        await self._store.close()

    def targets(self) -> list[str]:
        """Behind a scaling also the matchers that keep publications which are still here."""
        return list(dict.fromkeys([*self.needed(), *self._core.scaling.kept.receivers]))

    def needed(self) -> list[str]:
        """The exit points; and during a scaling the matchers that get a share of what this one has."""
        configuration = self.configuration()
        if configuration is None:
            return []
        change = configuration.change
        receivers = () if change is None or self.name not in configuration.matchers else change.to.matchers
        return [*configuration.union("exitpoint"), *(name for name in receivers if name != self.name)]

    def objection(self, configuration: Configuration) -> str:
        return self._following.objection(configuration)

    def on_configured(self, configuration: Configuration) -> None:
        self._following.follow(configuration)
        effects = self._core.on_configuration(configuration)
        self._link_receivers()
        self._perform_all(effects)

    def _link_receivers(self) -> None:
        """Others than before, when publications begin or cease to be handed over."""
        receivers = self._core.scaling.kept.receivers
        if receivers != self._receivers:
            self._receivers = receivers
            self._retarget()

    def on_peer_up(self, peer: Hello) -> None:
        self._perform_all(self._core.scaling.on_peer_up(peer.name))
        if peer.layer == "accesspoint":
            self._perform_all(self._core.on_accesspoint_up(peer.name))

    def handle(self, peer: Hello, kind: type[AnyMessage], run: list[Any]) -> None:
        if self._store.queued > _QUEUED_WRITES_MAX and kind in _WRITTEN:
            metrics.MESSAGES_DROPPED.labels(self.layer, "store is behind").inc(len(run))
            return
        if kind in _THROUGH_ACCESS_POINTS:
            run = self._core.taken(peer.name, run)
        if kind is messages.MatchRequest:
            self._perform_all(self._core.on_match_requests(run, time.time(), time.time_ns()))
            return
        core, sender = self._core, peer.name
        for message in run:
            match message:
                case messages.Subscribe():
                    self._perform_all(core.on_subscribe(sender, message))
                case messages.Unsubscribe():
                    self._perform_all(core.on_unsubscribe(sender, message))
                case messages.FindSubscriptions():
                    self._perform_all(core.on_find_subscriptions(sender, message))
                case messages.Explain():
                    self._perform_all(core.on_explain(sender, message, time.time()))
                case messages.FindPublications():
                    self._perform_all(core.on_find_publications(sender, message))
                case messages.AnchorsKnown():
                    self._perform_all(core.on_anchors_known(sender, message))
                case _:
                    self._handle_scaling(peer, message)

    def _handle_scaling(self, peer: Hello, message: AnyMessage) -> None:
        """The messages of a scaling, which are few."""
        scaling, sender = self._core.scaling, peer.name
        match message:
            case messages.StartScale(epoch):
                self._perform_all(scaling.on_start_scale(sender, epoch))
            case messages.AddMatcherState():
                self._take_later(sender, message)
            case messages.MatcherStateStored():
                self._perform_all(scaling.on_matcher_state_stored(sender, message))
            case messages.HandOverPublications():
                self._perform_all(scaling.on_hand_over_publications(sender, message))
            case messages.PublicationsHandedOver():
                self._perform_all(scaling.on_publications_handed_over(sender, message))
            case messages.HandOverPrevious():
                self._perform_all(scaling.on_hand_over_previous(sender, message))
            case messages.PreviousHandedOver():
                self._perform_all(scaling.on_previous_handed_over(sender, message))
            case messages.ChangeMatcherOnExitPoint():
                self._perform_all(self._core.on_change_matcher_on_exit_point(sender, message))
            case messages.ExitPointScaling(epoch):
                self._perform_all(scaling.on_exit_point_scaling(sender, epoch))
            case messages.ChangeMatcher(epoch):
                self._perform_all(scaling.on_change_matcher(sender, epoch))
            case messages.ScaleEnd(epoch):
                self._perform_all(scaling.on_scale_end(sender, epoch))
            case _:
                self.reject(peer, type(message))

    def _take_later(self, sender: str, chunk: messages.AddMatcherState) -> None:
        """All that are under way may come at once, and each takes a millisecond or two: others have their turn."""
        self._chunks.append((sender, chunk))
        if len(self._chunks) == 1:
            asyncio.get_running_loop().call_soon(self._take_chunks)

    def _take_chunks(self) -> None:
        with self.longest_steps.noting("AddMatcherState"):
            for sender, chunk in [self._chunks.popleft() for _ in range(min(_CHUNKS_AT_ONCE, len(self._chunks)))]:
                self._perform_all(self._core.scaling.on_add_matcher_state(sender, chunk))
        if self._chunks:
            asyncio.get_running_loop().call_soon(self._take_chunks)

    def _perform_all(self, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case Send() | ReportStep():
                    self.perform([effect])
                case Store(record, answer, is_new):
                    self._store.put(record, is_new=is_new, done=partial(self._on_written, answer))
                case Erase(ids, answer):
                    self._store.erase(ids, None if answer is None else partial(self._on_written, answer))
                case Forget(ids):
                    self._store.forget(ids)
                case StoreState(records, known, removed):
                    self._store.take_chunk(records, known, removed, partial(self._on_state_stored, effect))
                case WhenForgotten():
                    self._store.when_forgotten(self._on_all_forgotten)
                case ExpectForeign(expected):
                    self._store.expect_foreign(expected)
                case Continue():
                    self._continue_soon()
                case _:
                    self._perform_for_publications(effect)
        if self._measuring is not None:
            self._measuring.on_performed()

    def _perform_for_publications(
        self, effect: Keep | StorePrevious | KeepForeign | ReadKept | RemoveKept | Search
    ) -> None:
        match effect:
            case StorePrevious():
                self._store.keep_previous(effect.changes, partial(self._on_previous_stored, effect))
            case Keep(ticket, batches):
                self._store.keep(batches, partial(self._on_kept, ticket))
            case KeepForeign(_, _, _, batches, ended):
                self._store.keep_foreign(batches, ended, partial(self._on_foreign_kept, effect))
            case ReadKept(after, reader):
                self._store.read_kept(after, partial(self._on_kept_read, reader))
            case RemoveKept(batches):
                self._store.remove_kept(batches)
            case Search(_, question, _):
                self._store.search(question, partial(self._on_searched, effect))

    def _on_expired(self, ids: list[str]) -> None:
        self._perform_all(self._core.on_expired(ids, time.time()))

    def _on_kept(self, ticket: int, _failure: Exception | None) -> None:
        """A failure was logged already; what cannot be kept is at least delivered."""
        self.perform(self._core.on_kept(ticket))
        self._on_stored(ticket)

    def _on_stored(self, ticket: int) -> None:
        """Whatever waited for it was sent."""
        if self._measuring is not None:
            self._measuring.on_stored(ticket)

    def _on_previous_stored(self, effect: StorePrevious, failure: Exception | None) -> None:
        """As above; but another matcher is told only of what is on disk."""
        if failure is None:
            self.perform(self._core.on_previous_stored(effect))
        elif effect.ticket:
            self.perform(self._core.on_kept(effect.ticket))
        self._on_stored(effect.ticket)

    def _on_foreign_kept(self, effect: KeepForeign, failure: Exception | None) -> None:
        """What cannot be kept is not acknowledged, and is sent again; one that leaves goes without it in the end."""
        if failure is None:
            self.perform(self._core.scaling.on_foreign_kept(effect))

    def _on_kept_read(self, reader: int, batches: list[messages.KeptBatch], after: Cursor | None) -> None:
        with self.longest_steps.noting("kept read"):
            self._perform_all(self._core.scaling.on_kept_read(batches, after, reader))

    def _on_searched(self, effect: Search, done: searching.Search | None) -> None:
        if done is None:
            self._core.on_not_searched(effect)
        else:
            self.perform(self._core.on_searched(effect, done.found, done.reached_s))

    def _on_written(self, answer: Answer, failure: Exception | None) -> None:
        if failure is None:
            self.perform(self._core.on_written(answer))

    def _on_state_stored(self, stored: StoreState, failure: Exception | None) -> None:
        """A chunk that cannot be written is never acknowledged, and the scaling is given up."""
        if failure is not None:
            self._perform_all(self._core.scaling.on_state_not_stored(stored))
            return
        with self.longest_steps.noting("state stored"):
            self._perform_all(self._core.scaling.on_state_stored(stored))

    def _on_all_forgotten(self, _failure: Exception | None) -> None:
        """Nothing was written for it that could have failed."""
        self._perform_all(self._core.on_all_forgotten())

    def _continue_soon(self) -> None:
        """Behind whatever has arrived meanwhile."""
        if self._continue_at_s is None:
            loop = asyncio.get_running_loop()
            in_a_hurry = self._core.is_answering or self._core.scaling.is_in_a_hurry
            self._continue_at_s = loop.time() + self._pacing.rest_s(in_a_hurry=in_a_hurry)
            loop.call_at(self._continue_at_s, self._continue, self._continue_at_s)

    def _continue(self, due_s: float) -> None:
        self._continue_at_s = None
        self._pacing.on_turn(asyncio.get_running_loop().time() - due_s)
        if self._store.in_bulk > _IN_BULK_MAX and not self._core.is_answering:
            self._continue_soon()
            return
        with self.longest_steps.noting("continuing"):
            self._perform_all(self._core.on_continue())

    def queues(self) -> dict[str, int]:
        return {**super().queues(), "writes": self._store.queued, "bulk_writes": self._store.in_bulk}

    def on_tick(self, now_s: float) -> None:
        if now_s >= self._expire_at_s:
            self._expire_at_s = now_s + _EXPIRE_EVERY_S
            self._perform_all(self._core.on_second(now_s))
        self._perform_all(self._core.on_tick(now_s))
        self._store.flush()
        self._link_receivers()
        metrics.STALE.labels(self.layer).set(self._core.stale)
        metrics.UNREADABLE.set(self._core.unreadable)
        metrics.SCALING_DROPPED.set(self._core.dropped)
        metrics.CALLS_OVERTAKEN.set(self._core.calls.overtaken)
        metrics.SUBSCRIPTIONS_REFUSED.set(self._core.refused)
        metrics.SUBSCRIPTIONS_EXPIRED.set(self._core.expired)
        kept = self._core.scaling.kept
        metrics.PUBLICATIONS_HANDED_OVER.labels("stored").set(kept.handed_over)
        metrics.PUBLICATIONS_HANDED_OVER.labels("left").set(kept.left)
        metrics.PUBLICATIONS_HANDED_OVER.labels("removed").set(kept.removed)
        metrics.RELOCATING.set(kept.is_relocating)
        metrics.ORDER_VIOLATIONS.labels(self.layer).set(self._core.scaling.violations)
        self.show_progress(self._core.scaling.progress())
        self._show(self._core.index.statistics())
        self._show_storage(self._store.usage)

    def _show_storage(self, usage: Usage) -> None:
        metrics.STORAGE_BYTES.set(usage.disk_bytes)
        metrics.STORAGE_TRASH_BYTES.set(usage.trash_bytes)
        metrics.STORAGE_ENTRIES.set(usage.entries)
        metrics.STORAGE_WAITING.labels("soon").set(self._store.queued)
        metrics.STORAGE_WAITING.labels("bulk").set(self._store.in_bulk)
        metrics.STORAGE_WINDOWS_DROPPED.set(usage.windows_dropped)
        metrics.STORAGE_DAMAGES.set(len(self._store.damages))
        metrics.PUBLICATIONS_GIVEN_UP.labels("evicted").set(usage.publications_evicted)
        metrics.PUBLICATIONS_GIVEN_UP.labels("no room").set(self._store.not_kept)

    def _show(self, statistics: dict[str, int]) -> None:
        metrics.SUBSCRIPTIONS.labels(self.layer).set(statistics["subscriptions"])
        metrics.INDEX_PROGRAMS.set(statistics["programs"])
        metrics.INDEX_KEYS.set(statistics["keys"])
        metrics.INDEX_POOL_BYTES.set(statistics["pool_bytes"])
        metrics.INDEX_CANDIDATES.set(statistics["candidates"])
        metrics.TOPICS_REMEMBERED.set(statistics["topics_remembered"])
        metrics.PREVIOUS_BYTES.set(statistics["previous_bytes"])
        metrics.TOPICS_FORGOTTEN.set(statistics["topics_forgotten"] + self._core.scaling.previous.forgotten)
