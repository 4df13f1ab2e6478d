"""From the configuration to events: what a slice makes of what it sees, also when it has missed something."""

import msgspec
import pytest

from braid.phases import Changing, Copying, Ending, Flushing, Moving, PhaseEvent, Settled, phase_events
from braid.topology import PHASES, Change, Configuration, Phase
from tests.core.scaling_cases import ENDED, GIVEN_UP, NEW_EPOCH, SETTLED, TARGET, during

EVENTS: dict[Phase, type[PhaseEvent]] = {
    "copying": Copying,
    "moving": Moving,
    "changing": Changing,
    "flushing": Flushing,
    "ending": Ending,
}


def seen(configuration: Configuration, known: Change | None = None, name: str = "matcher-1") -> list[PhaseEvent]:
    return phase_events(name, "matcher", known, configuration)


@pytest.mark.parametrize("configuration", [SETTLED, ENDED, GIVEN_UP])
def test_without_a_change_it_is_settled(configuration: Configuration) -> None:
    assert seen(configuration) == [Settled(configuration)]
    for phase in EVENTS:
        assert seen(configuration, during(phase).change) == [Settled(configuration)]


@pytest.mark.parametrize("phase", EVENTS)
def test_each_phase_of_the_change_that_is_known_is_its_event(phase: Phase) -> None:
    for known in EVENTS:
        assert seen(during(phase), during(known).change) == [EVENTS[phase](during(phase))]


@pytest.mark.parametrize("phase", ["copying", "moving"])
def test_at_the_beginning_what_is_in_force_comes_first(phase: Phase) -> None:
    assert seen(during(phase)) == [Settled(SETTLED), EVENTS[phase](during(phase))]


@pytest.mark.parametrize("phase", ["changing", "flushing", "ending"])
def test_who_begins_behind_the_point_of_no_return_does_not_look_back(phase: Phase) -> None:
    assert seen(during(phase)) == [EVENTS[phase](during(phase))]


@pytest.mark.parametrize("phase", EVENTS)
def test_another_change_than_the_one_that_is_known_says_that_that_one_is_over(phase: Phase) -> None:
    """However far the next one is: the end of the last one was missed, and counts nevertheless."""
    known = Change("scaling-0", "ending", msgspec.structs.replace(TARGET, epoch=4), {})
    assert seen(during(phase), known) == [Settled(SETTLED), EVENTS[phase](during(phase))]


@pytest.mark.parametrize("phase", EVENTS)
def test_a_change_that_a_slice_has_no_part_in_is_none_for_it(phase: Phase) -> None:
    assert seen(during(phase), name="matcher-9") == [Settled(SETTLED)]


@pytest.mark.parametrize("phase", ["copying", "moving"])
def test_old_and_new_slices_have_a_part(phase: Phase) -> None:
    replaced = during(phase, msgspec.structs.replace(TARGET, matchers=("matcher-7",)))
    for name in ("matcher-1", "matcher-7"):
        assert [type(event) for event in seen(replaced, name=name)] == [Settled, EVENTS[phase]]


def test_what_is_in_force() -> None:
    assert during("copying").in_force() == during("moving").in_force() == SETTLED
    for phase in ("changing", "flushing", "ending"):
        assert during(phase).in_force() == ENDED
    assert ENDED.in_force() == ENDED
    for phase in PHASES:
        assert during(phase).union("matcher") == ["matcher-1", "matcher-2"]
    assert tuple(EVENTS) == PHASES
    assert ENDED.epochs == NEW_EPOCH
