"""The checkers notice every rule behind `prev` that is broken on purpose."""

from collections.abc import Callable
from typing import Any

import pytest

from braid.matching.previous import PreviousPublications
from services.matcher.core import MatcherCore
from services.matcher.effects import StorePrevious
from services.matcher.handing_previous import HandingPrevious
from services.matcher.moving_previous import MovingPrevious
from services.matcher.taking_previous import TakingPrevious
from tests.simulation.cluster import Simulation
from tests.simulation.matcher_node import SimulatedMatcher
from tests.simulation.previous import (
    MatchersForget,
    PreviousScalingSimulation,
    ReceiversCrash,
    SendersCrash,
    SlowChains,
)
from tests.simulation.seeds import from_seed, is_caught


def partials_do_not_wait_for_what_is_remembered(patch: pytest.MonkeyPatch) -> None:
    """Disks are slow, so that crashes come between."""

    def remember(self: MatcherCore) -> Any:
        changes = self.scaling.previous.take_changes()
        return [] if changes is None else [StorePrevious(0, changes)]

    patch.setattr(MatcherCore, "_remember", remember)
    patch.setattr(SimulatedMatcher, "write_s", 0.3)


def a_start_forgets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MatcherCore, "on_previous_recovered", lambda *_: None)


def nobody_waits_for_what_others_remember(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MovingPrevious, "is_awaited", False)


def what_changes_behind_the_copy_is_not_handed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HandingPrevious, "on_changed", lambda *_: None)


def what_is_handed_over_is_not_merged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PreviousPublications, "hand_over", lambda *_: None)


def who_starts_again_hands_nothing_over(patch: pytest.MonkeyPatch) -> None:
    original = MovingPrevious.finish

    def finish(self: MovingPrevious) -> Any:
        if self._handing is not None and not self._handing._has_copied:
            self._handing._unread.clear()
        return original(self)

    patch.setattr(MovingPrevious, "finish", finish)


def the_last_one_counts_whatever_is_missing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TakingPrevious, "_is_whole", lambda *_: True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("take_away", "simulation"),
    [
        (partials_do_not_wait_for_what_is_remembered, MatchersForget),
        (a_start_forgets, MatchersForget),
        (nobody_waits_for_what_others_remember, from_seed(8, SlowChains)),
        (what_changes_behind_the_copy_is_not_handed_over, PreviousScalingSimulation),
        (what_is_handed_over_is_not_merged, PreviousScalingSimulation),
        (who_starts_again_hands_nothing_over, SendersCrash),
        (the_last_one_counts_whatever_is_missing, ReceiversCrash),
    ],
)
def test_the_checkers_bite(
    monkeypatch: pytest.MonkeyPatch,
    take_away: Callable[[pytest.MonkeyPatch], None],
    simulation: Callable[[int], Simulation],
) -> None:
    take_away(monkeypatch)
    assert is_caught(simulation, "lost")
