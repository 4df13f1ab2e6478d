"""The checkers notice every rule of a scaling that is broken on purpose."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from braid.machine import IllegalEvent, Machine
from braid.messages import ChangeMatcher
from braid.selector import AnchoredSelector, MappedSelector, Selector, selector_of
from braid.topology import Configuration
from services.accesspoint import core as accesspoint_core
from services.accesspoint import scaling as accesspoint_scaling
from services.accesspoint.scaling import AccessPointScaling, Buffers
from services.exitpoint.scaling import ExitPointScaling
from services.matcher import scaling as matcher_scaling
from services.matcher.announcing import Announcing
from services.matcher.calls import LatestCalls
from services.matcher.handing_over import HandingOver
from services.matcher.holdings import Holdings
from services.matcher.scaling import MatcherScaling
from services.matcher.scaling_states import AllCut, AllEnded, AllStarted, Heard, State
from services.matcher.shares import Shares
from services.matcher.transfer import Transfer
from tests.simulation.cluster import Simulation
from tests.simulation.harder import (
    AnchorsAreSlowerThanTheCut,
    CallsAreOvertaken,
    LinksOfMatchersBreak,
    MatchersCrashBehindTheCut,
    NobodyHearsOfTwoScalings,
)
from tests.simulation.matcher_node import SimulatedMatcher
from tests.simulation.scaling import LateScalingSimulation, ScalingSimulation
from tests.simulation.seeds import from_seed, is_caught, problems_of
from tests.simulation.unheard import (
    MatchersStartAgainUnseen,
    OneHearsOfAnotherExitPointTooLate,
    OneHearsOfTheCutTooLate,
)


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


def _go_on_when(patch: pytest.MonkeyPatch, state: State, heard: Callable[[Heard], Any], event: Any) -> None:
    def due(self: MatcherScaling) -> Any:
        change = self.change
        is_heard = self.state is state and change is not None and heard(self._of(change.to.epoch))
        return event if is_heard else original(self)

    original = MatcherScaling._due
    patch.setattr(MatcherScaling, "_due", due)


def snapshot_at_the_first_start_scale(patch: pytest.MonkeyPatch) -> None:
    _go_on_when(patch, State.STARTING, lambda heard: heard.started, AllStarted())


def changed_at_the_first_cut(patch: pytest.MonkeyPatch) -> None:
    _go_on_when(patch, State.READY, lambda heard: heard.cut, AllCut())


def ended_at_the_first_scale_end(patch: pytest.MonkeyPatch) -> None:
    _go_on_when(patch, State.CHANGED, lambda heard: heard.ended, AllEnded())


def updated_at_the_first_cut(patch: pytest.MonkeyPatch) -> None:
    def update_when_cut(self: ExitPointScaling) -> Any:
        change = self._change
        return self._update() if change is not None and self._cuts.get(change.to.epoch) else []

    patch.setattr(ExitPointScaling, "_update_when_cut", update_when_cut)


def changes_are_not_sent_behind_the_copy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transfer, "on_changed", lambda *_: None)


def what_ends_while_it_is_copied_stays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Holdings, "remove_arrived", lambda *_: None)


def chunks_are_taken_in_any_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HandingOver, "_is_next", lambda *_: True)


def calls_are_not_handed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LatestCalls, "learn", lambda *_: None)


def ready_before_all_state_is_there(patch: pytest.MonkeyPatch) -> None:
    """Who sends waits for it and who receives does; one of them would be enough."""
    patch.setattr(HandingOver, "_has_all", lambda *_: True)
    patch.setattr(HandingOver, "_all_sent", lambda *_: True)


def who_is_left_out_goes_on(patch: pytest.MonkeyPatch) -> None:
    """And matchers take what it sends, by which they would make up for it."""

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
    patch.setattr(MatcherScaling, "takes", lambda *_: True)


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


def acknowledged_before_access_points_know(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Announcing, "is_known", lambda *_: True)


def ready_before_access_points_know(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Announcing, "is_told", True)


def an_anchor_is_forgotten_with_its_first_subscription(patch: pytest.MonkeyPatch) -> None:
    def take(self: Announcing, anchor: str) -> None:
        while anchor in self._counts:
            original(self, anchor)

    original = Announcing._take
    patch.setattr(Announcing, "_take", take)


def _without_map(configuration: Configuration) -> Selector:
    return selector_of(structs.replace(configuration, map=None))


def access_points_ignore_the_map(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(accesspoint_core, "selector_of", _without_map)


def matchers_ignore_the_map(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(matcher_scaling, "selector_of", _without_map)


def another_map_is_taken_for_the_same(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MappedSelector, "_decisive", AnchoredSelector._decisive)


def started_in_the_middle_it_begins_anew(patch: pytest.MonkeyPatch) -> None:
    """A process that cannot go on ends, and is started again."""

    def on_configuration(self: SimulatedMatcher, configuration: Configuration) -> None:
        try:
            original(self, configuration)
        except IllegalEvent:
            self.crash()
            self.scheduler.at(0.1, self.start)

    original = SimulatedMatcher.on_configuration
    patch.setattr(SimulatedMatcher, "on_configuration", on_configuration)
    patch.setattr(MatcherScaling, "_started_in_the_middle", lambda *_: False)


def acknowledged_before_access_points_have_passed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MatcherScaling, "must_hold_answer", lambda *_: False)


def answered_before_access_points_have_passed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MatcherScaling, "must_wait_for_cut", lambda *_: False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("take_away", "kind", "simulation"),
    [
        (change_matcher_first, "violation", ScalingSimulation),
        (no_holding, "violation", ScalingSimulation),
        (no_keeping_back, "misplaced", ScalingSimulation),
        (no_keeping_back, "lost", ScalingSimulation),
        (snapshot_at_the_first_start_scale, "misplaced", from_seed(37, LateScalingSimulation)),
        (snapshot_at_the_first_start_scale, "too early", ScalingSimulation),
        (changed_at_the_first_cut, "too early", ScalingSimulation),
        (ended_at_the_first_scale_end, "too early", ScalingSimulation),
        (updated_at_the_first_cut, "too early", ScalingSimulation),
        (changes_are_not_sent_behind_the_copy, "misplaced", LateScalingSimulation),
        (what_ends_while_it_is_copied_stays, "misplaced", LateScalingSimulation),
        (chunks_are_taken_in_any_order, "misplaced", from_seed(31, LinksOfMatchersBreak)),
        (calls_are_not_handed_over, "misplaced", CallsAreOvertaken),
        (ready_before_all_state_is_there, "misplaced", LateScalingSimulation),
        (who_is_left_out_goes_on, "misplaced", from_seed(67, NobodyHearsOfTwoScalings)),
        (what_leaves_still_counts, "twice", ScalingSimulation),
        (what_arrived_counts_at_once, "twice", ScalingSimulation),
        (what_left_stays, "misplaced", ScalingSimulation),
        (nothing_foreign_is_thrown_out_after_a_start, "misplaced", MatchersCrashBehindTheCut),
        (acknowledged_before_access_points_know, "lost", AnchorsAreSlowerThanTheCut),
        (ready_before_access_points_know, "lost", AnchorsAreSlowerThanTheCut),
        (an_anchor_is_forgotten_with_its_first_subscription, "lost", ScalingSimulation),
        (access_points_ignore_the_map, "misplaced", from_seed(16, ScalingSimulation)),
        (matchers_ignore_the_map, "misplaced", from_seed(17, ScalingSimulation)),
        (another_map_is_taken_for_the_same, "misplaced", from_seed(17, ScalingSimulation)),
        (started_in_the_middle_it_begins_anew, "misplaced", MatchersStartAgainUnseen),
        (acknowledged_before_access_points_have_passed, "lost", OneHearsOfTheCutTooLate),
        (answered_before_access_points_have_passed, "violation", OneHearsOfAnotherExitPointTooLate),
    ],
)
def test_the_checkers_bite(
    monkeypatch: pytest.MonkeyPatch,
    take_away: Callable[[pytest.MonkeyPatch], None],
    kind: str,
    simulation: Callable[[int], Simulation],
) -> None:
    take_away(monkeypatch)
    assert is_caught(simulation, kind)


def test_who_gives_up_at_once_is_not_excused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit points see orders broken wherever access points do not wait for them, and nothing else is wrong there."""
    monkeypatch.setattr(accesspoint_scaling, "HELD_S_MAX", 0.0)
    problems = problems_of(LateScalingSimulation, range(1, 7))
    assert [problem.partition(": ")[2].partition(":")[0] for problem in problems] == ["too many are excused"]


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
