"""Clusters that are scaled while publications flow, with everything going wrong meanwhile."""

from typing import Any, ClassVar

from msgspec.structs import replace

from braid.anchors import anchored
from braid.scaling import Ask, ScalingRecord
from braid.topology import CONFIGURED_LAYERS, PHASES, ROUTINGS, Layer, Routing
from tests.simulation.cluster import TRAFFIC_S, Simulation
from tests.simulation.connpoint_node import SimulatedConnPoint
from tests.simulation.maps import MapDrawing
from tests.simulation.nodes import SimulatedSlice
from tests.simulation.zookeeper import SimulatedCoordinator


class ScalingSimulation(Simulation):
    """Several scalings of any layers, routings and maps, a launcher that starts and stops slices, and no crash."""

    scaled_odds: ClassVar[dict[Layer, float]] = {"accesspoint": 0.4, "matcher": 0.7, "exitpoint": 0.4}

    def __init__(self, seed: int, *, crashes: bool = False, breaks: bool = False) -> None:
        super().__init__(seed, crashes=crashes, breaks=breaks)
        for number in (1, 2):
            coordinator = SimulatedCoordinator(f"coordinator-{number}", self.zookeeper)
            self.zookeeper.coordinators.append(coordinator)
        self.zookeeper.on_record = self._on_record
        self._asked = 0
        self.maps = MapDrawing(seed, self.sensor_count)

    def _plan_traffic(self) -> None:
        for coordinator in self.zookeeper.coordinators:
            coordinator.start()
        super()._plan_traffic()
        for number in range(100, 100 + self.random.randint(5, 30)):
            self._at(self.random.uniform(0, TRAFFIC_S), self._subscribe, number)
        for _ in range(self.random.randint(0, 4)):
            self.scheduler.at(self.random.uniform(TRAFFIC_S / 2, TRAFFIC_S), self._unsubscribe)
        for _ in range(self.random.randint(0, 6)):
            self.scheduler.at(self.random.uniform(0.5, TRAFFIC_S), self._change)
        for _ in range(self.random.randint(60, 120)):
            self.scheduler.at(self.random.uniform(0, TRAFFIC_S), self._publish)
        for _ in range(self.random.randint(1, 3)):
            self.scheduler.at(self.random.uniform(0.5, TRAFFIC_S), self._scale)

    def _known(self) -> list[str]:
        """Subscriptions that are acknowledged, and about which nothing is asked."""
        now_s = self.scheduler.now_s
        known = {id: e for id, e in self.ledger.subscriptions.items() if e.record and e.until_s > now_s}
        return [id for id, e in known.items() if not e.ending and not e.changing]

    def _change(self) -> None:
        """Another record of the same meaning, so that both count all the time."""
        known = self._known()
        if not known:
            return
        entry = self.ledger.subscriptions[self.random.choice(known)]
        assert entry.record is not None
        connpoint = next(connpoint for connpoint in self.connpoints if connpoint.name == entry.record.home)
        if connpoint.takes_calls() and entry.broken_s is None:
            entry.changing = True
            self.scheduler.note(f"{entry.record.id} is to change")
            connpoint.subscribe(anchored(replace(entry.record, filter=f"({entry.record.filter}) and sensor >= 0")))

    def _unsubscribe(self) -> None:
        known = self._known()
        connpoint = self.random.choice(self.connpoints)
        if known and connpoint.takes_calls():
            id = self.random.choice(known)
            self.scheduler.note(f"{id} is to end")
            self.ledger.on_unsubscribing(id)
            connpoint.unsubscribe(id)

    def _scale(self) -> None:
        self._asked += 1
        layers: dict[Layer, int] = {}
        replaced: list[str] = []
        configuration = self.zookeeper.configuration
        for layer in CONFIGURED_LAYERS:
            if self.random.random() < self.scaled_odds[layer]:
                layers[layer] = self.random.randint(1, 3)
            elif self.random.random() < 0.2:
                replaced.append(self.random.choice(configuration.of_layer(layer)))
        routing = self.random.choice(ROUTINGS) if self.random.random() < 0.4 else None
        self.ask(Ask(layers, tuple(replaced), routing))

    def ask(self, ask: Ask) -> None:
        ask, map = self.maps.with_map(ask, self.zookeeper.configuration)
        if ask != Ask():
            self.zookeeper.ask(ScalingRecord(f"scaling-{self._asked}", ask, self.scheduler.now_s), map)

    def _on_record(self, record: ScalingRecord | None) -> None:
        """The launcher: starts what is wanted, and stops what is in no configuration any more."""
        if record is None:
            self.scheduler.at(self.random.uniform(0.05, 0.5), self._stop_left_out)
            return
        for name in record.wants:
            if not any(slice.name == name for slice in self.slices):
                self.add_slice(name)
                self._at(self.random.uniform(0.1, 1.0), self._start, name)
            else:
                self._at(self.random.uniform(0.1, 1.0), self._start, name)

    def _start(self, name: str) -> None:
        slice = next(slice for slice in self.slices if slice.name == name)
        if not slice.alive:
            slice.start()
            self.link_all()

    def _stop_left_out(self) -> None:
        if self.zookeeper.record is not None:
            return
        configuration = self.zookeeper.configuration
        for slice in self.slices:
            configured = configuration.of_layer(slice.layer)  # type: ignore[arg-type]  # a layer by its name
            if slice.alive and not isinstance(slice, SimulatedConnPoint) and slice.name not in configured:
                slice.crash()
                self.zookeeper.unregister(slice.name)


class LateScalingSimulation(ScalingSimulation):
    """Each hears of a new phase at another time, and while a scaling runs, subscriptions and publications pour in."""

    poured_max = 260
    published_with_each = 3

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.zookeeper.heard_within_s = 0.4

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        self._poured = 200
        self.scheduler.at(0.5, self._pour)

    def _pour(self) -> None:
        if self.zookeeper.configuration.change is not None and self._poured < self.poured_max:
            self._subscribe(self._poured)
            self._poured += 1
            if self.random.random() < 0.4:
                self.random.choice((self._change, self._unsubscribe))()
            for _ in range(self.published_with_each):
                self._publish()
        if self.scheduler.now_s < TRAFFIC_S + 2:
            self.scheduler.at(0.02, self._pour)


class RoughScalingSimulation(ScalingSimulation):
    """Links break all the time."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, breaks=True)

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        for _ in range(30):
            self.scheduler.at(self.random.uniform(0, TRAFFIC_S), self.network.break_any)


class LingeringScalingSimulation(LateScalingSimulation):
    """Slices that were left out run on into the next scalings, and connection points hear of everything much later."""

    poured_max = 400
    published_with_each = 0
    scaled_odds: ClassVar[dict[Layer, float]] = {"accesspoint": 0.8, "matcher": 0.7, "exitpoint": 0.2}

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        for _ in range(4):
            self.scheduler.at(self.random.uniform(0.5, TRAFFIC_S + 1), self._scale)
        for connpoint in self.connpoints:
            if self.random.random() < 0.7:
                self._at(self.random.uniform(0.5, 3.0), self._deafen, connpoint)

    def _deafen(self, node: SimulatedSlice) -> None:
        self.scheduler.note(f"{node.name} hears nothing from ZooKeeper")
        node.deaf = True
        self._at(self.random.uniform(1.0, 4.0), self._hear_again, node)

    def _hear_again(self, node: SimulatedSlice) -> None:
        node.deaf = False
        self.zookeeper.tell_all(node)

    def _stop_left_out(self) -> None:
        """Nobody is in a hurry."""
        if self.scheduler.now_s > TRAFFIC_S + 8:
            super()._stop_left_out()


class DeafScalingSimulation(LingeringScalingSimulation):
    """Any one process hears nothing from ZooKeeper for longer than the deadlines of a scaling."""

    excused_max = 0.3

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        self.scheduler.at(self.random.uniform(0.5, 4.0), self._deafen_any)

    def _deafen_any(self) -> None:
        node = self.random.choice([slice for slice in self.slices if slice.alive])
        self.scheduler.note(f"{node.name} hears nothing from ZooKeeper for long")
        node.deaf = True
        self._at(self.random.uniform(4.0, 20.0), self._hear_again, node)


class CrashingScalingSimulation(ScalingSimulation):
    """While the first scaling runs, one process crashes or loses its session, in any phase."""

    excused_max = 0.1

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        self._awaited = self.random.choice(("gathering", *PHASES))
        self.scheduler.at(0.5, self._watch)

    @property
    def phase(self) -> str:
        """Empty while nothing is scaled."""
        change, record = self.zookeeper.configuration.change, self.zookeeper.record
        return change.phase if change is not None else "gathering" if record is not None else ""

    def _watch(self) -> None:
        if self.phase == self._awaited:
            self.scheduler.at(self.random.uniform(0, 0.05), self._strike)
        elif self.scheduler.now_s < TRAFFIC_S:
            self.scheduler.at(0.003, self._watch)

    def _strike(self) -> None:
        choice = self.random.random()
        if choice < 0.1:
            self.zookeeper.go_away(self.random.uniform(0.5, 6.0))
            return
        if choice < 0.2:
            self._crash_leader()
            return
        node = self.random.choice([slice for slice in self.slices if slice.alive])
        if choice < 0.35 and not isinstance(node, SimulatedConnPoint):
            node.lose_session()
            self.scheduler.at(self.random.uniform(0.5, 3.0), lambda: self._reconnect(node, node.incarnation))
            return
        self.crash(node)

    def _crash_leader(self) -> None:
        leader = next(c for c in self.zookeeper.coordinators if c.alive)
        leader.crash()
        self.scheduler.at(self.random.uniform(0.5, 3.0), leader.start)


class StallingScalingSimulation(LateScalingSimulation):
    """Some messages take very long, and whatever somebody is the first to want is published once it is acknowledged."""

    excused_max = 0.1
    sensor_count = 60
    poured_max = 240
    published_with_each = 0

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.ledger.on_subscription_acknowledged = self._on_subscription_acknowledged

    def stalls(self, messages: list[Any]) -> float:
        return 0.5 if self.random.random() < 0.04 else 0.0

    def _routing(self) -> Routing:
        return "anchored"

    def _on_subscription_acknowledged(self, id: str) -> None:
        for _ in self.connpoints:
            self._publish(self.ledger.subscriptions[id].sensor)
