"""A whole cluster in one process under one seed: traffic, delays, broken links, crashes, silence, checks."""

from typing import Any

from braid.config import Ingress
from braid.subscription import SubscriptionRecord
from braid.topology import Configuration
from tests.simulation.ledger import Ledger, SubscriptionEntry, lost, out_of_order, twice, wrong
from tests.simulation.network import Network, Scheduler
from tests.simulation.nodes import (
    SimulatedAccessPoint,
    SimulatedConnPoint,
    SimulatedExitPoint,
    SimulatedMatcher,
    SimulatedSlice,
)

SENSORS = 5
TRAFFIC_S = 6.0
SILENCE_S = 90.0  # longer than every retry, so whatever is still missing then is lost


class Simulation:
    """`crashes` and `breaks` switch on what goes wrong; sizes and timing come from the seed."""

    def __init__(self, seed: int, *, crashes: bool = True, breaks: bool = True, window: int = 500) -> None:
        self.scheduler = Scheduler(seed)
        self.random = self.scheduler.random
        self.ledger = Ledger(lambda: self.scheduler.now_s)
        self.sensors: dict[str, int] = {}
        self._crashes = crashes
        self._breaks = breaks
        self._published: dict[int, int] = {}
        self._registry: dict[str, int] = {}
        sizes = [self.random.randint(1, 3) for _ in range(4)]
        names = [
            tuple(f"{layer}-{n}" for n in range(1, size + 1))
            for layer, size in zip(("connpoint", "accesspoint", "matcher", "exitpoint"), sizes, strict=True)
        ]
        configuration = Configuration(1, names[1], names[2], names[3])
        self.network = Network(self.scheduler, held_messages_max=20)
        settings = Ingress(window_publications_max=window, retry_s=2.0, retry_s_max=8.0, retry_batch_max=50)
        shared: tuple[Any, ...] = (self.scheduler, self.network, configuration)
        self.connpoints = [
            SimulatedConnPoint(name, *shared, settings=settings, ledger=self.ledger) for name in names[0]
        ]
        self.accesspoints = [SimulatedAccessPoint(name, *shared) for name in names[1]]
        self.matchers = [SimulatedMatcher(name, *shared) for name in names[2]]
        self.exitpoints = [SimulatedExitPoint(name, *shared) for name in names[3]]
        self.slices: list[SimulatedSlice] = [
            *self.connpoints,
            *self.accesspoints,
            *self.matchers,
            *self.exitpoints,
        ]

    def run(self) -> list[str]:
        """Everything that went wrong, in words; empty when all guarantees held."""
        for node in self.slices:
            node.start()
            self._registry[node.name] = node.incarnation
        self._tell_registry()
        self._link_all()
        self.scheduler.run_until(1.0)
        self._plan_traffic()
        self.scheduler.run_until(1.0 + TRAFFIC_S + SILENCE_S)
        return self._check()

    def _link_all(self) -> None:
        for upstream, downstream, hold in (
            (self.connpoints, self.accesspoints, True),
            (self.accesspoints, self.matchers, True),
            (self.matchers, self.exitpoints, True),
            (self.exitpoints, self.connpoints, False),
        ):
            for dialler in upstream:
                for target in downstream:
                    self.network.keep_linked(dialler, target, hold)

    def _plan_traffic(self) -> None:
        for number in range(self.random.randint(3, 8)):
            self.scheduler.at(self.random.uniform(0, TRAFFIC_S / 2), lambda number=number: self._subscribe(number))  # type: ignore[misc]
        for _ in range(self.random.randint(20, 60)):
            self.scheduler.at(self.random.uniform(0, TRAFFIC_S), self._publish)
        if self._breaks:
            for _ in range(self.random.randint(0, 4)):
                self.scheduler.at(self.random.uniform(0, TRAFFIC_S), self.network.break_any)
        if self._crashes:
            # One process at a time, as the guarantee says; the next one only when everything has settled.
            self.scheduler.at(self.random.uniform(0, TRAFFIC_S), self._crash)

    def _subscribe(self, number: int) -> None:
        connpoint = self.random.choice(self.connpoints)
        if not connpoint.alive:
            return
        sensor, id, subscriber = self.random.randrange(SENSORS), f"s-{number}", f"subscriber-{number}"
        self.ledger.subscriptions[id] = SubscriptionEntry(subscriber, sensor, None)
        self.scheduler.note(f"{subscriber} at {connpoint.name} wants sensor {sensor}")
        connpoint.subscribe(
            SubscriptionRecord(id, subscriber, connpoint.name, f"sensor = {sensor}", self.scheduler.now_s)
        )

    def _publish(self) -> None:
        connpoint = self.random.choice(self.connpoints)
        if not connpoint.alive:
            return
        # A publisher is a connection, so it stays with its connection point and ends with it.
        number = self.connpoints.index(connpoint) + len(self.connpoints) * self.random.randrange(3)
        publisher = number * 1000 + connpoint.incarnation
        first = self._published.get(publisher, 0)
        count = self.random.randint(1, 5)
        self._published[publisher] = first + count
        sensor = self.random.randrange(SENSORS)
        ids = [f"{publisher}-{first + n}" for n in range(count)]
        self.sensors.update(dict.fromkeys(ids, sensor))
        connpoint.publish(publisher, ids, sensor)

    def _crash(self) -> None:
        node = self._victim()
        node.crash()
        if isinstance(node, SimulatedConnPoint):
            self.ledger.on_disconnected(set(node.delivery.subscribers.values()))
        self.scheduler.at(self.random.uniform(0.1, 3.0), lambda: self._restart(node))

    def _victim(self) -> SimulatedSlice:
        return self.random.choice(self.slices)

    def _restart(self, node: SimulatedSlice) -> None:
        node.start()
        # A slice knows the registry before it registers itself.
        node.on_registry(dict(self._registry))
        self._registry[node.name] = node.incarnation
        self.scheduler.at(self.random.uniform(0, 0.05), self._tell_registry)
        self._link_all()

    def _tell_registry(self) -> None:
        for node in self.slices:
            if node.alive:
                node.on_registry(dict(self._registry))

    def _check(self) -> list[str]:
        problems = [f"lost: {text}" for text in lost(self.ledger)]
        problems += [f"twice: {text}" for text in twice(self.ledger)]
        problems += [f"wrong: {text}" for text in wrong(self.ledger, self.sensors)]
        problems += [f"out of order: {text}" for text in out_of_order(self.ledger)]
        for connpoint in self.connpoints:
            if not connpoint.ingress.is_drained or connpoint.disk:
                problems.append(f"stuck: {connpoint.ingress.window_publications} unconfirmed at {connpoint.name}")
        problems += [f"stuck: {e.core.gathers} gathers at {e.name}" for e in self.exitpoints if e.core.gathers]
        unanswered = sum(len(connpoint.questions) for connpoint in self.connpoints)
        if unanswered:
            problems.append(f"stuck: {unanswered} subscriptions never acknowledged")
        return problems
