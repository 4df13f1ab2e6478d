"""The connection point as a process: the door to the outside, and both ends of a publication's way."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import structlog

from braid import messages, metrics, problems
from braid.anchor_map import AnchorMap
from braid.codec import Hello
from braid.config import Settings
from braid.content import Content
from braid.messages import AnyMessage, Hop
from braid.scaling import Ask, Progress, ScalingRecord
from braid.slice import Slice
from braid.subscription import Subscription, SubscriptionPatch, SubscriptionRecord
from braid.telemetry.totals import total_of
from braid.topology import Configuration, Registration
from services.connpoint.closing import Closing
from services.connpoint.couriers import Couriers
from services.connpoint.delivery import DeliveryCore
from services.connpoint.door import (
    Attachment,
    DeadLetter,
    DeliveryState,
    KeptPublication,
    MatchesExplained,
    Past,
)
from services.connpoint.explaining import Explaining
from services.connpoint.http.app import create_app
from services.connpoint.http.server import HttpServer
from services.connpoint.logs import ingress_log
from services.connpoint.measuring import Measuring
from services.connpoint.parting import last_words
from services.connpoint.past import PastFinder
from services.connpoint.publishing import Publishing
from services.connpoint.questions import Questions
from services.connpoint.scaling import Scalings
from services.connpoint.sinks.courier import TopicCourier
from services.connpoint.sinks.outbox import SinkOutbox
from services.connpoint.sources.reading import Sources
from services.connpoint.strays import Strays
from services.connpoint.streams import Streams
from services.connpoint.subscribing import Subscribing
from services.connpoint.webhooks.courier import Courier
from services.connpoint.webhooks.outbox import WebhookOutbox
from services.connpoint.webhooks.posting import Poster

log = structlog.get_logger()

_STOPPING = "this connection point is stopping"
_RESTORE_AGAIN_S = 1.0


class ConnPoint(Slice):
    layer = "connpoint"
    pause_upstream = False  # nothing flows through: the window bounds what goes out, the outboxes what comes in

    def __init__(self, name: str, settings: Settings, http_port: int) -> None:
        super().__init__(name, settings, http_port)
        self._log = ingress_log(name, self.incarnation, settings, self.directory, self.perform)
        self._publishing = Publishing(name, self.incarnation, self._log, settings)
        self._sources = Sources(name, settings, self.perform)
        outbox = settings.delivery
        self._delivery = DeliveryCore(name, time.time_ns, outbox.outbox_notifications_max, outbox.outbox_bytes_max)
        self._streams = Streams(self.incarnation, settings.delivery, self._on_subscriber_gone, self._has_subscriptions)
        self._closing = Closing(self._publishing, self._streams)
        self._questions = Questions(settings.api.request_timeout_s, self.perform)
        self._past = PastFinder(name, settings, self._questions)
        webhooks = WebhookOutbox(self.directory / "webhooks", settings)
        sinks = SinkOutbox(self.directory / "sinks", settings.ingress)
        self._couriers = Couriers(
            settings,
            Courier(settings, webhooks, Poster(settings.webhooks)),
            TopicCourier(name, settings, sinks, self._delivery.watermark_of),
        )
        self._subscribing = Subscribing(
            name, settings, self._delivery, self._streams, self._couriers, questions=self._questions, past=self._past
        )
        self._strays = Strays(self._couriers, self._delivery.addressed, self._subscribing.find)
        self._explaining = Explaining(name, settings, self._questions)
        self._scalings = Scalings(self.coordination, self.configuration)
        self._http: HttpServer | None = None
        self._restored = False
        self._early: list[tuple[Hello, list[Any]]] = []  # notifications, until it is known whose they are
        self._has_been_ready = False  # since it was registered
        self._restoring: asyncio.Task[None] | None = None
        self._exitpoints_linked: set[str] = set()
        self._path_incarnations: dict[str, int] = {}
        if self.measures is not None:
            Measuring(self.measures, self._log, self._publishing, self._delivery)

    # Life

    async def open(self) -> None:
        await self._log.open()
        await self._couriers.open()
        self._sources.start()

    async def serve_http(self, host: str, port: int) -> int:
        self._http = HttpServer(create_app(self), self.settings, host, port)
        return await self._http.start()

    async def prepare(self) -> None:
        await self._log.prepare()

    async def close(self) -> None:
        await self._sources.close()
        self._streams.close_all("stopping", "the connection point is stopping")
        if self._restoring is not None:
            self._restoring.cancel()
        self._subscribing.close()
        self._questions.close()
        self._publishing.close()
        if self._http is not None:
            await self._http.stop()
        await self._strays.close()
        await self._couriers.close()
        await self._log.close()

    async def drain(self) -> str:
        """Nothing new is let in from now on, and no more is read from Kafka."""
        _, why = await asyncio.gather(self._sources.leave(), self._closing.wait())
        return why

    # Cluster

    def targets(self) -> list[str]:
        configuration = self.configuration()
        return [] if configuration is None else configuration.union("accesspoint")

    def on_configured(self, configuration: Configuration) -> None:
        self._log.on_configuration(configuration)
        self._sources.on_configuration(configuration)
        self._questions.on_configuration(configuration)
        self.perform(last_words(configuration))  # behind whatever these have sent

    def on_slices(self, slices: dict[str, Registration]) -> None:
        """A slice of the path that was started again may have lost what was under way."""
        self._tell_log()
        path = {name: r.incarnation for name, r in slices.items() if r.layer != "connpoint"}
        if any(self._path_incarnations.get(name, incarnation) != incarnation for name, incarnation in path.items()):
            self._log.on_slice_returned(time.time())
            self._sources.on_slice_returned(time.time())
        self._path_incarnations.update(path)

    def on_registration(self, registered: bool) -> None:
        self._tell_log()
        self._sources.on_registration(registered)
        if not registered:
            self._has_been_ready = False
            self._streams.close_all("unavailable", "the connection point lost its place in the cluster")
            self._streams.forget_all()

    def _tell_log(self) -> None:
        """Of whoever is registered; a predecessor that was killed may be listed under the name of this one."""
        connpoints = {one.name: one.incarnation for one in self.slices() if one.layer == "connpoint"}
        is_listed = self.is_registered and connpoints.get(self.name) == self.incarnation
        self._log.on_connpoints(connpoints if is_listed else ())

    def on_peer_up(self, peer: Hello) -> None:
        if peer.layer == "exitpoint":
            self._exitpoints_linked.add(peer.name)
        if peer.layer == "accesspoint":
            configuration = self.configuration()
            words = [] if configuration is None else last_words(configuration)
            self.perform([word for word in words if word.to == peer.name])
            if not self._restored and self._restoring is None:
                self._restoring = asyncio.create_task(self._restore())

    def on_peer_down(self, peer: Hello) -> None:
        self._exitpoints_linked.discard(peer.name)
        self._early = [early for early in self._early if early[0].name != peer.name]  # it sends them again

    async def _restore(self) -> None:
        while not self._restored:
            try:
                restored = await self._subscribing.restore()
            except problems.Problem as problem:
                log.warning("the subscriptions of this connection point are not known yet", reason=problem.detail)
            except Exception:  # a mistake of ours; ended silently, it would leave this slice unready for ever
                log.exception("the subscriptions of this connection point cannot be restored")
                await asyncio.sleep(_RESTORE_AGAIN_S)
            else:
                self._restored = True
                log.info("restored", subscriptions=restored)
                early, self._early = self._early, []
                for peer, run in early:
                    self._on_notifications(peer, run)

    def not_ready(self) -> list[str]:
        reasons = [_STOPPING] if self.is_draining else []
        reasons += [] if self.is_registered else ["not registered with ZooKeeper"]
        if refusal := self._log.refusal():
            reasons.append(refusal)
        configuration = self.configuration()
        if configuration is None:
            return [*reasons, "no configuration yet"]
        configuration = configuration.in_force()
        reasons += [f"no link to {name}" for name in configuration.accesspoints if not self.links.is_linked(name)]
        reasons += [f"no link from {name}" for name in configuration.exitpoints if name not in self._exitpoints_linked]
        if not self._restored:
            reasons.append("subscriptions are being restored")
        return reasons

    # Messages

    def handle(self, peer: Hello, kind: type[AnyMessage], run: list[Any]) -> None:
        if kind is messages.Notifications:
            if self._restored:
                self._on_notifications(peer, run)
            else:
                self._early.append((peer, run))
            return
        for message in run:
            match message:
                case messages.Confirmed():
                    self._publishing.on_confirmed(message, peer.name)
                    self._sources.on_confirmed(message, peer.name)
                case messages.SubscriptionStored():
                    self._subscribing.on_subscription_stored(message)
                case messages.SubscriptionRemoved():
                    self._subscribing.on_subscription_removed(message)
                case messages.SubscriptionsFound():
                    self._subscribing.on_subscriptions_found(message)
                case messages.SubscriptionGone():
                    self._subscribing.on_subscription_gone(message)
                case messages.Explained():
                    self._explaining.on_explained(message)
                case messages.PublicationsFound():
                    self._past.on_publications_found(message)
                case _:
                    self.reject(peer, kind)

    def _on_notifications(self, peer: Hello, run: list[messages.Notifications]) -> None:
        payloads, addressed, receipts = self._delivery.on_notifications(peer.name, run, time.time_ns())
        self._streams.deliver(payloads, asyncio.get_running_loop().time())
        self._strays.deliver(addressed, lambda: self.perform(receipts))

    def on_tick(self, now_s: float) -> None:
        self._publishing.on_tick(now_s)
        self._sources.on_tick(now_s)
        if self.is_draining:
            self._closing.on_tick()
        self._streams.on_tick(asyncio.get_running_loop().time())
        self._subscribing.on_tick()
        self._delivery.on_tick(now_s)
        self._couriers.on_tick(now_s)
        metrics.NOTIFICATIONS_REPEATED.set(self._delivery.repeated)
        metrics.NOTIFICATIONS_UNCLAIMED.set(self._delivery.unclaimed + self._strays.unclaimed)
        metrics.NOTIFICATIONS_STRAYED.set(self._strays.delivered)

    def totals(self) -> dict[str, int]:
        taken = total_of(metrics.KAFKA_SOURCE_RECORDS, fate="published")
        return {
            **super().totals(),
            "publications": total_of(metrics.PUBLICATIONS_ACCEPTED) + taken,
            "notifications": total_of(metrics.NOTIFICATIONS_DELIVERED),
        }

    def queues(self) -> dict[str, int]:
        waiting = {"unconfirmed": self._log.unconfirmed, "outbox_bytes": self._streams.held_bytes}
        return {**super().queues(), **waiting}

    # The door

    async def publish(self, publisher: str, contents: list[Content], *, wait: bool, trace: bool = False) -> list[str]:
        self._check_registered()
        return await self._publishing.publish(publisher, contents, wait=wait, trace=trace)

    async def subscribe(
        self, given: Subscription, *, subscriber: str, temporary: bool
    ) -> tuple[SubscriptionRecord, Past | None]:
        self._check_ready()
        return await self._subscribing.subscribe(given, subscriber=subscriber, temporary=temporary)

    async def change(self, id: str, patch: SubscriptionPatch) -> SubscriptionRecord:
        return await self._subscribing.change(id, patch)

    async def unsubscribe(self, id: str) -> None:
        await self._subscribing.unsubscribe(id)

    async def find(self, id: str) -> SubscriptionRecord:
        return await self._subscribing.find(id)

    def find_by_subscriber(self, subscriber: str) -> AsyncIterator[list[SubscriptionRecord]]:
        return self._subscribing.find_all(subscriber=subscriber)

    async def delivery_of(self, id: str) -> DeliveryState:
        return await self._couriers.delivery_of(id)

    async def dead_letters_of(self, id: str, most: int) -> list[DeadLetter]:
        return await self._couriers.webhooks.dead_letters_of(id, most)

    async def replay(self, id: str, letters: set[str] | None) -> tuple[int, int]:
        return await self._couriers.webhooks.replay(id, letters)

    async def find_publications(self, wanted: Subscription, limit: int) -> list[KeptPublication]:
        self._check_ready()
        return await self._past.find_publications(wanted, limit)

    async def explain(self, content: Content, subscription: str) -> MatchesExplained:
        return await self._explaining.explain(content, subscription)

    async def attach(self, subscriber: str, *, temporary: bool, last_event_id: str | None) -> Attachment:
        self._check_ready()
        attachment = self._streams.attach(subscriber, temporary, last_event_id, asyncio.get_running_loop().time())
        if not subscriber.startswith("~"):  # a name made here a moment ago has nothing elsewhere
            try:
                await self._subscribing.bring_home(subscriber)
            except BaseException:
                attachment.detach()
                raise
        return attachment

    def trace_of(self, publication_id: str) -> list[Hop] | None:
        return self._publishing.trace_of(publication_id)

    async def scale(self, ask: Ask, map: AnchorMap | None = None) -> str:
        return await self._scalings.ask(ask, map)

    async def find_scaling(self, id: str) -> ScalingRecord:
        return await self._scalings.find(id)

    async def list_scalings(self) -> list[ScalingRecord]:
        return await self._scalings.all()

    async def progress_of(self, id: str) -> tuple[Progress, ...]:
        return await self._scalings.progress(id)

    def _has_subscriptions(self, subscriber: str) -> bool:
        return self._subscribing.has_any(subscriber)

    def _on_subscriber_gone(self, subscriber: str) -> None:
        self._subscribing.on_subscriber_gone(subscriber)

    def _check_registered(self) -> None:
        """A publication is logged here whatever the others do, but only while this slice is part of the cluster."""
        if self.is_draining:
            raise problems.unavailable(_STOPPING)
        if not self.is_registered:
            raise problems.unavailable("this connection point is not registered with ZooKeeper")

    def _check_ready(self) -> None:
        """Once every exit point has known this connection point, one that is away for a moment is no obstacle: it
        knows the registered slices before it takes anything in.
        """
        if self._has_been_ready and not self.is_draining:
            return
        reasons = self.not_ready()
        if reasons:
            raise problems.unavailable("; ".join(reasons))
        self._has_been_ready = True
