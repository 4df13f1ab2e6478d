"""Comparisons with the previous publication under the simulator: none is missed, whatever happens."""

import pytest

from tests.simulation.cluster import Simulation
from tests.simulation.previous import (
    MatchersForget,
    PreviousCrashingSimulation,
    PreviousScalingSimulation,
    PreviousSimulation,
    ReceiversCrash,
    SendersCrash,
    SlowChains,
)
from tests.simulation.seeds import name_of, parts, problems_of


@pytest.mark.parametrize("kind", [PreviousSimulation, PreviousScalingSimulation, PreviousCrashingSimulation])
def test_all_guarantees_hold(kind: type[Simulation]) -> None:
    assert problems_of(kind, range(1, 3)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        PreviousSimulation,
        MatchersForget,
        PreviousScalingSimulation,
        SlowChains,
        PreviousCrashingSimulation,
        SendersCrash,
        ReceiversCrash,
    ],
)
@pytest.mark.parametrize("seeds", parts(3, 5), ids=name_of)
def test_they_hold_for_more(kind: type[Simulation], seeds: range) -> None:
    assert problems_of(kind, seeds) == []
