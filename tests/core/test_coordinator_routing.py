"""A scaling that leads to another routing: begun also where the slices stay the same, and kept by all that follow."""

import pytest
from msgspec.structs import replace

from braid.scaling import Ask, Step
from braid.topology import Change, Configuration, Target
from coordinator.core import State
from coordinator.events import WriteConfiguration, WriteRecord
from tests.core.coordinator_stage import CLOCK_S, ID, NAMES, OLD, CoordinatorStage, asked, registered, reports


def test_another_routing_alone_begins_a_change_among_the_same_slices() -> None:
    stage = CoordinatorStage()
    stage.elect(registered(*NAMES))
    (write,) = stage.ask(asked(Ask(routing="anchored")))
    assert isinstance(write, WriteConfiguration)
    target = Target(7, OLD.accesspoints, OLD.matchers, OLD.exitpoints, "anchored")
    assert write.configuration == replace(OLD, change=Change(ID, "copying", target, dict.fromkeys(NAMES, 1)))
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
    assert stage.configuration == Configuration(7, OLD.accesspoints, OLD.matchers, OLD.exitpoints, "anchored", epochs=7)
    assert [record.state for record in stage.ended] == ["done"]


@pytest.mark.parametrize("ask", [Ask(routing="anchored"), Ask({"matcher": 2}, routing="anchored"), Ask({"matcher": 2})])
def test_the_routing_that_is_there_already_is_done_at_once(ask: Ask) -> None:
    stage = CoordinatorStage(replace(OLD, routing="anchored"))
    stage.elect(registered(*NAMES))
    done = replace(asked(ask), state="done", phase="done", epoch=4, began_s={"done": CLOCK_S})
    assert stage.ask(asked(ask)) == [WriteRecord(3, done)]


@pytest.mark.parametrize(
    ("ask", "routing"),
    [
        (Ask({"matcher": 3}), "anchored"),
        (Ask({"matcher": 3}, routing="anchored"), "anchored"),
        (Ask({"matcher": 3}, routing="broadcast"), "broadcast"),
        (Ask(routing="broadcast"), "broadcast"),
        (Ask(replace=("matcher-1",)), "anchored"),
    ],
)
def test_the_routing_stays_unless_another_one_is_asked_for(ask: Ask, routing: str) -> None:
    stage = CoordinatorStage(replace(OLD, routing="anchored"))
    stage.elect(registered(*NAMES, "matcher-3"))
    (write,) = stage.ask(asked(ask))
    assert isinstance(write, WriteConfiguration)
    change = write.configuration.change
    assert change is not None
    assert (write.configuration.routing, change.to.routing) == ("anchored", routing)
