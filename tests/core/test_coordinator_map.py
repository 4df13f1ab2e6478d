"""A scaling that leads to another map of anchors: with the same slices, with others, with another routing; refusals."""

import pytest
from msgspec.structs import replace

from braid.anchor_map import AnchorMap
from braid.scaling import NO_MAP, Ask, Step
from braid.scaling_checks import refusal
from braid.topology import Change, Configuration, Target
from coordinator.core import State
from coordinator.events import WriteConfiguration, WriteRecord
from tests.core.coordinator_stage import CLOCK_S, ID, NAMES, OLD, CoordinatorStage, asked, registered, reports

ANCHORED = replace(OLD, routing="anchored")
LEARNED, OTHER = AnchorMap(2, {7: 0, 9: 1}), AnchorMap(2, {7: 1})
MAPPED = replace(ANCHORED, map=OTHER)


def stage_of(configuration: Configuration, map: AnchorMap | None = LEARNED) -> CoordinatorStage:
    stage = CoordinatorStage(configuration)
    stage.map = map
    stage.elect(registered(*NAMES, "matcher-3", "matcher-4"))
    return stage


def test_a_map_alone_begins_a_change_among_the_same_slices_and_is_in_force_at_its_end() -> None:
    stage = stage_of(ANCHORED)
    (write,) = stage.ask(asked(Ask(map=LEARNED.version)))
    assert isinstance(write, WriteConfiguration)
    target = Target(7, OLD.accesspoints, OLD.matchers, OLD.exitpoints, "anchored", LEARNED)
    assert write.configuration == replace(ANCHORED, change=Change(ID, "copying", target, dict.fromkeys(NAMES, 1)))
    stage.answer()
    assert stage.core.state is State.COPYING
    steps: list[tuple[Step, tuple[str, ...]]] = [
        ("copied", OLD.matchers),
        ("change-ready", OLD.matchers),
        ("done", OLD.matchers),
        ("exit-point-matcher-updated", OLD.exitpoints),
        ("scale-end", OLD.accesspoints),
        ("drained", OLD.matchers),
    ]
    for step, slices in steps:
        stage.tell(*reports(step, *slices))
        while stage.under_way:
            stage.answer()
    assert stage.configuration == replace(ANCHORED, epoch=7, epochs=7, map=LEARNED)
    assert [record.state for record in stage.ended] == ["done"]


@pytest.mark.parametrize(
    ("before", "ask", "after"),
    [
        (ANCHORED, Ask(map=LEARNED.version), LEARNED),
        (MAPPED, Ask(map=LEARNED.version), LEARNED),
        (MAPPED, Ask(map=NO_MAP), None),
        (MAPPED, Ask({"matcher": 3}), OTHER),  # what is not asked for stays
        (MAPPED, Ask({"matcher": 3}, map=LEARNED.version), LEARNED),
        (MAPPED, Ask(replace=("matcher-1",), map=NO_MAP), None),
        (OLD, Ask(routing="anchored", map=LEARNED.version), LEARNED),
        (OLD, Ask({"matcher": 3}, ("matcher-1",), "anchored", LEARNED.version), LEARNED),
        (MAPPED, Ask(routing="broadcast"), None),  # there are no anchors to lie anywhere
        (MAPPED, Ask(routing="broadcast", map=NO_MAP), None),
    ],
)
def test_which_map_a_change_leads_to(before: Configuration, ask: Ask, after: AnchorMap | None) -> None:
    (write,) = stage_of(before, LEARNED if ask.named_map else None).ask(asked(ask))
    assert isinstance(write, WriteConfiguration)
    change = write.configuration.change
    assert change is not None
    assert (write.configuration.map, change.to.map) == (before.map, after)


@pytest.mark.parametrize(
    ("configuration", "ask"),
    [
        (replace(ANCHORED, map=LEARNED), Ask(map=LEARNED.version)),
        (replace(ANCHORED, map=LEARNED), Ask({"matcher": 2}, routing="anchored", map=LEARNED.version)),
        (ANCHORED, Ask(map=NO_MAP)),
        (OLD, Ask(map=NO_MAP)),
    ],
)
def test_the_map_that_is_there_already_is_done_at_once(configuration: Configuration, ask: Ask) -> None:
    done = replace(asked(ask), state="done", phase="done", epoch=4, began_s={"done": CLOCK_S})
    assert stage_of(configuration, LEARNED if ask.named_map else None).ask(asked(ask)) == [WriteRecord(3, done)]


@pytest.mark.parametrize(
    ("configuration", "ask", "map", "reason"),
    [
        (OLD, Ask(map=LEARNED.version), LEARNED, "ask for the routing 'anchored' too"),
        (OLD, Ask({"matcher": 3}, map=LEARNED.version), LEARNED, "ask for the routing 'anchored' too"),
        (ANCHORED, Ask(routing="broadcast", map=LEARNED.version), LEARNED, "ask for the routing 'anchored' too"),
        (ANCHORED, Ask(map=LEARNED.version), None, f"the map {LEARNED.version} is missing in ZooKeeper, or damaged"),
        (ANCHORED, Ask(map=LEARNED.version), OTHER, f"the map {LEARNED.version} is missing in ZooKeeper, or damaged"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_reason(
    configuration: Configuration, ask: Ask, map: AnchorMap | None, reason: str
) -> None:
    (write,) = stage_of(configuration, map).ask(asked(ask))
    assert isinstance(write, WriteRecord)
    assert write.record.state == "aborted"
    assert reason in write.record.reason


def test_a_change_under_way_is_judged_by_what_is_in_force() -> None:
    """A switch to `anchored` that is behind its cut counts, one that may still go back does not."""
    to = Target(7, OLD.accesspoints, OLD.matchers, OLD.exitpoints, "anchored")
    ask = Ask(map=LEARNED.version)
    assert refusal(ask, replace(OLD, change=Change(ID, "changing", to, {}))) is None
    assert refusal(ask, replace(OLD, change=Change(ID, "moving", to, {}))) is not None
