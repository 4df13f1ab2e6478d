"""Scalings under the simulator: many seeds hold all guarantees, whoever hears of them late, and whatever breaks."""

from collections import Counter
from collections.abc import Callable

import pytest

from braid.scaling import Ask
from tests.simulation.cluster import Simulation
from tests.simulation.harder import CallsAreOvertaken
from tests.simulation.matcher_node import SimulatedMatcher
from tests.simulation.scaling import (
    DeafScalingSimulation,
    LateScalingSimulation,
    LingeringScalingSimulation,
    RoughScalingSimulation,
    ScalingSimulation,
    StallingScalingSimulation,
)
from tests.simulation.seeds import name_of, parts, problems_of
from tests.simulation.unheard import (
    MatchersStartAgainUnseen,
    OneHearsOfAnotherExitPointTooLate,
    OneHearsOfTheCutTooLate,
)


@pytest.mark.parametrize("seeds", parts(1, 5), ids=name_of)
def test_all_guarantees_hold(seeds: range) -> None:
    assert problems_of(ScalingSimulation, seeds) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", parts(36, 220), ids=name_of)
def test_all_guarantees_hold_for_many_more(seeds: range) -> None:
    assert problems_of(ScalingSimulation, seeds) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", parts(1, 45), ids=name_of)
def test_all_guarantees_hold_while_everybody_hears_of_it_late(seeds: range) -> None:
    assert problems_of(LateScalingSimulation, seeds) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", parts(1, 45), ids=name_of)
def test_all_guarantees_hold_while_slices_that_were_left_out_linger(seeds: range) -> None:
    assert problems_of(LingeringScalingSimulation, seeds) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", parts(1, 45), ids=name_of)
def test_all_guarantees_hold_while_somebody_hears_nothing_from_zookeeper(seeds: range) -> None:
    assert problems_of(DeafScalingSimulation, seeds) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", parts(1, 80), ids=name_of)
def test_all_guarantees_hold_while_links_break_all_the_time(seeds: range) -> None:
    assert problems_of(RoughScalingSimulation, seeds) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", parts(1, 45), ids=name_of)
def test_all_guarantees_hold_while_some_messages_take_very_long(seeds: range) -> None:
    assert problems_of(StallingScalingSimulation, seeds) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", parts(1, 30), ids=name_of)
def test_all_guarantees_hold_while_calls_are_overtaken(seeds: range) -> None:
    assert problems_of(CallsAreOvertaken, seeds) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", parts(1, 45), ids=name_of)
@pytest.mark.parametrize("kind", [MatchersStartAgainUnseen, OneHearsOfTheCutTooLate, OneHearsOfAnotherExitPointTooLate])
def test_all_guarantees_hold_while_somebody_does_not_know_what_others_know(
    kind: Callable[[int], Simulation], seeds: range
) -> None:
    assert problems_of(kind, seeds) == []


@pytest.mark.slow
def test_a_chunk_that_cannot_be_written_ends_a_scaling_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def chunk_fails(self: SimulatedMatcher) -> bool:
        """The third one of a cluster."""
        chunks[id(self.scheduler)] += 1
        return chunks[id(self.scheduler)] == 3

    monkeypatch.setattr(SimulatedMatcher, "chunk_fails", chunk_fails)
    chunks: Counter[int] = Counter()
    ended = []
    for seed in range(1, 31):
        chunks.clear()
        simulation = ScalingSimulation(seed)
        assert simulation.run() == []
        ended += simulation.zookeeper.ended
    reasons = {record.reason for record in ended if record.state == "aborted"}
    assert reasons
    assert all("for what is moved to matcher-" in reason for reason in reasons)


@pytest.mark.slow
def test_scalings_really_happen_and_really_move_and_send_nothing_again() -> None:
    """Without crashes the cut itself loses nothing, so the retry loop has nothing to do."""
    ended, again = [], 0
    for seed in range(6, 36):
        simulation = ScalingSimulation(seed)
        assert simulation.run() == [], f"ScalingSimulation({seed})"
        ended += simulation.zookeeper.ended
        again += sum(connpoint.ingress.sent_again for connpoint in simulation.connpoints)
    assert {record.state for record in ended} == {"done"}
    assert len(ended) > 30
    assert sum(record.moved for record in ended) > 150
    mapped = [record for record in ended if record.asked.named_map]
    alone = [record for record in mapped if record.asked == Ask(map=record.asked.map)]
    assert min(len(mapped), len(alone)) > 3
    assert all(sum(record.moved for record in some) > 10 for some in (mapped, alone))
    assert again == 0
