"""The exit point in a scaling: the cut of every pair, what comes too early, and batches that another one confirmed."""

from typing import Any

import pytest

from braid.messages import ChangeMatcherOnExitPoint, ConfirmedElsewhere
from braid.scaling import ReportStep
from braid.topology import Configuration, Phase
from services.exitpoint.scaling import ExitPointScaling, State
from tests.core.exitpoint_cases import ORIGIN, confirmed, exitpoint, feed, notified, partial, receive
from tests.core.scaling_cases import CHANGE, ENDED, GIVEN_UP, NEW_EPOCH, OLD_EPOCH, SETTLED, TARGET, during, to

UPDATED = ReportStep(CHANGE, "exit-point-matcher-updated")
TWO_TO_ONE = Configuration(4, SETTLED.accesspoints, ("matcher-1", "matcher-2"), ("exitpoint-1",), epochs=5)
PAIRS = [(a, m) for a in SETTLED.accesspoints for m in TWO_TO_ONE.matchers]


def scaling(*phases: Phase, settled: Configuration = SETTLED) -> ExitPointScaling:
    made = ExitPointScaling("exitpoint-1")
    made.on_configuration(settled)
    for phase in phases:
        made.on_configuration(during(phase, settled=settled))
    return made


def arrive(made: ExitPointScaling, accesspoint: str, matcher: str = "matcher-1", epoch: int = NEW_EPOCH) -> Any:
    return made.on_change_matcher_on_exit_point(matcher, ChangeMatcherOnExitPoint(epoch, accesspoint, 2))


# The cut


@pytest.mark.parametrize("phase", ["copying", "moving", "changing"])
@pytest.mark.parametrize("order", [PAIRS, PAIRS[::-1], PAIRS[2:] + PAIRS[:2]])
def test_it_is_reported_when_the_cut_of_every_pair_is_there(phase: Phase, order: list[tuple[str, str]]) -> None:
    made = scaling(phase, settled=TWO_TO_ONE)
    assert [arrive(made, *pair) for pair in order[:-1]] == [[], [], []]
    assert arrive(made, *order[0]) == []  # again
    assert made.state is State.CHANGING
    assert arrive(made, *order[-1]) == [UPDATED]
    assert made.state.value == "updated"
    assert arrive(made, *order[-1]) == []


@pytest.mark.parametrize("phase", ["copying", "moving"])
def test_cuts_of_access_points_that_come_are_awaited_too(phase: Phase) -> None:
    made = ExitPointScaling("exitpoint-1")
    made.on_configuration(during(phase, to(accesspoints=("accesspoint-2", "accesspoint-3"))))
    effects = [arrive(made, f"accesspoint-{number}") for number in (1, 2, 3)]
    assert effects == [[], [], [UPDATED]]


def test_cuts_that_come_before_the_configuration_count() -> None:
    made = scaling()
    assert [arrive(made, name) for name in SETTLED.accesspoints] == [[], []]
    assert made.on_configuration(during("changing")) == [UPDATED]
    assert made.state is State.UPDATED


def test_cuts_of_a_number_that_was_used_before_do_not_count() -> None:
    made = scaling()
    for name in SETTLED.accesspoints:
        arrive(made, name, epoch=NEW_EPOCH - 1)
    assert made.on_configuration(during("copying")) == []
    assert made.state is State.CHANGING


def test_while_matchers_copy_it_expects_the_cuts_and_counts_as_before() -> None:
    made = scaling()
    assert made.on_configuration(during("copying")) == []
    assert made.state.value == "changing"
    for phase in ("copying", "moving", "changing"):
        assert made.on_configuration(during(phase)) == []
        assert made.state.value == "changing"
    made.check(partial(1, epoch=OLD_EPOCH, of=1))
    assert made.violations == 0
    assert [arrive(made, name) for name in SETTLED.accesspoints] == [[], [UPDATED]]
    assert made.on_configuration(during("changing")) == []


@pytest.mark.parametrize("seen", [[], ["copying"], ["moving"], ["copying", "moving", "changing"]])
@pytest.mark.parametrize("phase", ["flushing", "ending"])
def test_when_the_coordinator_has_gone_on_it_does_not_wait(seen: list[Phase], phase: Phase) -> None:
    made = scaling(*seen)
    assert made.on_configuration(during(phase)) == [UPDATED]
    assert made.on_configuration(during(phase)) == []


@pytest.mark.parametrize("phases", [["copying"], ["copying", "moving"]])
def test_given_up_it_serves_on(phases: list[Phase]) -> None:
    made = scaling(*phases)
    arrive(made, "accesspoint-1")
    assert made.on_configuration(GIVEN_UP) == []
    assert made.state is State.SERVING
    made.check(partial(1, epoch=OLD_EPOCH, of=1))
    assert made.violations == 0


def test_after_the_end_the_next_scaling_is_another_one() -> None:
    made = scaling("moving", "flushing", "ending")
    made.on_configuration(ENDED)
    assert made.state is State.SERVING
    made.check(partial(1, epoch=NEW_EPOCH, of=2))
    assert made.violations == 0


def test_a_cut_that_tells_another_number_is_a_violation() -> None:
    made = scaling("changing")
    told = [
        ChangeMatcherOnExitPoint(NEW_EPOCH, name, 7 if name == "accesspoint-2" else 2) for name in TARGET.accesspoints
    ]
    assert [made.on_change_matcher_on_exit_point("matcher-1", each) for each in told] == [[], [UPDATED]]
    assert made.violations == 1
    made.check(partial(1, epoch=NEW_EPOCH, of=2))
    assert made.violations == 1


# Leaving


def test_one_that_leaves_is_drained_when_nothing_is_left_to_do() -> None:
    target = to(exitpoints=("exitpoint-2",))
    made = scaling()
    for phase in ("copying", "moving", "changing", "flushing"):
        made.on_configuration(during(phase, target))
        assert made.on_tick(0) == []
    made.on_configuration(during("ending", target))
    assert made.on_tick(3) == []
    assert made.on_tick(0) == [ReportStep(CHANGE, "drained")]
    assert made.on_tick(0) == []


def test_one_that_stays_is_never_drained() -> None:
    assert scaling("flushing", "ending").on_tick(0) == []
    assert ExitPointScaling("exitpoint-1").on_tick(0) == []


# What the cut does not allow


@pytest.mark.parametrize(
    ("epoch", "of", "violations"),
    [
        (OLD_EPOCH, 1, 0),
        (OLD_EPOCH, 2, 1),  # another number than that of the configuration
        (OLD_EPOCH - 1, 7, 0),  # older than anything known here: nobody can say
        (NEW_EPOCH, 2, 1),  # before the cut
    ],
)
@pytest.mark.parametrize("phases", [["copying"], ["copying", "moving", "changing"]])
def test_before_the_cut(phases: list[Phase], epoch: int, of: int, violations: int) -> None:
    made = scaling(*phases)
    made.check(partial(1, epoch=epoch, of=of))
    assert made.violations == violations


@pytest.mark.parametrize(("epoch", "of", "violations"), [(NEW_EPOCH, 2, 0), (NEW_EPOCH, 1, 1), (OLD_EPOCH, 1, 0)])
def test_behind_the_cut(epoch: int, of: int, violations: int) -> None:
    made = scaling("moving", "changing")
    for name in SETTLED.accesspoints:
        arrive(made, name)
    made.check(partial(1, epoch=epoch, of=of))
    assert made.violations == violations


def test_without_a_configuration_nothing_is_checked() -> None:
    made = ExitPointScaling("exitpoint-1")
    made.check(partial(1, epoch=9, of=9))
    assert made.violations == 0


def test_a_violation_is_counted_and_delivered_nevertheless() -> None:
    core = exitpoint()
    core.scaling.on_configuration(SETTLED)
    assert notified(feed(core, partial(1, epoch=TARGET.epoch))) == [("connpoint-2", 1)]
    assert core.scaling.violations == 1


# Confirmed by another exit point


def elsewhere(core: Any, *sequences: int, origin: str = ORIGIN) -> Any:
    return core.on_confirmed_elsewhere([ConfirmedElsewhere(NEW_EPOCH, origin, list(sequences))], 0.0)


def test_what_waits_for_a_batch_that_was_confirmed_elsewhere_goes_on() -> None:
    core = exitpoint()
    assert feed(core, partial(5, previous=4), partial(6, previous=5)) == []
    assert notified(elsewhere(core, 4)) == [("connpoint-2", 5), ("connpoint-2", 6)]
    assert elsewhere(core, 4) == []


def test_said_before_the_batch_comes_it_need_not_wait() -> None:
    core = exitpoint()
    feed(core, partial(9))
    elsewhere(core, 4)
    assert notified(feed(core, partial(5, previous=4))) == [("connpoint-2", 5)]


def test_of_an_origin_that_is_not_known_here_nothing_waits() -> None:
    core = exitpoint()
    assert elsewhere(core, 4) == []
    assert core.gathers == 0


def test_a_batch_that_is_gathered_here_too_is_not_delivered_again() -> None:
    core = exitpoint()
    feed(core, partial(4, of=2), partial(5, previous=4))
    assert core.gathers == 2
    assert notified(elsewhere(core, 4)) == [("connpoint-2", 5)]
    assert core.gathers == 1
    assert notified(feed(core, partial(4, of=2, matcher=2))) == []


def test_a_batch_that_is_held_here_too_is_not_delivered_again() -> None:
    core = exitpoint()
    feed(core, partial(4, previous=3), partial(5, previous=4))
    assert notified(elsewhere(core, 4)) == [("connpoint-2", 5)]
    assert notified(elsewhere(core, 3)) == []
    assert core.gathers == 1


def test_a_batch_that_is_released_here_ends_as_usual() -> None:
    core = exitpoint()
    feed(core, partial(4))
    assert elsewhere(core, 4) == []
    assert core.gathers == 1
    assert confirmed(receive(core, "connpoint-2", 4)) == [4]
    assert core.gathers == 0


def test_said_again_by_its_origin_it_is_confirmed_here_too() -> None:
    core = exitpoint()
    feed(core, partial(9))
    elsewhere(core, 4)
    assert confirmed(feed(core, partial(4))) == [4]
