"""Clusters in which more goes wrong than in an ordinary seed."""

from tests.simulation.cluster import TRAFFIC_S, Simulation
from tests.simulation.nodes import SimulatedSlice


class RoughSimulation(Simulation):
    """Links break all the time."""

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        for _ in range(30):
            self.scheduler.at(self.random.uniform(0, TRAFFIC_S), self.network.break_any)


class ConnectionPointsCrash(Simulation):
    """So that what they had accepted must come out of their logs."""

    def _victim(self) -> SimulatedSlice:
        return self.random.choice(self.connpoints)


class ForgettingSimulation(Simulation):
    """Confirmations get lost, then an exit point crashes and forgets what was done, while subscriptions come and come.

    So batches that matched nobody are sent again, and match somebody who has later ones of the publisher already.
    """

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        for _ in range(20):
            self.scheduler.at(self.random.uniform(0, TRAFFIC_S), lambda: self.network.break_any("exitpoint"))
        for number in range(100, 110):
            self._at(self.random.uniform(0, TRAFFIC_S), self._subscribe, number)

    def _victim(self) -> SimulatedSlice:
        return self.random.choice(self.exitpoints)
