"""A whole cluster in one process under one seed: traffic, delays, broken links, crashes, silence, checks."""

from typing import Any

from msgspec.structs import replace

from braid.anchors import ANY, anchored, text_of
from braid.config import Ingress
from braid.content import Content, encode_content
from braid.selector import hash64
from braid.subscription import SubscriptionRecord
from braid.topology import LAYERS, ROUTINGS, Configuration, Routing
from tests.simulation.checks import problems_of
from tests.simulation.connpoint_node import SimulatedConnPoint
from tests.simulation.ledger import Ledger, SubscriptionEntry
from tests.simulation.matcher_node import SimulatedMatcher
from tests.simulation.network import Network, Scheduler
from tests.simulation.nodes import SimulatedAccessPoint, SimulatedExitPoint, SimulatedSlice
from tests.simulation.zookeeper import SimulatedZooKeeper

SENSORS = 5
TRAFFIC_S = 6.0
SILENCE_S = 90.0  # longer than every retry, so whatever is still missing then is lost
LIVELY_S = 20.0  # of that silence; then nearly always all is done, and processes look at the time less often
ENDS_S_MAX = 30.0  # some outlast the traffic by as long as a publication may take to be matched
_KINDS: dict[str, type[SimulatedSlice]] = {
    "accesspoint": SimulatedAccessPoint,
    "matcher": SimulatedMatcher,
    "exitpoint": SimulatedExitPoint,
}
_DIALLED = {"connpoint": ("accesspoint",), "accesspoint": ("matcher",), "matcher": ("exitpoint", "matcher")}


class Simulation:
    """`crashes` and `breaks` switch on what goes wrong; sizes and timing come from the seed."""

    publishers_apart = 1009  # odd, so that those of one connection point go through several access and exit points
    sensor_count = SENSORS
    past_odds = 0.0  # of a subscription that asks for the past
    ends_odds = 0.0  # of one that has an end
    excused_max = 0.0  # of all seeds: those in which orders of a scaling may be broken because somebody gave up waiting
    last_words = True  # connection points say to access points that leave when nothing more comes, and these wait
    ledger_kind: type[Ledger] = Ledger

    def __init__(self, seed: int, *, crashes: bool = True, breaks: bool = True, window: int = 500) -> None:
        self.scheduler = Scheduler(seed)
        self.random = self.scheduler.random
        self.ledger = self.ledger_kind(lambda: self.scheduler.now_s)
        self.sensors: dict[str, int] = {}
        self._crashes = crashes
        self._breaks = breaks
        self._published: dict[int, int] = {}
        sizes = self._sizes()
        names = [tuple(f"{layer}-{n}" for n in range(1, size + 1)) for layer, size in zip(LAYERS, sizes, strict=True)]
        self.network = Network(self.scheduler, held_messages_max=20, stalls=self.stalls)
        configuration = Configuration(1, names[1], names[2], names[3], self._routing())
        self.zookeeper = SimulatedZooKeeper(self.scheduler, configuration)
        self._settings = Ingress(window_publications_max=window, retry_s=2.0, retry_s_max=8.0, retry_batch_max=50)
        self.slices: list[SimulatedSlice] = []
        for name in [name for layer in names for name in layer]:
            self.add_slice(name)

    def _sizes(self) -> list[int]:
        """How many slices each layer has, in the order of `LAYERS`."""
        return [self.random.randint(1, 3) for _ in LAYERS]

    def stalls(self, messages: list[Any]) -> float:
        """How many seconds these messages take on average, and all behind them on the same link; 0 for as usual."""
        return 0.0

    def _routing(self) -> Routing:
        return self.random.choice(ROUTINGS)

    def add_slice(self, name: str) -> SimulatedSlice:
        shared: tuple[Any, ...] = (self.scheduler, self.network, self.zookeeper)
        layer = name.rpartition("-")[0]
        slice: SimulatedSlice
        if layer == "connpoint":
            slice = SimulatedConnPoint(name, *shared, settings=self._settings, ledger=self.ledger)
        else:
            slice = _KINDS[layer](name, *shared)
        slice.last_words = self.last_words
        self.slices.append(slice)
        self.zookeeper.watchers.append(slice)
        return slice

    @property
    def connpoints(self) -> list[SimulatedConnPoint]:
        return [slice for slice in self.slices if isinstance(slice, SimulatedConnPoint)]

    @property
    def accesspoints(self) -> list[SimulatedAccessPoint]:
        return [slice for slice in self.slices if isinstance(slice, SimulatedAccessPoint)]

    @property
    def matchers(self) -> list[SimulatedMatcher]:
        return [slice for slice in self.slices if isinstance(slice, SimulatedMatcher)]

    @property
    def exitpoints(self) -> list[SimulatedExitPoint]:
        return [slice for slice in self.slices if isinstance(slice, SimulatedExitPoint)]

    def run(self) -> list[str]:
        """Everything that went wrong, in words; empty when all guarantees held."""
        for node in self.slices:
            node.start()
        self.link_all()
        self.scheduler.run_until(1.0)
        self._plan_traffic()
        self.scheduler.run_until(1.0 + TRAFFIC_S + LIVELY_S)
        self.scheduler.tick_s = 1.0
        self.scheduler.run_until(1.0 + TRAFFIC_S + SILENCE_S)
        return problems_of(self)

    def link_all(self) -> None:
        for dialler in self.slices:
            if not dialler.alive:
                continue
            for target in self.slices:
                if dialler is not target and target.layer in _DIALLED.get(dialler.layer, ("connpoint",)):
                    self.network.keep_linked(dialler, target, hold=dialler.layer != "exitpoint")

    def _plan_traffic(self) -> None:
        for number in range(self.random.randint(3, 8)):
            self._at(self.random.uniform(0, TRAFFIC_S / 2), self._subscribe, number)
        for _ in range(self.random.randint(20, 60)):
            self.scheduler.at(self.random.uniform(0, TRAFFIC_S), self._publish)
        if self._breaks:
            for _ in range(self.random.randint(0, 4)):
                self.scheduler.at(self.random.uniform(0, TRAFFIC_S), self.network.break_any)
        if self._crashes:
            # One process at a time, as the guarantee says; the next one only when everything has settled.
            self.scheduler.at(self.random.uniform(0, TRAFFIC_S), self._crash)

    def _at(self, delay_s: float, call: Any, *arguments: Any) -> None:
        self.scheduler.at(delay_s, lambda: call(*arguments))

    def _subscribe(self, number: int) -> None:
        connpoint = self.random.choice(self.connpoints)
        if not connpoint.takes_calls():
            return
        sensor = self.random.randrange(self.sensor_count)
        filter = self.random.choice(self._filters(sensor))
        now_s = self.scheduler.now_s
        from_s = now_s - self.random.uniform(0.1, 3.0) if self.random.random() < self.past_odds else None
        until_s = now_s + self.random.uniform(0.5, ENDS_S_MAX) if self._has_end() else None
        record = SubscriptionRecord("", f"subscriber-{number}", connpoint.name, filter, now_s, from_s, until_s)
        self.subscribe(connpoint, record, number, sensor)

    def _has_end(self) -> bool:
        """Nothing is drawn where none has, so that what else a seed does is what it does without ends."""
        return self.ends_odds > 0 and self.random.random() < self.ends_odds

    def _filters(self, sensor: int) -> tuple[str, ...]:
        """Some have no anchor, so that publications for them visit every matcher that keeps one."""
        return (*3 * (f"sensor = {sensor}",), f"sensor between {sensor} and {sensor}")

    def subscribe(self, connpoint: SimulatedConnPoint, record: SubscriptionRecord, number: int, sensor: int) -> None:
        """Gives it an anchor and an id."""
        record = anchored(record)
        anchor = text_of(record)
        id = f"s-{number}-" + (f"{number:08x}" if anchor == ANY else f"{hash64(anchor) >> 32:08x}")
        entry = self.ledger.subscriptions[id] = SubscriptionEntry(record.subscriber, sensor, None)
        if record.from_s is not None:
            entry.from_s = record.from_s
        if record.until_s is not None:
            entry.until_s = record.until_s
        since = "" if record.from_s is None else f" since {record.from_s:.3f}"
        until = "" if record.until_s is None else f" until {record.until_s:.3f}"
        self.scheduler.note(f"{record.subscriber} at {connpoint.name} wants {record.filter}{since}{until}")
        connpoint.subscribe(replace(record, id=id))

    def _publish(self, sensor: int | None = None) -> None:
        connpoint = self.random.choice(self.connpoints)
        if not connpoint.takes_calls():
            return
        # A publisher is a connection, so it stays with its connection point and ends with it.
        number = self.connpoints.index(connpoint) + len(self.connpoints) * self.random.randrange(3)
        publisher = number * self.publishers_apart + connpoint.incarnation
        first = self._published.get(publisher, 0)
        count = self.random.randint(1, 5)
        self._published[publisher] = first + count
        if sensor is None:
            sensor = self.random.randrange(self.sensor_count)
        ids = [f"{publisher}-{first + n}" for n in range(count)]
        self.sensors.update(dict.fromkeys(ids, sensor))
        connpoint.publish(publisher, ids, sensor, [encode_content(self._content(id, sensor)) for id in ids])

    def _content(self, id: str, sensor: int) -> Content:
        return Content(id=id, attributes={"sensor": sensor})

    def _crash(self) -> None:
        self.crash(self._victim())

    def crash(self, node: SimulatedSlice) -> None:
        if not node.alive:
            return
        node.crash()
        if isinstance(node, SimulatedConnPoint):
            self.ledger.on_disconnected(set(node.delivery.subscribers.values()))
        self._at(self.random.uniform(0.1, 3.0), self._restart, node)

    def _victim(self) -> SimulatedSlice:
        return self.random.choice(self.slices)

    def _restart(self, node: SimulatedSlice) -> None:
        if node.alive:
            return  # a launcher that wants it was faster
        node.start()
        self.link_all()

    def _reconnect(self, node: SimulatedSlice, incarnation: int) -> None:
        """After its session was lost."""
        if node.alive and node.incarnation == incarnation:
            node.connect()
            self.link_all()
