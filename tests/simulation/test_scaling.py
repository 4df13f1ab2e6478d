"""Scalings under the simulator: many seeds hold all guarantees, and the checkers notice every rule that is broken."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from braid.machine import Machine
from braid.messages import ChangeMatcher
from services.accesspoint import scaling as accesspoint_scaling
from services.accesspoint.scaling import AccessPointScaling, Buffers
from services.matcher.holdings import Holdings
from services.matcher.scaling import AllStarted, MatcherScaling, State
from services.matcher.shares import Shares
from tests.simulation.scaling import (
    CrashingScalingSimulation,
    DeafScalingSimulation,
    LateScalingSimulation,
    LingeringScalingSimulation,
    RoughScalingSimulation,
    ScalingSimulation,
)
from tests.simulation.seeds import SEEDS_UNTIL_CAUGHT_MAX, name_of, parts, problems_of


@pytest.mark.parametrize("seeds", parts(1, 50), ids=name_of)
def test_all_guarantees_hold_while_scaling(seeds: range) -> None:
    assert problems_of(ScalingSimulation, seeds) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", parts(51, 500), ids=name_of)
def test_all_guarantees_hold_for_many_more_while_scaling(seeds: range) -> None:
    assert problems_of(ScalingSimulation, seeds) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", parts(1, 200), ids=name_of)
def test_all_guarantees_hold_while_scaling_and_everybody_hears_of_it_late(seeds: range) -> None:
    assert problems_of(LateScalingSimulation, seeds) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", parts(1, 200), ids=name_of)
def test_all_guarantees_hold_while_slices_that_were_left_out_linger(seeds: range) -> None:
    assert problems_of(LingeringScalingSimulation, seeds) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", parts(1, 200), ids=name_of)
def test_all_guarantees_hold_while_somebody_hears_nothing_from_zookeeper(seeds: range) -> None:
    assert problems_of(DeafScalingSimulation, seeds) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", parts(1, 300), ids=name_of)
def test_all_guarantees_hold_while_scaling_and_links_break_all_the_time(seeds: range) -> None:
    assert problems_of(RoughScalingSimulation, seeds) == []


@pytest.mark.parametrize("seeds", parts(1, 50), ids=name_of)
def test_all_guarantees_hold_whoever_crashes_in_whichever_phase(seeds: range) -> None:
    assert problems_of(CrashingScalingSimulation, seeds) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", parts(51, 1200), ids=name_of)
def test_all_guarantees_hold_for_many_more_whoever_crashes_in_whichever_phase(seeds: range) -> None:
    assert problems_of(CrashingScalingSimulation, seeds) == []


def test_scalings_really_happen_and_really_move() -> None:
    ended = []
    for seed in range(1, 21):
        simulation = ScalingSimulation(seed)
        simulation.run()
        ended += simulation.zookeeper.ended
    assert {record.state for record in ended} == {"done"}
    assert len(ended) > 20
    assert sum(record.moved for record in ended) > 100


def test_crashes_lead_back_and_forward() -> None:
    """Before all state has arrived back, after it forward: both really happen."""
    ended = []
    for seed in range(1, 61):
        simulation = CrashingScalingSimulation(seed)
        simulation.run()
        ended += simulation.zookeeper.ended
    assert {record.state for record in ended} == {"done", "aborted"}
    assert any("started again" in record.reason for record in ended)


def test_a_scaling_sends_nothing_again() -> None:
    """Without crashes the cut itself loses nothing, so the retry loop has nothing to do."""
    again = 0
    for seed in range(1, 31):
        simulation = ScalingSimulation(seed)
        simulation.run()
        again += sum(connpoint.ingress.sent_again for connpoint in simulation.connpoints)
    assert again == 0


def change_matcher_first(patch: pytest.MonkeyPatch) -> None:
    def cut(self: AccessPointScaling, configuration: Any, matcher: str) -> Any:
        send = original(self, configuration, matcher)
        send.messages.sort(key=lambda message: not isinstance(message, ChangeMatcher))
        return send

    original = AccessPointScaling._cut
    patch.setattr(AccessPointScaling, "_cut", cut)


def no_holding(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AccessPointScaling, "holds", False)


def no_keeping_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AccessPointScaling, "keeps_back", False)


def snapshot_at_the_first_start_scale(patch: pytest.MonkeyPatch) -> None:
    def due(self: MatcherScaling) -> Any:
        change = self.change
        if self.state is State.STARTING and change is not None and self._of(change.to.epoch).started:
            return AllStarted()
        return original(self)

    original = MatcherScaling._due
    patch.setattr(MatcherScaling, "_due", due)


def ready_before_all_state_is_there(patch: pytest.MonkeyPatch) -> None:
    """Who sends waits for it and who receives does; one of them would be enough."""
    patch.setattr(MatcherScaling, "_sources", lambda *_: set())
    patch.setattr(MatcherScaling, "_all_sent", lambda *_: True)


def who_is_left_out_goes_on(patch: pytest.MonkeyPatch) -> None:
    def on_settled(self: AccessPointScaling, event: Any, now_s: float) -> Any:
        effects = original(self, event, now_s)
        self._on_in_force(event.configuration)
        return effects

    original = AccessPointScaling.on_settled
    transitions = [
        replace(transition, handler=on_settled) if transition.handler is original else transition
        for transition in accesspoint_scaling.MACHINE.transitions
    ]
    patch.setattr(accesspoint_scaling, "MACHINE", Machine(accesspoint_scaling.State.SERVING, transitions))


def what_leaves_still_counts(patch: pytest.MonkeyPatch) -> None:
    def hidden(self: Shares, *, new_epoch: bool) -> Any:
        return [] if new_epoch else original(self, new_epoch=False)

    original = Shares.hidden
    patch.setattr(Shares, "hidden", hidden)


def what_arrived_counts_at_once(patch: pytest.MonkeyPatch) -> None:
    def hidden(self: Shares, *, new_epoch: bool) -> Any:
        return original(self, new_epoch=True) if new_epoch else []

    original = Shares.hidden
    patch.setattr(Shares, "hidden", hidden)


def what_left_stays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Shares, "throw_away", lambda *_: None)


def kept_back_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    def take(self: Buffers, now_s: float) -> Any:
        original(self, now_s)
        return []

    original = Buffers.take_kept_back
    patch.setattr(Buffers, "take_kept_back", take)


def held_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    def take(self: Buffers, now_s: float) -> Any:
        original(self, now_s)
        return []

    original = Buffers.take_held
    patch.setattr(Buffers, "take_held", take)


def nothing_foreign_is_thrown_out_after_a_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Holdings, "throw_out_foreign", lambda *_: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("take_away", "kind", "simulation"),
    [
        (change_matcher_first, "violation", ScalingSimulation),
        (no_holding, "violation", ScalingSimulation),
        (no_keeping_back, "misplaced", ScalingSimulation),
        (no_keeping_back, "lost", ScalingSimulation),
        (snapshot_at_the_first_start_scale, "misplaced", LateScalingSimulation),
        (ready_before_all_state_is_there, "misplaced", LateScalingSimulation),
        (who_is_left_out_goes_on, "misplaced", LingeringScalingSimulation),
        (what_leaves_still_counts, "twice", ScalingSimulation),
        (what_arrived_counts_at_once, "twice", ScalingSimulation),
        (what_left_stays, "misplaced", ScalingSimulation),
        (nothing_foreign_is_thrown_out_after_a_start, "misplaced", CrashingScalingSimulation),
    ],
)
def test_the_checkers_bite(
    monkeypatch: pytest.MonkeyPatch,
    take_away: Callable[[pytest.MonkeyPatch], None],
    kind: str,
    simulation: type[ScalingSimulation],
) -> None:
    take_away(monkeypatch)
    assert any(
        problem.startswith(f"{kind}:")
        for seed in range(1, SEEDS_UNTIL_CAUGHT_MAX + 1)
        for problem in simulation(seed).run()
    )


@pytest.mark.slow
@pytest.mark.parametrize("take_away", [kept_back_is_forgotten, held_is_forgotten])
def test_what_is_forgotten_at_the_cut_has_to_be_sent_again(
    monkeypatch: pytest.MonkeyPatch, take_away: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """The retry loops make up for it, but somebody waits for them: which the test above would not allow."""
    take_away(monkeypatch)
    again = asked_again = 0
    for seed in range(1, 31):
        simulation = ScalingSimulation(seed)
        assert simulation.run() == []
        again += sum(connpoint.ingress.sent_again for connpoint in simulation.connpoints)
        asked_again += sum(connpoint.asked_again for connpoint in simulation.connpoints)
    assert again or asked_again
