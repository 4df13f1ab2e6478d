"""The checkers notice every rule behind the past that is broken on purpose."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from braid.topology import Configuration
from services.accesspoint.core import AccessPointCore
from services.connpoint import remembered, unconfirmed
from services.connpoint.catching_up import CatchingUp
from services.connpoint.questions import Answers
from services.connpoint.unconfirmed import Unconfirmed
from services.exitpoint import core as exitpoint_core
from services.matcher import departing, relocating
from services.matcher.departing import Departure
from services.matcher.keeping import Keeping
from services.matcher.moving_kept import MovingKept
from services.matcher.past import Past
from services.matcher.scaling import MatcherScaling
from tests.simulation import connpoint_node
from tests.simulation.cluster import Simulation
from tests.simulation.matcher_node import SimulatedMatcher
from tests.simulation.past import (
    AccessPointsLeave,
    DistinctScalingSimulation,
    DistinctSimulation,
    ManyTopics,
    PastCrashingSimulation,
    PastScalingSimulation,
    PastSimulation,
    SlowDepartures,
    SlowOneWay,
    SlowPublications,
    SlowQuestions,
)
from tests.simulation.seeds import from_seed, is_caught


def asked_through_one_access_point(patch: pytest.MonkeyPatch) -> None:
    original = Past.on_question

    def on_question(self: Past, accesspoint: str, question: Any) -> bool:
        question.accesspoints = [accesspoint]
        return original(self, accesspoint, question)

    patch.setattr(Past, "on_question", on_question)


def partials_do_not_wait_for_the_disk(patch: pytest.MonkeyPatch) -> None:
    """Disks are slow, so that crashes come between."""
    patch.setattr(Keeping, "behind", lambda _, sends: sends)
    patch.setattr(SimulatedMatcher, "write_s", 0.5)


def live_ones_are_not_held(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CatchingUp, "left", lambda _self, _key, ids, *_: ids)


def what_was_given_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(remembered, "REMEMBERED_MAX", 0)


def nothing_is_handed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MatcherScaling, "_depart", lambda _: [])


def what_comes_meanwhile_is_not_handed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MatcherScaling, "on_kept", lambda *_: [])


def gone_before_all_is_handed_over(patch: pytest.MonkeyPatch) -> None:
    """One after the other, so that it takes long enough to be noticed."""
    patch.setattr(departing, "PART_PUBLICATIONS_MAX", 1)
    patch.setattr(departing, "PARTS_UNDER_WAY_MAX", 1)
    patch.setattr(Departure, "is_copied", True)
    patch.setattr(Departure, "is_done", True)


def nothing_is_relocated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MovingKept, "relocate", lambda *_: [])


def removed_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    class Hasty(Departure):
        is_done = True

    patch.setattr(relocating, "Departure", Hasty)
    patch.setattr(relocating, "REMOVE_AFTER_S", 0.0)


def the_order_is_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Unconfirmed, "is_in_order", lambda *_: True)


def a_part_of_a_batch_counts_as_the_whole(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(unconfirmed, "_missing", lambda *_: frozenset())


def what_was_published_before_the_past_comes_behind_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Unconfirmed, "before", lambda *_: set())


def access_points_that_leave_do_not_bring_questions(patch: pytest.MonkeyPatch) -> None:
    original = AccessPointCore.on_configuration

    def on_configuration(self: AccessPointCore, configuration: Configuration, now_s: float) -> Any:
        effects = original(self, configuration, now_s)
        if configuration.change is not None:
            self._senders[configuration.change.to.epoch] = [*configuration.change.to.accesspoints]
        return effects

    patch.setattr(AccessPointCore, "on_configuration", on_configuration)


def as_many_answers_as_were_asked_make_a_whole(patch: pytest.MonkeyPatch) -> None:
    """Whichever they are."""

    def take(self: Answers, matcher: str, answer: Any, asked: Any) -> list[Any] | None:
        heard = self._heard.setdefault((answer.epoch, 0), {})
        heard[matcher] = answer
        return list(heard.values()) if len(heard) >= (asked if isinstance(asked, int) else len(asked)) else None

    patch.setattr(Answers, "take", take)


def attempts_are_mixed(patch: pytest.MonkeyPatch) -> None:
    original = exitpoint_core.ExitPointCore._is_gathered

    def is_gathered(self: Any, gather: Any, partial: Any, arrived_ns: int) -> bool:
        partial.attempt = 0
        return original(self, gather, partial, arrived_ns)

    patch.setattr(exitpoint_core.ExitPointCore, "_is_gathered", is_gathered)


def those_that_are_not_given_their_past_yet_are_relied_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        connpoint_node, "relied_on", lambda others, _: [replace(other, given_from_s=other.from_s) for other in others]
    )


def what_others_got_meanwhile_is_not_noted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CatchingUp, "_note_got", lambda *_, **__: None)


def those_that_were_given_their_past_are_not_relied_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(connpoint_node, "relied_on", lambda *_: [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "kind", "problem"),
    [
        (asked_through_one_access_point, SlowPublications, "lost"),
        (partials_do_not_wait_for_the_disk, PastCrashingSimulation, "lost"),
        (live_ones_are_not_held, PastScalingSimulation, "twice"),
        (what_was_given_is_forgotten, PastSimulation, "twice"),
        (nothing_is_handed_over, SlowDepartures, "misplaced"),
        (what_comes_meanwhile_is_not_handed_over, SlowDepartures, "misplaced"),
        (gone_before_all_is_handed_over, SlowDepartures, "misplaced"),
        (nothing_is_relocated, PastScalingSimulation, "misplaced"),
        (removed_before_it_is_stored, PastScalingSimulation, "misplaced"),
        (the_order_is_not_looked_at, SlowQuestions, "out of order"),
        (a_part_of_a_batch_counts_as_the_whole, ManyTopics, "out of order"),
        (what_was_published_before_the_past_comes_behind_it, from_seed(118, SlowPublications), "out of order"),
        (access_points_that_leave_do_not_bring_questions, from_seed(80, AccessPointsLeave), "lost"),
        (as_many_answers_as_were_asked_make_a_whole, from_seed(149, SlowOneWay), "lost"),
        (attempts_are_mixed, from_seed(60, PastCrashingSimulation), "lost"),
        (those_that_are_not_given_their_past_yet_are_relied_on, DistinctSimulation, "lost"),
        (what_others_got_meanwhile_is_not_noted, DistinctScalingSimulation, "twice"),
        (those_that_were_given_their_past_are_not_relied_on, DistinctSimulation, "twice"),
    ],
)
def test_the_checkers_bite(
    broken: Callable[[pytest.MonkeyPatch], None],
    kind: Callable[[int], Simulation],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken(monkeypatch)
    assert is_caught(kind, problem)
