"""The four layers under the simulator: the real cores, with disks that are dictionaries."""

from itertools import groupby
from typing import Any

import msgspec

from braid import messages
from braid.config import Ingress
from braid.content import Content, encode_content
from braid.messages import Send
from braid.subscription import SubscriptionRecord
from braid.topology import Configuration
from services.accesspoint.core import AccessPointCore
from services.connpoint.delivery import DeliveryCore
from services.connpoint.ingress import Batch, IngressCore
from services.exitpoint.core import ExitPointCore
from services.matcher.core import MatcherCore, Store
from tests.simulation.network import Network, Node, Scheduler

TICK_S = 0.1


class SimulatedSlice(Node):
    def __init__(self, name: str, scheduler: Scheduler, network: Network, configuration: Configuration) -> None:
        self.name = name
        self.layer = name.rpartition("-")[0]
        self.scheduler = scheduler
        self.network = network
        self.configuration = configuration

    def start(self) -> None:
        self.incarnation += 1
        self.alive = True
        self.scheduler.note(f"{self.name} starts, incarnation {self.incarnation}")
        self.reset()

    def crash(self) -> None:
        self.scheduler.note(f"{self.name} crashes")
        self.alive = False
        self.network.lose(self)

    def perform(self, sends: list[Send]) -> None:
        for send in sends:
            self.network.send(self, send.to, send.messages)

    def on_messages(self, sender: Node, batch: list[Any]) -> None:
        for kind, run in groupby(batch, type):
            self.handle(sender, kind, list(run))

    def clock_ns(self) -> int:
        return int(self.scheduler.now_s * 1e9)

    def reset(self) -> None:
        raise NotImplementedError

    def handle(self, sender: Node, kind: type[Any], run: list[Any]) -> None:
        raise NotImplementedError

    def on_registry(self, registry: dict[str, int]) -> None: ...


class TickingSlice(SimulatedSlice):
    """One whose core acts as time goes by; most of what the simulator does is to let it go by."""

    def start(self) -> None:
        super().start()
        incarnation = self.incarnation

        def tick() -> None:
            if self.alive and self.incarnation == incarnation:
                self.on_tick()
                self.scheduler.at(TICK_S, tick)

        self.scheduler.at(TICK_S, tick)

    def on_tick(self) -> None:
        raise NotImplementedError


class SimulatedAccessPoint(SimulatedSlice):
    def reset(self) -> None:
        self.core = AccessPointCore(self.name, self.clock_ns)
        self.core.on_configuration(self.configuration)

    def handle(self, sender: Node, kind: type[Any], run: list[Any]) -> None:
        if kind is messages.Publications:
            self.perform(self.core.on_publications(run, 0))
        elif kind is messages.Subscribe:
            for message in run:
                self.perform(self.core.on_subscribe(message))
        else:
            for message in run:
                self.perform(self.core.on_answer(message))


class SimulatedMatcher(SimulatedSlice):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.disk: dict[str, SubscriptionRecord] = {}

    def reset(self) -> None:
        self.core = MatcherCore(self.name, self.clock_ns)
        self.core.on_recovered(self.disk.values())
        self.core.on_configuration(self.configuration)

    def handle(self, sender: Node, kind: type[Any], run: list[Any]) -> None:
        if kind is messages.MatchRequest:
            self.perform(self.core.on_match_requests(run, self.scheduler.now_s, 0))
            return
        for message in run:
            for effect in self.core.on_subscribe(message):
                assert isinstance(effect, Store)
                self._write(sender.name, effect)

    def _write(self, accesspoint: str, effect: Store) -> None:
        incarnation = self.incarnation

        def written() -> None:
            if self.alive and self.incarnation == incarnation:
                self.disk[effect.record.id] = effect.record
                self.network.send(self, accesspoint, effect.then.messages)

        self.scheduler.at(self.scheduler.random.uniform(0, 0.02), written)


class SimulatedExitPoint(TickingSlice):
    def reset(self) -> None:
        self.core = ExitPointCore(self.name, self.clock_ns, gathers_max=100_000, gather_s_max=60)

    def on_registry(self, registry: dict[str, int]) -> None:
        connpoints = {name: i for name, i in registry.items() if name.startswith("connpoint")}
        self.perform(self.core.on_connpoints(connpoints))

    def on_peer_up(self, peer: Node) -> None:
        if peer.layer == "connpoint":
            self.perform(self.core.on_connpoint_up(peer.name, peer.incarnation))

    def handle(self, sender: Node, kind: type[Any], run: list[Any]) -> None:
        if kind is messages.Partial:
            self.perform(self.core.on_partials(run, self.scheduler.now_s, 0))
        else:
            assert kind is messages.Received
            self.perform(self.core.on_received(sender.name, run))

    def on_tick(self) -> None:
        self.perform(self.core.on_tick(self.scheduler.now_s))


class SimulatedConnPoint(TickingSlice):
    """Subscribers and publishers are ledger entries: what was acknowledged, and what arrived."""

    def __init__(self, *arguments: Any, settings: Ingress, ledger: Any) -> None:
        super().__init__(*arguments)
        self.settings = settings
        self.ledger = ledger
        self.disk: dict[tuple[str, int], tuple[int, list[bytes]]] = {}
        self._logged_s = 0.0

    def reset(self) -> None:
        self.ingress = IngressCore(f"{self.name}.{self.incarnation:x}", self.settings)
        recovered = [(origin, sequence, *value) for (origin, sequence), value in sorted(self.disk.items())]
        self.ingress.on_recovered(recovered, self.scheduler.now_s)
        self.ingress.on_configuration(self.configuration, self.scheduler.now_s)
        self.delivery = DeliveryCore(self.name, self.clock_ns)
        self.questions: dict[int, messages.Subscribe] = {}
        self._path: dict[str, int] = {}

    def publish(self, publisher: int, ids: list[str], sensor: int) -> None:
        contents = [encode_content(Content(id=id, attributes={"sensor": sensor})) for id in ids]
        if not self.ingress.has_room(len(contents), sum(map(len, contents))):
            return
        batch = self.ingress.accept(publisher, contents, self.scheduler.now_s)
        incarnation = self.incarnation

        def logged() -> None:
            if self.alive and self.incarnation == incarnation:
                self.disk[batch.origin, batch.sequence] = (publisher, contents)
                self.ledger.on_acknowledged(publisher, ids, sensor)
                self._send_logged(batch)

        # One writer: batches are logged in the order they were accepted.
        self._logged_s = max(
            getattr(self, "_logged_s", 0.0), self.scheduler.now_s + self.scheduler.random.uniform(0, 0.02)
        )
        self.scheduler.at(self._logged_s - self.scheduler.now_s, logged)

    def _send_logged(self, batch: Batch) -> None:
        self.perform(self.ingress.on_logged(batch, self.scheduler.now_s, 0))

    def subscribe(self, record: SubscriptionRecord) -> None:
        ref = len(self.ledger.subscriptions) + 1
        self.delivery.subscribers[record.id] = record.subscriber
        message = messages.Subscribe(self.configuration.epoch, ref, self.name, record)
        self.questions[ref] = message
        self._ask(ref, self.incarnation)

    def _ask(self, ref: int, incarnation: int) -> None:
        if self.alive and self.incarnation == incarnation and ref in self.questions:
            self.perform(
                [
                    Send(
                        self.configuration.accesspoints[ref % len(self.configuration.accesspoints)],
                        [self.questions[ref]],
                    )
                ]
            )
            self.scheduler.at(1.0, lambda: self._ask(ref, incarnation))

    def on_registry(self, registry: dict[str, int]) -> None:
        path = {name: i for name, i in registry.items() if not name.startswith("connpoint")}
        if any(self._path.get(name, i) != i for name, i in path.items()):
            self.ingress.on_slice_returned(self.scheduler.now_s)
        self._path.update(path)

    def handle(self, sender: Node, kind: type[Any], run: list[Any]) -> None:
        if kind is messages.Notifications:
            payloads, receipts = self.delivery.on_notifications(sender.name, run, 0)
            for subscriber, own in payloads.items():
                for payload in own:
                    self.ledger.on_delivered(subscriber, msgspec.json.decode(payload)["publication"]["id"])
            self.perform(receipts)
        elif kind is messages.Confirmed:
            for message in run:
                for batch in self.ingress.on_confirmed(message):
                    del self.disk[batch.origin, batch.sequence]
        else:
            for message in run:
                if self.questions.pop(message.ref, None) is not None:
                    self.ledger.on_subscribed(message.id)

    def on_tick(self) -> None:
        self.perform(self.ingress.on_tick(self.scheduler.now_s))
