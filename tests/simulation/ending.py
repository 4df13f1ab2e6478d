"""Clusters in which many subscriptions have an end, while links break, slices change and processes crash."""

from tests.simulation.cluster import Simulation
from tests.simulation.scaling import CrashingScalingSimulation, LateScalingSimulation


class EndingSimulation(Simulation):
    """Links break, and one process crashes."""

    ends_odds = 0.7


class EndingScalingSimulation(LateScalingSimulation):
    """Windows end while subscriptions move."""

    ends_odds = 0.7


class EndingCrashingSimulation(CrashingScalingSimulation):
    """Somebody crashes while they move."""

    ends_odds = 0.7
