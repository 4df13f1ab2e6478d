"""Simulations in which one kind of mishap comes in nearly every seed, for tests that break the rule against it."""

from typing import Any, ClassVar

from braid.messages import Anchors, Subscribe
from braid.scaling import Ask, ScalingRecord
from braid.topology import LAYERS, PHASES, REVERSIBLE, Layer
from tests.simulation.cluster import TRAFFIC_S
from tests.simulation.scaling import (
    CrashingScalingSimulation,
    LateScalingSimulation,
    LingeringScalingSimulation,
    StallingScalingSimulation,
)


class MatchersCrashBehindTheCut(CrashingScalingSimulation):
    """What they find on disk belongs partly to others."""

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        self._awaited = self.random.choice(("changing", "flushing", "ending"))

    def _strike(self) -> None:
        self.crash(self.random.choice([matcher for matcher in self.matchers if matcher.alive]))


class EachCrashesInEachPhase(CrashingScalingSimulation):
    """In turn, from seed to seed: in each phase somebody of each layer, and the coordinator that leads."""

    turns = tuple((phase, layer) for phase in ("gathering", *PHASES) for layer in (*LAYERS, "coordinator"))

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.zookeeper.heard_within_s = 0.2  # so that a phase is not over when somebody crashes in it
        self.crashed: set[tuple[str, str]] = set()

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        self._awaited, self._layer = self.turns[self.scheduler.seed % len(self.turns)]
        self._at(0.5, self.ask, Ask({"matcher": 1 + len(self.matchers) % 3}))

    def _strike(self) -> None:
        self.crashed.add((self.phase, self._layer))
        if self._layer == "coordinator":
            self._crash_leader()
        else:
            self.crash(self.random.choice([one for one in self.slices if one.alive and one.layer == self._layer]))


class NobodyHearsOfTwoScalings(LingeringScalingSimulation):
    """Connection points go on through access points that were left out, while the next scaling moves subscriptions."""

    last_words = False  # these would be waited for, and the two scalings would be too far apart

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        for connpoint in self.connpoints:
            connpoint.deaf = True
            self._at(TRAFFIC_S + 2, self._hear_again, connpoint)
        accesspoints = self.zookeeper.configuration.accesspoints
        self._asks = [Ask({"matcher": 1 + len(self.matchers) % 3}), Ask({}, tuple(accesspoints))]
        self.scheduler.at(0.3, self._ask_next)

    def _scale(self) -> None:
        """Only those two."""

    def _ask_next(self) -> None:
        ask = self._asks[-1]
        if self.zookeeper.ask(ScalingRecord(f"scaling-{len(self._asks)}", ask, self.scheduler.now_s)):
            self._asks.pop()
        if self._asks:
            self.scheduler.at(0.02, self._ask_next)


class LinksOfMatchersBreak(LateScalingSimulation):
    """Again and again while state moves, so that chunks are lost, held back, and sent again."""

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        self.scheduler.at(0.5, self._break)

    def _break(self) -> None:
        change = self.zookeeper.configuration.change
        if change is not None and change.phase in REVERSIBLE:
            self.network.break_any(among="matcher")
        if self.scheduler.now_s < TRAFFIC_S:
            self.scheduler.at(self.random.uniform(0.005, 0.03), self._break)


class CallsAreOvertaken(StallingScalingSimulation):
    """Subscriptions are slow on their way, asked for again on another one, and ended as soon as they are there.

    Meanwhile one scaling follows another.
    """

    scaled_odds: ClassVar[dict[Layer, float]] = {"accesspoint": 1.0, "matcher": 1.0, "exitpoint": 0.0}

    def stalls(self, messages: list[Any]) -> float:
        asked = any(isinstance(message, Subscribe) and message.epoch == 0 for message in messages)
        return 4.0 if asked and self.scheduler.now_s < TRAFFIC_S and self.random.random() < 0.3 else 0.0

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.zookeeper.heard_within_s = 0.01

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        for number in range(40):
            self.scheduler.at(0.5 + number * 0.2, self._scale)

    def _on_subscription_acknowledged(self, id: str) -> None:
        self.ledger.on_unsubscribing(id)
        record = self.ledger.subscriptions[id].record
        assert record is not None
        connpoint = next(connpoint for connpoint in self.connpoints if connpoint.name == record.home)
        connpoint.unsubscribe(id)


class AnchorsAreSlowerThanTheCut(StallingScalingSimulation):
    """Phases follow one another fast, and what has moved is published all the time."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.zookeeper.heard_within_s = 0.01

    def stalls(self, messages: list[Any]) -> float:
        is_slow = any(isinstance(message, Anchors) for message in messages) and self.random.random() < 0.5
        return 0.5 if is_slow else 0.0

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        self.scheduler.at(0.5, self._publish_what_is_wanted)

    def _publish_what_is_wanted(self) -> None:
        wanted = [entry.sensor for entry in self.ledger.subscriptions.values() if entry.acknowledged_s is not None]
        if wanted and self.zookeeper.configuration.change is not None:
            self._publish(self.random.choice(wanted))
        if self.scheduler.now_s < TRAFFIC_S + 2:
            self.scheduler.at(0.005, self._publish_what_is_wanted)
