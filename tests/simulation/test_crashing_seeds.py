"""Scalings under the simulator while somebody crashes or loses its session, in whichever phase."""

import pytest

from tests.simulation.harder import EachCrashesInEachPhase
from tests.simulation.scaling import CrashingScalingSimulation
from tests.simulation.seeds import name_of, parts, problems_of


@pytest.mark.parametrize("seeds", parts(1, 5), ids=name_of)
def test_all_guarantees_hold(seeds: range) -> None:
    assert problems_of(CrashingScalingSimulation, seeds) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", parts(66, 220), ids=name_of)
def test_all_guarantees_hold_for_many_more(seeds: range) -> None:
    assert problems_of(CrashingScalingSimulation, seeds) == []


@pytest.mark.slow
def test_crashes_lead_back_and_forward() -> None:
    """Before all state has arrived back, after it forward: both really happen, and all guarantees hold."""
    ended = []
    for seed in range(6, 66):
        simulation = CrashingScalingSimulation(seed)
        assert simulation.run() == [], f"CrashingScalingSimulation({seed})"
        ended += simulation.zookeeper.ended
    assert {record.state for record in ended} == {"done", "aborted"}
    assert any("started again" in record.reason for record in ended)


def test_what_was_handed_over_to_one_that_did_not_know_of_what_scaling_does_not_stay_there() -> None:
    """In this one it had started again in the middle, and what had left the others was theirs again."""
    assert problems_of(EachCrashesInEachPhase, [337]) == []


@pytest.mark.slow
def test_somebody_of_each_layer_really_crashes_in_each_phase() -> None:
    crashed: set[tuple[str, str]] = set()
    turns = set(EachCrashesInEachPhase.turns)
    for seed in range(len(turns)):
        simulation = EachCrashesInEachPhase(seed)
        assert simulation.run() == [], f"EachCrashesInEachPhase({seed})"
        crashed |= simulation.crashed
    assert crashed >= turns, turns - crashed
