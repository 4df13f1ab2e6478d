"""Clusters whose subscriptions ask for the past, while publications pour in, slices change and processes crash."""

from typing import Any, ClassVar

from braid.messages import HandOverPublications
from braid.topology import Layer
from tests.simulation.cluster import Simulation
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


class PastCrashingSimulation(CrashingScalingSimulation):
    past_odds = 0.7
