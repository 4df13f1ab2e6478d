"""The past under the simulator: complete, once and in order, whatever happens."""

import pytest

from tests.simulation.cluster import Simulation
from tests.simulation.past import (
    DistinctScalingSimulation,
    DistinctSimulation,
    PastCrashingSimulation,
    PastScalingSimulation,
    PastSimulation,
    SlowDepartures,
)
from tests.simulation.seeds import name_of, parts, problems_of


@pytest.mark.parametrize(
    "kind",
    [PastSimulation, PastScalingSimulation, PastCrashingSimulation, DistinctSimulation, DistinctScalingSimulation],
)
def test_all_guarantees_hold(kind: type[Simulation]) -> None:
    assert problems_of(kind, range(1, 2)) == []


def test_what_was_given_before_its_matcher_knows_it_is_not_given_again() -> None:
    """In this one the call that says so was kept back for a scaling, while another subscription asked for the same."""
    assert problems_of(DistinctScalingSimulation, [168]) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", parts(2, 240), ids=name_of)
@pytest.mark.parametrize("kind", [PastSimulation, DistinctSimulation])
def test_they_hold_for_many_more(seeds: range, kind: type[Simulation]) -> None:
    assert problems_of(kind, seeds) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [PastScalingSimulation, PastCrashingSimulation, SlowDepartures, DistinctScalingSimulation]
)
@pytest.mark.parametrize("seeds", parts(2, 20), ids=name_of)
def test_they_hold_for_many_more_while_slices_change(kind: type[Simulation], seeds: range) -> None:
    assert problems_of(kind, seeds) == []
