"""Access points that leave while connection points still send to them: these hear of every configuration late.

So publications, calls and questions come to an access point that has said `ScaleEnd`, or that others take for gone.
"""

from collections.abc import Collection
from typing import Any, ClassVar

from braid.messages import MatchRequest
from braid.scaling import Ask
from braid.topology import Layer, Routing
from services.accesspoint.scaling import State
from tests.simulation.cluster import TRAFFIC_S
from tests.simulation.nodes import SimulatedAccessPoint, SimulatedSlice
from tests.simulation.scaling import ScalingSimulation


class LeavingScalingSimulation(ScalingSimulation):
    """Access points come, go and are replaced, one scaling behind the other. What somebody is the first to want is
    published, everywhere, once that is acknowledged; and some of it is asked for in the past.
    """

    sensor_count = 60
    past_odds = 0.2
    scaled_odds: ClassVar[dict[Layer, float]] = {"accesspoint": 1.0, "matcher": 0.0, "exitpoint": 0.0}

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.zookeeper.heard_within_s = 0.01
        self.zookeeper.heard_late_s = {"connpoint": 2.0, "accesspoint": self.random.choice((0.01, 0.5))}
        self.ledger.on_subscription_acknowledged = self._on_subscription_acknowledged

    def _sizes(self) -> list[int]:
        return [2, 2, self.random.randint(2, 3), 1]

    def _routing(self) -> Routing:
        return self.random.choice(("anchored", "anchored", "broadcast"))

    def _filters(self, sensor: int) -> tuple[str, ...]:
        """All have an anchor, so that whoever does not know it sends nothing to the matcher that keeps them."""
        return (f"sensor = {sensor}",)

    def stalls(self, messages: list[Any]) -> float:
        """Some publications are long on their way to a matcher."""
        is_slow = self.random.random() < 0.1 and any(isinstance(message, MatchRequest) for message in messages)
        return 0.2 if is_slow else 0.0

    def _plan_traffic(self) -> None:
        for coordinator in self.zookeeper.coordinators:
            coordinator.start()
        for number in range(60):
            self.scheduler.at(0.3 + number * 0.1, self._scale)
            self._at(0.5 + self.random.uniform(0, TRAFFIC_S), self._subscribe, number)
            self.scheduler.at(0.5 + self.random.uniform(0, TRAFFIC_S), self._publish)

    def _stop_left_out(self) -> None:
        """Who was left out is soon taken in again."""
        if self.scheduler.now_s > TRAFFIC_S + 2:
            super()._stop_left_out()

    def _scale(self) -> None:
        """Another access point in the place of one of them, or another number of them."""
        self._asked += 1
        accesspoints = self.zookeeper.configuration.accesspoints
        if self.random.random() < 0.5:
            self.ask(Ask({}, (self.random.choice(accesspoints),)))
        else:
            self.ask(Ask({"accesspoint": 3 - min(2, len(accesspoints))}))

    def _on_subscription_acknowledged(self, id: str) -> None:
        for _ in self.connpoints:
            self._publish(self.ledger.subscriptions[id].sensor)


class LeavingUnasked(LeavingScalingSimulation):
    """As if nobody waited for connection points: much more comes to one that has left."""

    last_words = False


class PartingInTrouble(LeavingScalingSimulation):
    """While one waits for the last words, links of access points break, or it loses its session; once it crashes."""

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        self.troubles = 0
        self._may_crash = True
        self.scheduler.at(0.3, self._watch)

    def _watch(self) -> None:
        parting = [one for one in self.accesspoints if one.alive and one.core.scaling.state is State.PARTING]
        if parting and self.random.random() < 0.1:
            self.troubles += 1
            self._trouble(self.random.choice(parting))
        if self.scheduler.now_s < TRAFFIC_S + 2:
            self.scheduler.at(0.02, self._watch)

    def _trouble(self, one: SimulatedAccessPoint) -> None:
        choice = self.random.random()
        if choice < 0.2 and self._may_crash:
            self._may_crash = False
            self.crash(one)
        elif choice < 0.5 and one.session:
            one.lose_session()
            self._at(self.random.uniform(0.1, 1.0), self._reconnect, one, one.incarnation)
        else:
            self.network.break_any("accesspoint")


class DeafToTheEndSimulation(LeavingScalingSimulation):
    """One that leaves has sent what it held, and hears nothing from ZooKeeper from then on, like the connection points
    that send to it: the scaling ends without its last word, and the next ones without it.
    """

    excused_max = 0.1
    scaled_odds: ClassVar[dict[Layer, float]] = {"accesspoint": 1.0, "matcher": 1.0, "exitpoint": 0.0}

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.zookeeper.heard_late_s = {}

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        self.scheduler.at(0.3, self._watch)
        for connpoint in self.connpoints:
            self._deafen(connpoint)
        for number in range(60, 160):
            self._at(TRAFFIC_S + (number - 60) * 0.04, self._subscribe, number)
            self.scheduler.at(TRAFFIC_S + (number - 60) * 0.04, self._publish)
        for number in range(20):
            self.scheduler.at(TRAFFIC_S + 0.2 * number, self._scale_matchers)

    def _scale_matchers(self) -> None:
        self._asked += 1
        self.ask(Ask({"matcher": self.random.randint(1, 3)}))

    def _watch(self) -> None:
        configuration = self.zookeeper.configuration
        change = configuration.change
        deaf = [] if change is None or change.phase != "flushing" else self._flushed(change.to.accesspoints)
        if not deaf:
            self.scheduler.at(0.002, self._watch)
            return
        self._deafen(deaf[0])

    def _flushed(self, staying: Collection[str]) -> list[SimulatedAccessPoint]:
        return [one for one in self.accesspoints if one.name not in staying and one.core.scaling.state is State.FLUSHED]

    def _deafen(self, node: SimulatedSlice) -> None:
        self.scheduler.note(f"{node.name} hears nothing from ZooKeeper for long")
        node.deaf = True
        self._at(2 * TRAFFIC_S, self._hear_again, node)

    def _hear_again(self, node: SimulatedSlice) -> None:
        node.deaf = False
        self.zookeeper.tell_all(node)
