"""Simulations in which somebody does not know, at the worst moment, what others know of a scaling."""

from typing import Any

from braid.messages import AddMatcherState
from braid.scaling import Ask
from braid.topology import REVERSIBLE
from services.accesspoint.scaling import HELD_S_MAX
from services.accesspoint.scaling import State as AccessPointState
from tests.simulation.checks import orders_broken
from tests.simulation.cluster import TRAFFIC_S
from tests.simulation.nodes import SimulatedSlice
from tests.simulation.scaling import LateScalingSimulation, StallingScalingSimulation
from tests.simulation.zookeeper import DEADLINES


class MatchersStartAgainUnseen(LateScalingSimulation):
    """A matcher that has all state dies while another one still waits for its own, and is back before its session has
    ended: the coordinator goes on by what the process before it has reported.
    """

    def _sizes(self) -> list[int]:
        return [2, self.random.randint(1, 2), self.random.randint(1, 2), 1]

    def stalls(self, messages: list[Any]) -> float:
        """State is slow on its way to some matchers."""
        is_slow = any(isinstance(message, AddMatcherState) for message in messages) and self.random.random() < 0.2
        return 0.5 if is_slow else 0.0

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        self.scheduler.at(1.5, self._grow)
        self.scheduler.at(1.5, self._watch)

    def _scale(self) -> None:
        """Only once."""

    def _grow(self) -> None:
        self.ask(Ask({"matcher": 3}))

    def _watch(self) -> None:
        change = self.zookeeper.configuration.change
        if change is not None and change.phase == "moving":
            ready = [name for step, name in self.zookeeper.reports[change.id] if step == "change-ready"]
            if ready and len(ready) < len(self.zookeeper.configuration.union("matcher")):
                self._start_again(next(one for one in self.matchers if one.name == self.random.choice(ready)))
                return
        if self.scheduler.now_s < 2 * TRAFFIC_S:
            self.scheduler.at(0.003, self._watch)

    def _start_again(self, node: SimulatedSlice) -> None:
        self._session_ends_s = self.scheduler.now_s + 3.0
        node.may_register = self._is_to_be_seen
        node.crash()
        self._at(0.05, self._restart, node)

    def _is_to_be_seen(self) -> bool:
        """When everything goes forward; or at last, where somebody waits for a word that was lost with the process."""
        change = self.zookeeper.configuration.change
        goes_on = change is None or change.phase not in REVERSIBLE
        return goes_on or self.scheduler.now_s > self._session_ends_s


class OneHearsOfTheCutTooLate(StallingScalingSimulation):
    """An access point goes on under the old epoch for so long that the others go on without it.

    Whatever somebody is the first to want is published once it is acknowledged, through all of them.
    """

    excused_max = 0.8
    poured_max = 200  # nothing is poured

    def _sizes(self) -> list[int]:
        return [2, 2, 1, 1]

    def stalls(self, messages: list[Any]) -> float:
        return 0.0

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        self.zookeeper.heard_within_s = 0.03
        self.scheduler.at(0.5, self._begin)
        self.scheduler.at(0.5, self._watch)

    def _scale(self) -> None:
        """Only once."""

    def _begin(self) -> None:
        self.ask(Ask({"matcher": 3}))

    def _watch(self) -> None:
        change = self.zookeeper.configuration.change
        late = self.accesspoints[1]
        if change is None or late.core.scaling.state is not AccessPointState.BUFFERING:
            self.scheduler.at(0.002, self._watch)
            return
        self.scheduler.note(f"{late.name} hears nothing from ZooKeeper")
        late.deaf = True
        self._await_cut(late)

    def _await_cut(self, late: SimulatedSlice) -> None:
        change = self.zookeeper.configuration.change
        if change is not None and change.phase == "moving":
            self._at(0.002, self._await_cut, late)
            return
        for number in range(300, 350):
            self._at(self.random.uniform(0, DEADLINES.changing_s_max), self._subscribe, number)
            self.scheduler.at(self.random.uniform(0, DEADLINES.changing_s_max), self._publish)
        self._at(self.random.uniform(HELD_S_MAX + 0.5, DEADLINES.changing_s_max - 0.3), self._hear_again, late)

    def _hear_again(self, node: SimulatedSlice) -> None:
        node.deaf = False
        self.zookeeper.tell_all(node)


class OneHearsOfAnotherExitPointTooLate(OneHearsOfTheCutTooLate):
    """There is one matcher, and what it sends comes in one row, so that its answers never come before the cuts."""

    def _begin(self) -> None:
        self.ask(Ask({"exitpoint": 2}))

    def run(self) -> list[str]:
        return super().run() + [f"violation: {text}" for text in orders_broken(self)]
