"""Clusters whose subscriptions compare each publication with the one before it on its topic, whatever happens.

Each topic has one publisher, so it is known what came before what. A publication that is lost on its way, and comes
again behind a later one, is judged when it comes: so where something may be lost, a publisher waits for the
confirmation of each batch before it publishes the next.
"""

from typing import Any, ClassVar

from braid.content import Content, encode_content
from braid.filters import Filter, Value, evaluate, parse
from braid.messages import HandOverPrevious
from braid.scaling import Ask, ScalingRecord
from braid.subscription import SubscriptionRecord
from braid.topology import Layer
from tests.simulation.cluster import TRAFFIC_S, Simulation
from tests.simulation.ledger import Ledger, SubscriptionEntry
from tests.simulation.nodes import SimulatedSlice
from tests.simulation.scaling import CrashingScalingSimulation, LateScalingSimulation

VALUES = 20
FILTERS = ("v < prev(v)", "w > prev(w) + 3", "v != prev(w)")


class PreviousLedger(Ledger):
    """Knows what every publication says, and which one was accepted before it on its topic."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.attributes: dict[str, dict[str, Value]] = {}
        self.before: dict[str, str] = {}
        self.filters: dict[str, Filter] = {}  # by subscriber
        self._latest: dict[int, str] = {}  # by topic

    def on_acknowledged(self, publisher: int, ids: list[str], sensor: int, published_s: float) -> None:
        super().on_acknowledged(publisher, ids, sensor, published_s)
        for id in ids:
            if sensor in self._latest:
                self.before[id] = self._latest[sensor]
            self._latest[sensor] = id

    def wants(self, entry: SubscriptionEntry, id: str, sensor: int) -> bool:
        if sensor != entry.sensor:
            return False
        before = self.attributes.get(self.before.get(id, ""))
        return evaluate(self.filters[entry.subscriber], self.attributes[id], before)

    def is_promised(self, entry: SubscriptionEntry, id: str) -> bool:
        """Subscribing does not look into the past, so the one before it must have come behind the acknowledgement."""
        before = self.publications.get(self.before.get(id, ""))
        assert entry.acknowledged_s is not None
        return before is not None and before.published_s > entry.acknowledged_s


class PreviousTraffic(Simulation):
    ledger_kind = PreviousLedger
    ledger: PreviousLedger
    publishers_wait = True

    def _subscribe(self, number: int) -> None:
        connpoint = self.random.choice(self.connpoints)
        if not connpoint.takes_calls():
            return
        sensor, filter = self.random.randrange(self.sensor_count), self.random.choice(FILTERS)
        subscriber = f"subscriber-{number}"
        self.ledger.filters[subscriber] = parse(filter)
        record = SubscriptionRecord("", subscriber, connpoint.name, filter, self.scheduler.now_s, topic=f"t/{sensor}")
        self.subscribe(connpoint, record, number, sensor)

    def _publish(self, sensor: int | None = None) -> None:
        if sensor is None:
            sensor = self.random.randrange(self.sensor_count)
        connpoint = self.connpoints[sensor % len(self.connpoints)]
        publisher = sensor * 1000 + connpoint.incarnation
        if not connpoint.takes_calls() or (self.publishers_wait and not self._is_confirmed(sensor)):
            return
        count = self.random.randint(1, 3)
        first = self._published.get(publisher, 0)
        self._published[publisher] = first + count
        ids = [f"{publisher}-{first + n}" for n in range(count)]
        self.sensors.update(dict.fromkeys(ids, sensor))
        for id in ids:
            values: dict[str, Value] = {name: self.random.randrange(VALUES) for name in "vw"}
            self.ledger.attributes[id] = {"sensor": sensor, **values}
        contents = [
            encode_content(Content(id=id, topic=f"t/{sensor}", attributes=self.ledger.attributes[id])) for id in ids
        ]
        connpoint.publish(publisher, ids, sensor, contents)

    def _is_confirmed(self, sensor: int) -> bool:
        connpoint = self.connpoints[sensor % len(self.connpoints)]
        origins = connpoint.ingress._origins.values()
        return not any(batch.publisher // 1000 == sensor for origin in origins for batch in origin.pending.values())

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        for _ in range(60):
            self.scheduler.at(self.random.uniform(0, TRAFFIC_S), self._publish)


class PreviousSimulation(PreviousTraffic):
    """Links break, and one process crashes."""


class MatchersForget(PreviousSimulation):
    """It is a matcher."""

    def _victim(self) -> SimulatedSlice:
        return self.random.choice(self.matchers)


class PreviousScalingSimulation(PreviousTraffic, LateScalingSimulation):
    """Matchers come, go and are replaced, while publishers wait for nothing."""

    publishers_wait = False
    scaled_odds: ClassVar[dict[Layer, float]] = {"accesspoint": 0.0, "matcher": 1.0, "exitpoint": 0.0}

    def _scale(self) -> None:
        """Another access point would be another way, on which a publisher may overtake itself."""
        self._asked += 1
        ask = Ask({"matcher": self.random.randint(1, 3)})
        if self.random.random() < 0.4:
            ask = Ask({}, (self.random.choice(self.zookeeper.configuration.matchers),))
        self.ask(ask)


class SlowChains(PreviousScalingSimulation):
    """What matchers remember is under way for long."""

    def stalls(self, messages: list[Any]) -> float:
        return 0.3 if any(isinstance(message, HandOverPrevious) for message in messages) else 0.0


class PreviousCrashingSimulation(PreviousTraffic, CrashingScalingSimulation):
    """Somebody crashes while a scaling runs."""


class SendersCrash(PreviousCrashingSimulation):
    """Matchers crash behind the point of no return, while what they remember is under way."""

    def stalls(self, messages: list[Any]) -> float:
        return 0.3 if any(isinstance(message, HandOverPrevious) for message in messages) else 0.0

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        self._awaited = "changing"

    def _scale(self) -> None:
        self._asked += 1
        ask = Ask({}, (self.random.choice(self.zookeeper.configuration.matchers),))
        self.zookeeper.ask(ScalingRecord(f"scaling-{self._asked}", ask, self.scheduler.now_s))

    def _strike(self) -> None:
        matchers = self.zookeeper.configuration.matchers
        self.crash(self.random.choice([one for one in self.matchers if one.alive and one.name in matchers]))


class ReceiversCrash(SendersCrash):
    """So do those that get it."""

    def _strike(self) -> None:
        change = self.zookeeper.configuration.change
        names = () if change is None else change.to.matchers
        alive = [one for one in self.matchers if one.alive and one.name in names]
        if alive:
            self.crash(self.random.choice(alive))
