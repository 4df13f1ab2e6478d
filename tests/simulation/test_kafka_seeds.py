"""Connection points whose log is in Kafka: they crash, die, are taken for dead, and others see to their partitions."""

from collections.abc import Callable
from typing import Any

import pytest

from services.connpoint.committed import Committed
from services.connpoint.partitions import PartitionsCore
from services.connpoint.retrying import Origin
from services.exitpoint.core import ExitPointCore
from tests.simulation.cluster import Simulation
from tests.simulation.kafka import (
    KafkaScalingSimulation,
    KafkaSimulation,
    TakenForDeadSimulation,
    TakenOverSimulation,
)
from tests.simulation.seeds import is_caught, name_of, parts, problems_of

KINDS = [KafkaSimulation, TakenOverSimulation, TakenForDeadSimulation, KafkaScalingSimulation]


@pytest.mark.parametrize("kind", KINDS)
def test_all_guarantees_hold(kind: Callable[[int], Simulation]) -> None:
    assert problems_of(kind, range(1, 6)) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", parts(6, 25), ids=name_of)
@pytest.mark.parametrize("kind", KINDS)
def test_all_guarantees_hold_for_many_more(kind: Callable[[int], Simulation], seeds: range) -> None:
    assert problems_of(kind, seeds) == []


def test_partitions_really_change_hands() -> None:
    for kind in (TakenOverSimulation, TakenForDeadSimulation):
        simulation = kind(1)
        assert simulation.run() == []
        seen = [line for line in simulation.scheduler.transcript if " sees to " in line]
        assert len(seen) > len(simulation.connpoints)


def nobody_takes_over(patch: pytest.MonkeyPatch) -> None:
    def on_connpoints(self: PartitionsCore, registered: Any) -> Any:
        return original(self, ("connpoint-1", "connpoint-2", "connpoint-3") if registered else ())

    original = PartitionsCore.on_connpoints
    patch.setattr(PartitionsCore, "on_connpoints", on_connpoints)


def what_is_read_is_committed(patch: pytest.MonkeyPatch) -> None:
    """As a consumer group does it by itself."""

    def committable(_self: PartitionsCore, one: Any) -> Committed | None:
        return None if one.origin is None else Committed(one.origin.next_sequence - 1, one.log)

    patch.setattr(PartitionsCore, "_committable", committable)


def each_has_a_row_of_numbers_of_its_own(patch: pytest.MonkeyPatch) -> None:
    """As if the origin were the connection point: what a successor sends is taken for new."""

    def origin_of(self: PartitionsCore, partition: int, one: Any, record: Any) -> Origin:
        if one.log is None or one.origin is None:
            one.log = one.claim * 16 + int(self._name.rpartition("-")[2])
        return original(self, partition, one, record)

    original = PartitionsCore._origin_of
    patch.setattr(PartitionsCore, "_origin_of", origin_of)


def confirmations_go_to_the_first_owner(patch: pytest.MonkeyPatch) -> None:
    def owner_of(self: ExitPointCore, log: str) -> str:
        if log not in first:
            first[log] = original(self, log)
        return first[log]

    first: dict[str, str] = {}
    original = ExitPointCore._owner_of
    patch.setattr(ExitPointCore, "_owner_of", owner_of)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("take_away", "kind", "simulation"),
    [
        (nobody_takes_over, "lost", TakenOverSimulation),
        (what_is_read_is_committed, "lost", TakenOverSimulation),
        (each_has_a_row_of_numbers_of_its_own, "twice", TakenForDeadSimulation),
        (confirmations_go_to_the_first_owner, "stuck", TakenOverSimulation),
    ],
)
def test_the_checkers_bite(
    monkeypatch: pytest.MonkeyPatch,
    take_away: Callable[[pytest.MonkeyPatch], None],
    kind: str,
    simulation: type[Simulation],
) -> None:
    take_away(monkeypatch)
    assert is_caught(simulation, kind)
