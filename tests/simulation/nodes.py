"""The four layers under the simulator: the real cores, with disks that are dictionaries."""

from collections.abc import Sequence
from itertools import groupby
from random import Random
from typing import Any

import msgspec

from braid import messages
from braid.config import Ingress
from braid.content import Content, encode_content
from braid.messages import Send
from braid.scaling import Report, ReportStep
from braid.selector import hash64
from braid.subscription import SubscriptionRecord
from braid.topology import Configuration, Registration
from services.accesspoint.core import AccessPointCore
from services.connpoint.delivery import DeliveryCore
from services.connpoint.ingress import Batch, IngressCore
from services.exitpoint.core import ExitPointCore
from services.matcher.core import MatcherCore
from services.matcher.effects import Continue, Erase, ExpectForeign, Store, StoreState, WhenWritten
from services.matcher.transfer import Pace
from tests.simulation.network import Network, Node, Scheduler
from tests.simulation.zookeeper import SimulatedZooKeeper, registration_of


class SimulatedSlice(Node):
    def __init__(self, name: str, scheduler: Scheduler, network: Network, zookeeper: SimulatedZooKeeper) -> None:
        self.name = name
        self.layer = name.rpartition("-")[0]
        self.scheduler = scheduler
        self.network = network
        self.zookeeper = zookeeper
        self.session = False
        self.deaf = False  # hears nothing from ZooKeeper, although its session lives

    def start(self) -> None:
        self.incarnation += 1
        self.alive, self.deaf = True, False
        self.scheduler.note(f"{self.name} starts, incarnation {self.incarnation}")
        self.reset()
        self.connect()

    def connect(self) -> None:
        """A slice knows who is there and what is in force before it registers itself."""
        self.session = True
        self.on_slices(self.zookeeper.slices)
        self.on_configuration(self.zookeeper.configuration)
        self.zookeeper.register(registration_of(self.name, self.incarnation))

    def lose_session(self) -> None:
        self.scheduler.note(f"{self.name} loses its session")
        self.session = False
        self.zookeeper.unregister(self.name)
        self.network.lose(self)

    def crash(self) -> None:
        self.scheduler.note(f"{self.name} crashes")
        self.alive = self.session = False
        self.network.lose(self)

    def is_connected(self) -> bool:
        return self.alive and self.session and not self.deaf

    def takes_calls(self) -> bool:
        """Who does not hear from ZooKeeper goes on with what it knows."""
        return self.alive and self.session

    def perform(self, effects: Sequence[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.network.send(self, effect.to, effect.messages)
            else:
                self._report(effect)

    def _report(self, step: ReportStep) -> None:
        """However long ZooKeeper is away."""
        incarnation = self.incarnation

        def report() -> None:
            if not self.alive or self.incarnation != incarnation:
                return
            if self.session and not self.deaf and not self.zookeeper.is_away:
                self.zookeeper.report(Report(step.change, step.step, self.name, incarnation, step.details))
            else:
                self.scheduler.at(0.2, report)

        self.scheduler.at(self.scheduler.random.uniform(0, 0.01), report)

    def on_messages(self, sender: Node, batch: list[Any]) -> None:
        for kind, run in groupby(batch, type):
            self.handle(sender, kind, list(run))

    def clock_ns(self) -> int:
        return int(self.scheduler.now_s * 1e9)

    def reset(self) -> None:
        raise NotImplementedError

    def handle(self, sender: Node, kind: type[Any], run: list[Any]) -> None:
        raise NotImplementedError

    def on_slices(self, slices: dict[str, Registration]) -> None: ...
    def on_configuration(self, configuration: Configuration) -> None: ...


class TickingSlice(SimulatedSlice):
    """One whose core acts as time goes by; most of what the simulator does is to let it go by."""

    def start(self) -> None:
        super().start()
        incarnation = self.incarnation

        def tick() -> None:
            if self.alive and self.incarnation == incarnation:
                self.on_tick()
                self.scheduler.at(self.scheduler.tick_s, tick)

        self.scheduler.at(self.scheduler.tick_s, tick)

    def on_tick(self) -> None:
        raise NotImplementedError


class SimulatedAccessPoint(TickingSlice):
    def reset(self) -> None:
        self.core = AccessPointCore(self.name, self.clock_ns)

    def on_configuration(self, configuration: Configuration) -> None:
        self.network.drop(self, "matcher", configuration.union("matcher"))
        self.perform(self.core.on_configuration(configuration, self.scheduler.now_s))

    def on_peer_up(self, peer: Node) -> None:
        if peer.layer == "matcher":
            self.perform(self.core.on_matcher_up(peer.name))

    def handle(self, sender: Node, kind: type[Any], run: list[Any]) -> None:
        if kind is messages.Publications:
            self.perform(self.core.on_publications(run, self.scheduler.now_s, 0))
        elif kind is messages.Subscribe:
            for message in run:
                self.perform(self.core.on_subscribe(message, self.scheduler.now_s))
        elif kind is messages.Unsubscribe:
            for message in run:
                self.perform(self.core.on_unsubscribe(message, self.scheduler.now_s))
        elif kind is messages.Anchors:
            for message in run:
                self.perform(self.core.on_anchors(sender.name, message))
        else:
            for message in run:
                self.perform(self.core.on_answer(message))

    def on_tick(self) -> None:
        self.perform(self.core.scaling.on_tick(self.scheduler.now_s))
        if self.core.routes is not None:
            self.core.routes.clean()


class SimulatedMatcher(TickingSlice):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.disk: dict[str, SubscriptionRecord] = {}
        self.foreign_expected = False

    def reset(self) -> None:
        choice = Random(f"{self.scheduler.seed} {self.name} {self.incarnation}").choice
        pace = Pace(looks=choice((1, 3, 500)), chunk_records_max=choice((1, 3)), changes_left_max=choice((0, 3)))
        self.core = MatcherCore(self.name, self.clock_ns, pace)
        self.core.on_recovered(self.disk.values(), self.foreign_expected)
        self._written_s = 0.0
        self._continuing = False

    def on_configuration(self, configuration: Configuration) -> None:
        self.perform(self.core.on_configuration(configuration))

    def on_peer_up(self, peer: Node) -> None:
        self.perform(self.core.scaling.on_peer_up(peer.name))
        if peer.layer == "accesspoint":
            self.perform(self.core.on_accesspoint_up(peer.name))

    def handle(self, sender: Node, kind: type[Any], run: list[Any]) -> None:
        if kind is messages.MatchRequest:
            self.perform(self.core.on_match_requests(run, self.scheduler.now_s, self.clock_ns()))
            return
        core, name = self.core, sender.name
        effects: Sequence[Any]
        for message in run:
            match message:
                case messages.Subscribe():
                    effects = core.on_subscribe(name, message)
                case messages.Unsubscribe():
                    effects = core.on_unsubscribe(name, message)
                case messages.AnchorsKnown():
                    effects = core.on_anchors_known(name, message)
                case _:
                    effects = self._handle_scaling(name, message)
            self.perform(effects)

    def _handle_scaling(self, name: str, message: Any) -> Sequence[Any]:
        scaling = self.core.scaling
        effects: Sequence[Any]
        match message:
            case messages.StartScale():
                effects = scaling.on_start_scale(name, message.epoch)
            case messages.AddMatcherState():
                effects = scaling.on_add_matcher_state(name, message)
            case messages.MatcherStateStored():
                effects = scaling.on_matcher_state_stored(name, message)
            case messages.ChangeMatcherOnExitPoint():
                effects = scaling.on_change_matcher_on_exit_point(name, message)
            case messages.ExitPointScaling():
                effects = scaling.on_exit_point_scaling(name, message.epoch)
            case messages.ChangeMatcher():
                effects = scaling.on_change_matcher(name, message.epoch)
            case messages.ScaleEnd():
                effects = scaling.on_scale_end(name, message.epoch)
            case _:
                raise AssertionError(message)
        return effects

    def on_tick(self) -> None:
        self.perform(self.core.on_tick(self.scheduler.now_s))

    def perform(self, effects: Sequence[Any]) -> None:
        for effect in effects:
            match effect:
                case Store() | Erase() | StoreState() | ExpectForeign() | WhenWritten():
                    self._write(effect)
                case Continue():
                    self._continue_soon()
                case _:
                    super().perform([effect])

    def _continue_soon(self) -> None:
        if self._continuing:
            return
        self._continuing = True
        incarnation = self.incarnation

        def go_on() -> None:
            if self.alive and self.incarnation == incarnation:
                self._continuing = False
                self.perform(self.core.on_continue())

        self.scheduler.at(self.scheduler.random.uniform(0, 0.02), go_on)

    def _write(self, effect: Store | Erase | StoreState | ExpectForeign | WhenWritten) -> None:
        incarnation = self.incarnation

        def written() -> None:
            if not self.alive or self.incarnation != incarnation:
                return
            match effect:
                case Store(record, answer):
                    self.disk[record.id] = record
                    self.perform(self.core.on_written(answer))
                case Erase(ids, answer):
                    for id in ids:
                        self.disk.pop(id, None)
                    if answer is not None:
                        self.perform(self.core.on_written(answer))
                case StoreState(records, removed):
                    self.foreign_expected = True
                    self.disk.update({record.id: record for record in records})
                    for id in removed:
                        self.disk.pop(id, None)
                    self.perform(self.core.scaling.on_state_stored(effect))
                case ExpectForeign(expected):
                    self.foreign_expected = expected
                case WhenWritten():
                    self.perform(self.core.on_all_written())

        # One writer: in the order in which they were asked for.
        self._written_s = max(self._written_s, self.scheduler.now_s + self.scheduler.random.uniform(0, 0.02))
        self.scheduler.at(self._written_s - self.scheduler.now_s, written)


class SimulatedExitPoint(TickingSlice):
    def reset(self) -> None:
        self.core = ExitPointCore(self.name, self.clock_ns, gathers_max=100_000, gather_s_max=60)

    def on_slices(self, slices: dict[str, Registration]) -> None:
        connpoints = {name: r.incarnation for name, r in slices.items() if r.layer == "connpoint"}
        self.perform(self.core.on_connpoints(connpoints))

    def on_configuration(self, configuration: Configuration) -> None:
        self.perform(self.core.scaling.on_configuration(configuration))

    def on_peer_up(self, peer: Node) -> None:
        if peer.layer == "connpoint":
            self.perform(self.core.on_connpoint_up(peer.name, peer.incarnation))

    def handle(self, sender: Node, kind: type[Any], run: list[Any]) -> None:
        if kind is messages.Partial:
            self.perform(self.core.on_partials(run, self.scheduler.now_s, 0))
        elif kind is messages.ConfirmedElsewhere:
            self.perform(self.core.on_confirmed_elsewhere(run, self.scheduler.now_s))
        elif kind is messages.ChangeMatcherOnExitPoint:
            for message in run:
                self.perform(self.core.scaling.on_change_matcher_on_exit_point(sender.name, message))
        else:
            assert kind is messages.Received
            self.perform(self.core.on_received(sender.name, run))

    def on_tick(self) -> None:
        self.perform(self.core.on_tick(self.scheduler.now_s))
        self.perform(self.core.scaling.on_tick(self.core.gathers))


class SimulatedConnPoint(TickingSlice):
    """Subscribers and publishers are ledger entries: what was acknowledged, and what arrived."""

    def __init__(self, *arguments: Any, settings: Ingress, ledger: Any) -> None:
        super().__init__(*arguments)
        self.settings = settings
        self.ledger = ledger
        self.disk: dict[tuple[str, int], tuple[int, list[bytes]]] = {}
        self._logged_s = 0.0
        self._refs = 0
        self.asked_again = 0

    def reset(self) -> None:
        self.ingress = IngressCore(f"{self.name}.{self.incarnation:x}", self.settings)
        recovered = [(origin, sequence, *value) for (origin, sequence), value in sorted(self.disk.items())]
        self.ingress.on_recovered(recovered, self.scheduler.now_s)
        self.delivery = DeliveryCore(self.name, self.clock_ns)
        self.questions: dict[int, messages.Subscribe | messages.Unsubscribe] = {}
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
        self.delivery.subscribers[record.id] = record.subscriber
        ref = self._next_ref()
        self.questions[ref] = messages.Subscribe(0, ref, self.name, record)
        self._ask(ref, self.incarnation)

    def unsubscribe(self, id: str) -> None:
        ref = self._next_ref()
        self.questions[ref] = messages.Unsubscribe(0, ref, self.name, id)
        self._ask(ref, self.incarnation)

    def _next_ref(self) -> int:
        self._refs += 1
        return self._refs

    def _ask(self, ref: int, incarnation: int, again: bool = False) -> None:
        question = self.questions.get(ref)
        if self.alive and self.incarnation == incarnation and question is not None:
            # Questions about one subscription keep their order through one access point.
            id = question.record.id if isinstance(question, messages.Subscribe) else question.id
            accesspoints = self.zookeeper_configuration.in_force().accesspoints
            self.perform([Send(accesspoints[hash64(id) % len(accesspoints)], [question])])
            self.asked_again += again
            self.scheduler.at(1.0, lambda: self._ask(ref, incarnation, again=True))

    def on_configuration(self, configuration: Configuration) -> None:
        self.zookeeper_configuration = configuration
        self.ingress.on_configuration(configuration)

    def on_slices(self, slices: dict[str, Registration]) -> None:
        path = {name: r.incarnation for name, r in slices.items() if r.layer != "connpoint"}
        if any(self._path.get(name, i) != i for name, i in path.items()):
            self.ingress.on_slice_returned(self.scheduler.now_s)
        self._path.update(path)

    def handle(self, sender: Node, kind: type[Any], run: list[Any]) -> None:
        if kind is messages.Notifications:
            payloads, receipts = self.delivery.on_notifications(sender.name, run, 0)
            for subscriber, own in payloads.items():
                for payload in own:
                    notification = msgspec.json.decode(payload)
                    for _ in notification["subscriptions"]:  # each subscriber has one
                        self.ledger.on_delivered(subscriber, notification["publication"]["id"])
            self.perform(receipts)
        elif kind is messages.Confirmed:
            for message in run:
                confirmed = self.ingress.on_confirmed(message)
                for batch in confirmed:
                    del self.disk[batch.origin, batch.sequence]
                self.perform(self.ingress.confirmed_elsewhere(confirmed, sender.name))
        else:
            for message in run:
                self._on_answer(message)

    def _on_answer(self, message: Any) -> None:
        """What a matcher says of a subscription."""
        if isinstance(message, messages.SubscriptionGone):
            self.delivery.subscribers.pop(message.id, None)
            return
        question = self.questions.pop(message.ref, None)
        if isinstance(question, messages.Subscribe):
            self.ledger.on_subscribed(question.record)
        elif question is not None:  # else it was asked again, and is answered again
            self.ledger.on_unsubscribed(message.id)
            self.delivery.subscribers.pop(message.id, None)

    def on_tick(self) -> None:
        self.perform(self.ingress.on_tick(self.scheduler.now_s))
