"""Clusters whose subscriptions ask for the past, while publications pour in, slices change and processes crash."""

from functools import partial
from typing import Any, ClassVar

from msgspec.structs import replace

from braid.content import Content
from braid.messages import FindPublications, HandOverPublications, MatchRequest, Subscribe
from braid.subscription import SubscriptionRecord
from braid.topology import Layer
from tests.simulation.cluster import TRAFFIC_S, Simulation
from tests.simulation.connpoint_node import SimulatedConnPoint
from tests.simulation.scaling import CrashingScalingSimulation, LateScalingSimulation


class PastSimulation(Simulation):
    """Links break, and one process crashes."""

    past_odds = 0.7


class PastScalingSimulation(LateScalingSimulation):
    past_odds = 0.7


class SlowDepartures(PastScalingSimulation):
    """What a matcher that leaves hands over is under way for long."""

    scaled_odds: ClassVar[dict[Layer, float]] = {"accesspoint": 0.0, "matcher": 1.0, "exitpoint": 0.0}

    def stalls(self, messages: list[Any]) -> float:
        return 0.7 if any(isinstance(message, HandOverPublications) for message in messages) else 0.0


class SlowPublications(PastScalingSimulation):
    """Some publications are long on their way to a matcher: the past may be asked for before they are there."""

    def stalls(self, messages: list[Any]) -> float:
        is_slow = self.random.random() < 0.2 and any(isinstance(message, MatchRequest) for message in messages)
        return 0.5 if is_slow else 0.0


class SlowOneWay(SlowPublications):
    """And of two access or exit points all publishers have the same one."""

    publishers_apart = 1000


class AccessPointsLeave(SlowPublications):
    """They send late what they held at the cut, while the past is asked for."""

    scaled_odds: ClassVar[dict[Layer, float]] = {"accesspoint": 1.0, "matcher": 0.0, "exitpoint": 0.0}

    def _sizes(self) -> list[int]:
        return [2, 3, 3, 1]


class SlowQuestions(PastScalingSimulation):
    """Some questions are long on their way, so that matchers answer one question at very different times."""

    def stalls(self, messages: list[Any]) -> float:
        asks = any(isinstance(message, Subscribe | FindPublications) for message in messages)
        return 0.5 if asks and self.random.random() < 0.3 else 0.0


class ManyTopics(PastScalingSimulation):
    """Several matchers keep parts of one batch, and each of them is asked for the past at another time."""

    def _content(self, id: str, sensor: int) -> Content:
        return replace(super()._content(id, sensor), topic=f"topic-{self.random.randrange(20)}")

    def stalls(self, messages: list[Any]) -> float:
        is_slow = self.random.random() < 0.3 and any(isinstance(message, FindPublications) for message in messages)
        return 0.3 if is_slow else 0.0


class PastCrashingSimulation(CrashingScalingSimulation):
    past_odds = 0.7


class DistinctSimulation(PastSimulation):
    """Some subscribers have several distinct subscriptions to the same, made at once or one after the other."""

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        plan_distinct_ones(self)


class DistinctScalingSimulation(PastScalingSimulation):
    """What is changed or ended begins anew, so nobody does that here."""

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        plan_distinct_ones(self)

    def _change(self) -> None:
        pass

    def _unsubscribe(self) -> None:
        pass


def plan_distinct_ones(simulation: Simulation) -> None:
    random = simulation.random
    for group in range(random.randint(2, 4)):
        connpoint = random.choice(simulation.connpoints)
        sensor = random.randrange(simulation.sensor_count)
        first_s = random.uniform(0.5, TRAFFIC_S / 2)
        for number in range(random.randint(2, 3)):
            delay_s = first_s + random.choice((0.0, 0.01, 0.1, 1.0)) * random.random()
            call = partial(_subscribe_distinct, simulation, connpoint, 1000 + 10 * group + number, sensor)
            simulation.scheduler.at(delay_s, call)


def _subscribe_distinct(simulation: Simulation, connpoint: SimulatedConnPoint, number: int, sensor: int) -> None:
    """Ten numbers belong to one subscriber."""
    if not connpoint.takes_calls():
        return
    now_s, random = simulation.scheduler.now_s, simulation.random
    filter = random.choice((f"sensor = {sensor}", f"sensor between {sensor} and {sensor}"))
    from_s = now_s - random.uniform(0.1, 3.0)
    record = SubscriptionRecord("", f"several-{number // 10}", connpoint.name, filter, now_s, from_s, distinct=True)
    simulation.subscribe(connpoint, record, number, sensor)
