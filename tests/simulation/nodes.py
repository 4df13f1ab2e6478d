"""Slices under the simulator: the real cores of access and exit points, and what all slices share."""

from collections.abc import Callable, Sequence
from itertools import groupby
from random import Random
from typing import Any

from braid import messages
from braid.messages import Send
from braid.scaling import Report, ReportStep
from braid.topology import Configuration, Registration
from services.accesspoint.core import AccessPointCore
from services.exitpoint.core import ExitPointCore
from tests.simulation.hearing import Hearing
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
        self.last_words = True  # of connection points to access points that leave
        self.deaf = False  # hears nothing from ZooKeeper, although its session lives
        self.hearing = Hearing()
        self.too_early: list[str] = []  # what it said of a scaling without having heard it
        self.may_register: Callable[[], bool] = lambda: True  # the registration of the process before it has ended

    def start(self) -> None:
        self.incarnation += 1
        self.alive, self.answers, self.deaf = True, False, False
        self.hearing = Hearing()
        self.scheduler.note(f"{self.name} starts, incarnation {self.incarnation}")
        self.reset()
        self.connect()

    def connect(self) -> None:
        """A slice knows who is there and what is in force before it registers itself.

        Where the registration of the process before it still stands, that may take a while.
        """
        self.session = True
        self.on_slices(self.zookeeper.slices)
        self.on_configuration(self.zookeeper.configuration)
        if self.name not in self.zookeeper.slices:
            self._register(self.incarnation)
            return
        random = Random(f"{self.scheduler.seed} {self.name} {self.incarnation} registers")
        incarnation, within_s = self.incarnation, random.choice((0.0, 0.05, 1.0))
        self.scheduler.at(random.uniform(0, within_s), lambda: self._register(incarnation))

    def _register(self, incarnation: int) -> None:
        if not self.may_register():
            self.scheduler.at(0.01, lambda: self._register(incarnation))
        elif self.alive and self.session and self.incarnation == incarnation:
            self.answers = True
            self.zookeeper.register(registration_of(self.name, incarnation))

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
        missing = self.hearing.missing(self.layer, step.step)
        self.too_early += [f"{step.step} of {self.name} before {word}" for word in missing]
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
        self.core = AccessPointCore(self.name, self.clock_ns, keeps_publications=True)

    def on_configuration(self, configuration: Configuration) -> None:
        self.hearing.configuration = configuration
        self.network.drop(self, "matcher", configuration.union("matcher"))
        self.perform(self.core.on_configuration(configuration, self.scheduler.now_s))

    def on_peer_up(self, peer: Node) -> None:
        if peer.layer == "matcher":
            self.perform(self.core.on_matcher_up(peer.name))
        elif peer.layer == "connpoint" and self.last_words:
            self.core.scaling.on_connpoint_up(peer.name)

    def on_peer_down(self, peer: Node) -> None:
        if peer.layer == "connpoint" and self.alive:
            self.perform(self.core.scaling.on_connpoint_down(peer.name, self.scheduler.now_s))

    def handle(self, sender: Node, kind: type[Any], run: list[Any]) -> None:
        if kind is messages.Publications:
            self.perform(self.core.on_publications(run, self.scheduler.now_s, 0))
        elif kind is messages.Subscribe:
            for message in run:
                self.perform(self.core.on_subscribe(message, self.scheduler.now_s))
        elif kind is messages.Unsubscribe:
            for message in run:
                self.perform(self.core.on_unsubscribe(message, self.scheduler.now_s))
        else:
            for message in run:
                self._handle_one(sender, message)

    def _handle_one(self, sender: Node, message: Any) -> None:
        match message:
            case messages.FindSubscriptions():
                self.perform(self.core.on_find_subscriptions(message))
            case messages.FindPublications():
                self.perform(self.core.on_find_publications(message))
            case messages.Anchors():
                self.perform(self.core.on_anchors(sender.name, message))
            case messages.GoesElsewhere():
                self.perform(self.core.scaling.on_goes_elsewhere(sender.name, message, self.scheduler.now_s))
            case _:
                self.perform(self.core.on_answer(message))

    def on_tick(self) -> None:
        self.perform(self.core.scaling.on_tick(self.scheduler.now_s))
        if self.core.routes is not None:
            self.core.routes.clean()


class SimulatedExitPoint(TickingSlice):
    def reset(self) -> None:
        self.core = ExitPointCore(self.name, self.clock_ns, gathers_max=100_000, gather_s_max=60)

    def on_slices(self, slices: dict[str, Registration]) -> None:
        connpoints = {name: r.incarnation for name, r in slices.items() if r.layer == "connpoint"}
        self.perform(self.core.on_connpoints(connpoints))

    def on_configuration(self, configuration: Configuration) -> None:
        self.hearing.configuration = configuration
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
                self.hearing.note(sender.name, message)
                self.perform(self.core.scaling.on_change_matcher_on_exit_point(sender.name, message))
        else:
            assert kind is messages.Received
            self.perform(self.core.on_received(sender.name, run))

    def on_tick(self) -> None:
        self.perform(self.core.on_tick(self.scheduler.now_s))
        self.perform(self.core.scaling.on_tick(self.core.gathers))
