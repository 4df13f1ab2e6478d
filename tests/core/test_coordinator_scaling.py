"""A scaling from the question to its end, with exact effects."""

import pytest
from msgspec.structs import replace

from braid.coordination_events import Deposed, Elected, ReportsChanged, ScalingChanged
from braid.scaling import Ask, ScalingRecord, Step
from braid.topology import PHASES, Configuration, Phase
from coordinator.core import REMIND_S, State
from coordinator.events import Inform, ReadConfiguration, Sweep, WriteConfiguration, WriteRecord
from tests.core.coordinator_stage import (
    CLOCK_S,
    ID,
    NAMES,
    OLD,
    CoordinatorStage,
    asked,
    registered,
    report,
    reports,
    under_way,
)

NEW = (*NAMES, "matcher-3")
MATCHERS = ("matcher-1", "matcher-2", "matcher-3")


def idle(*names: str) -> CoordinatorStage:
    stage = CoordinatorStage()
    assert stage.elect(registered(*(names or NAMES))) == [Sweep(None)]
    assert stage.core.state is State.IDLE
    return stage


def copying() -> CoordinatorStage:
    stage = idle(*NEW)
    stage.ask(asked())
    stage.answer()
    assert stage.core.state is State.COPYING
    return stage


def moving() -> CoordinatorStage:
    stage = copying()
    stage.tell(*reports("copied", *MATCHERS))
    stage.answer()
    assert stage.core.state is State.MOVING
    return stage


def expect(stage: CoordinatorStage, state: State) -> None:
    assert stage.core.state is state


def record(phase: str, **began_s: float) -> ScalingRecord:
    return replace(asked(), phase=phase, epoch=7, began_s=began_s)


def test_the_whole_way_of_a_scaling() -> None:
    stage = idle()
    assert stage.ask(asked()) == [
        WriteRecord(3, replace(asked(), phase="gathering", wants=("matcher-3",), began_s={"gathering": CLOCK_S}))
    ]
    assert stage.answer() == []
    expect(stage, State.GATHERING)
    assert stage.core.is_scaling

    stage.now = 1.0
    began = {"gathering": CLOCK_S, "copying": CLOCK_S + 1}
    assert stage.feed(registered(*NEW)) == [
        WriteConfiguration(4, under_way("copying"), 10, replace(asked(), phase="copying", epoch=7, began_s=began))
    ]
    assert stage.answer() == []
    expect(stage, State.COPYING)

    stage.now = 2.0
    assert stage.tell(report("copied", "matcher-1", moved=19), report("copied", "matcher-2", moved=20)) == []
    began = {**began, "moving": CLOCK_S + 2}
    assert stage.tell(report("copied", "matcher-3")) == [
        WriteConfiguration(5, under_way("moving"), 11, record("moving", **began))
    ]
    assert stage.answer() == []
    expect(stage, State.MOVING)

    stage.now = 3.0
    assert (
        stage.tell(report("change-ready", "matcher-1", moved=20), report("change-ready", "matcher-2", moved=22)) == []
    )
    began = {**began, "changing": CLOCK_S + 3}
    assert stage.tell(report("change-ready", "matcher-3")) == [
        WriteConfiguration(6, under_way("changing"), 12, record("changing", **began))
    ]
    assert stage.answer() == []
    expect(stage, State.CHANGING)

    stage.now = 4.0
    assert stage.tell(*reports("done", *MATCHERS)) == []
    began = {**began, "flushing": CLOCK_S + 4}
    assert stage.tell(*reports("exit-point-matcher-updated", "exitpoint-1")) == [
        WriteConfiguration(7, under_way("flushing"), 13, record("flushing", **began))
    ]
    assert stage.answer() == []
    expect(stage, State.FLUSHING)

    stage.now = 5.0
    began = {**began, "ending": CLOCK_S + 5}
    assert stage.tell(report("scale-end", "accesspoint-1", held_s=0.25, kept_back_s=1.5)) == [
        WriteConfiguration(8, under_way("ending"), 14, record("ending", **began))
    ]
    assert stage.answer() == []
    expect(stage, State.ENDING)

    stage.now = 6.0
    began = {**began, "done": CLOCK_S + 6}
    done = replace(record("done", **began), state="done", moved=42, longest_pause_s=0.25, longest_wait_s=1.5)
    target = Configuration(7, ("accesspoint-1",), MATCHERS, ("exitpoint-1",), epochs=7)
    assert stage.tell(*reports("drained", *MATCHERS)) == [WriteConfiguration(9, target, 15, done)]
    assert stage.answer() == [Sweep(None)]
    expect(stage, State.IDLE)
    assert not stage.core.is_scaling
    assert stage.ended == [done]
    assert [inform.fields for inform in stage.informs if inform.message == "configuration in force"] == [
        {"epoch": 4},
        {"epoch": 7},
    ]
    assert [inform.fields["phase"] for inform in stage.informs if inform.message == "scaling"] == [
        "gathering",
        *PHASES,
    ]


def test_slices_that_are_there_already_are_not_gathered() -> None:
    stage = idle(*NEW)
    assert stage.ask(asked()) == [WriteConfiguration(3, under_way("copying"), 10, record("copying", copying=CLOCK_S))]


def test_a_spare_that_registers_meanwhile_is_taken_instead_of_a_wanted_one() -> None:
    stage = idle()
    stage.ask(asked(Ask({"matcher": 4})))
    assert stage.record is not None
    stage.answer()
    assert stage.record.wants == ("matcher-3", "matcher-4")
    (write,) = stage.feed(registered(*NAMES, "matcher-9"))
    assert isinstance(write, WriteRecord)
    assert write.record.wants == ("matcher-3",)
    assert write.record.began_s == {"gathering": CLOCK_S}
    stage.answer()
    (begin,) = stage.feed(registered(*NAMES, "matcher-9", "matcher-3"))
    assert isinstance(begin, WriteConfiguration)
    assert begin.configuration.change is not None
    assert begin.configuration.change.to.matchers == ("matcher-1", "matcher-2", "matcher-3", "matcher-9")


def test_gathering_ends_after_its_time_and_names_who_is_missing() -> None:
    stage = CoordinatorStage()
    stage.elect(registered("accesspoint-1", "matcher-1", "exitpoint-1"))  # an old one is missing too
    stage.ask(asked())
    stage.answer()
    assert stage.tick(29.9) == []
    (write,) = stage.tick(30.0)
    assert isinstance(write, WriteRecord)
    assert (write.record.state, write.record.phase, write.record.wants) == ("aborted", "aborted", ())
    assert write.record.reason == "not registered within 30 s: matcher-2, matcher-3"
    assert stage.answer() == [Sweep(None)]
    assert stage.core.state is State.IDLE
    assert stage.configuration == OLD


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (Ask(), "nothing is asked for"),
        (Ask({"connpoint": 2}), "as soon as it registers"),
        (Ask({"matcher": 0}), "matcher=0: a layer has from 1 to 64 slices"),
        (Ask({"exitpoint": 65}), "exitpoint=65: a layer has from 1 to 64 slices"),
        (Ask(replace=("matcher-7",)), "matcher-7 cannot be replaced, it is not configured"),
        (Ask(replace=("matcher-1", "matcher-1")), "matcher-1 is to be replaced twice"),
    ],
)
def test_what_cannot_be_done_is_refused_at_once(ask: Ask, reason: str) -> None:
    stage = idle()
    (write,) = stage.ask(asked(ask))
    assert isinstance(write, WriteRecord)
    assert write.record.state == "aborted"
    assert reason in write.record.reason
    assert stage.answer() == [Sweep(None)]
    assert stage.core.state is State.IDLE


def test_what_is_there_already_is_done_at_once_without_a_new_epoch() -> None:
    stage = idle()
    done = replace(asked(Ask({"matcher": 2})), state="done", phase="done", epoch=4, began_s={"done": CLOCK_S})
    assert stage.ask(asked(Ask({"matcher": 2}))) == [WriteRecord(3, done)]
    assert stage.answer() == [Sweep(None)]
    assert stage.configuration == OLD


def test_without_a_configuration_a_request_waits() -> None:
    stage = CoordinatorStage(configuration=None, record=asked(Ask({"matcher": 2})))
    assert stage.elect(registered()) == []
    assert stage.core.state is State.WAITING
    assert isinstance(stage.feed(registered(*NAMES))[0], WriteConfiguration)
    sweep, done = stage.answer()
    assert sweep == Sweep(ID)
    assert isinstance(done, WriteRecord)
    assert done.record.state == "done"


def test_matchers_and_slices_that_leave_are_waited_for_until_they_are_drained() -> None:
    fewer = under_way("ending", ("matcher-1",))
    stage = CoordinatorStage(fewer, replace(asked(Ask({"matcher": 1})), phase="ending", epoch=7))
    assert stage.elect(registered(*NAMES)) == [Sweep(ID)]
    assert stage.tell(report("drained", "matcher-1")) == []
    (write,) = stage.tell(report("drained", "matcher-2"))
    assert isinstance(write, WriteConfiguration)
    assert write.configuration == fewer.target()


def departing(*names: str) -> CoordinatorStage:
    """matcher-2 leaves and has not drained, all others have; and these are registered."""
    stage = CoordinatorStage(under_way("ending", ("matcher-1",)), replace(asked(), phase="ending", epoch=7))
    stage.elect(registered(*names))
    stage.tell(report("drained", "matcher-1"))
    return stage


def test_a_matcher_that_leaves_has_time_to_hand_over_its_publications() -> None:
    stage = departing(*NAMES)
    assert stage.tick(599.0) == []
    assert isinstance(stage.tick(601.0)[0], WriteConfiguration)
    assert stage.informs[-1].fields["missing"] == ("drained:matcher-2",)


WITHOUT_IT = ("accesspoint-1", "matcher-1", "exitpoint-1")


def test_a_matcher_that_leaves_and_has_died_has_time_to_come_back() -> None:
    stage = departing(*WITHOUT_IT)
    assert stage.tick(29.0) == []
    stage.feed(registered(*NAMES))
    assert stage.tick(45.0) == []
    assert stage.feed(registered(*WITHOUT_IT)) == stage.tick(74.0) == []
    assert stage.feed(registered(*NAMES)) == stage.tick(599.0) == []
    assert stage.feed(registered(*WITHOUT_IT)) == []
    assert isinstance(stage.tick(600.0)[0], WriteConfiguration)


def test_a_matcher_that_leaves_and_does_not_come_back_is_waited_for_since_it_died() -> None:
    stage = departing(*NAMES)
    assert stage.tick(45.0) == []
    assert stage.feed(registered(*WITHOUT_IT)) == stage.tick(74.9) == []
    assert isinstance(stage.tick(75.0)[0], WriteConfiguration)


def test_a_matcher_that_leaves_has_time_to_come_back_when_the_coordinator_leads_again() -> None:
    stage = departing(*WITHOUT_IT)
    assert stage.tick(29.0) == stage.feed(Deposed()) == stage.tick(35.0) == []
    stage.feed(Elected())
    assert stage.answer() == [Sweep(ID)]
    assert stage.tick(64.9) == []
    assert isinstance(stage.tick(65.0)[0], WriteConfiguration)


def test_one_that_does_not_come_back_takes_no_time_from_another_that_hands_over() -> None:
    stage = CoordinatorStage(under_way("ending", ("matcher-3",)), replace(asked(), phase="ending", epoch=7))
    stage.elect(registered(*WITHOUT_IT, "matcher-3"))
    stage.tell(report("drained", "matcher-3"))
    assert stage.tick(599.0) == []
    assert isinstance(stage.tell(report("drained", "matcher-1"))[0], WriteConfiguration)


def test_one_that_stays_and_has_died_takes_no_time_from_one_that_hands_over() -> None:
    stage = CoordinatorStage(under_way("ending", ("matcher-1",)), replace(asked(), phase="ending", epoch=7))
    stage.elect(registered("accesspoint-1", "matcher-2", "exitpoint-1"))
    assert stage.tick(11.0) == []
    stage.feed(registered(*NAMES, incarnations={"matcher-1": 2}))
    assert stage.tick(599.0) == []
    assert isinstance(stage.tick(601.0)[0], WriteConfiguration)
    assert stage.informs[-1].fields["missing"] == ("drained:matcher-1", "drained:matcher-2")


def test_one_that_stays_and_has_died_is_not_waited_for_alone() -> None:
    stage = CoordinatorStage(under_way("ending", ("matcher-1",)), replace(asked(), phase="ending", epoch=7))
    stage.elect(registered("accesspoint-1", "matcher-2", "exitpoint-1"))
    assert stage.tick(20.0) == []
    assert isinstance(stage.tell(report("drained", "matcher-2"))[0], WriteConfiguration)


def test_reports_that_do_not_come_in_time_are_named_and_the_scaling_goes_on() -> None:
    stage = CoordinatorStage(under_way("changing", ("matcher-1",)), replace(asked(), phase="changing", epoch=7))
    stage.elect(registered(*NAMES))
    stage.tell(*reports("done", "matcher-1"))
    expected = [
        ("changing", ("exit-point-matcher-updated:exitpoint-1", "done:matcher-2")),
        ("flushing", ("scale-end:accesspoint-1",)),
        ("ending", ("drained:matcher-1", "drained:matcher-2")),
    ]
    for phase, missing in expected:
        assert stage.core.state.value == phase
        assert stage.tick(stage.now + 9.9) == []
        assert isinstance(stage.tick(stage.now + 0.2)[0], WriteConfiguration)
        assert stage.informs[-1].warning
        assert stage.informs[-1].fields == {"id": ID, "phase": phase, "waited_s": 10.1, "missing": missing}
        stage.answer()
    assert stage.core.state is State.IDLE
    assert stage.ended[0].state == "done"


@pytest.mark.parametrize("phase", ["copying", "moving"])
def test_a_long_wait_is_mentioned_from_time_to_time(phase: Phase) -> None:
    stage = {"copying": copying, "moving": moving}[phase]()
    stage.tick(REMIND_S - 0.1)
    told = len(stage.informs)
    stage.tick(REMIND_S)
    stage.tick(REMIND_S + 1)
    assert stage.informs[told:] == [Inform("the scaling waits", {"phase": phase, "missing": MATCHERS})]


def test_news_is_noted_while_a_write_is_under_way_and_used_afterwards() -> None:
    stage = idle(*NEW)
    stage.ask(asked())
    assert stage.tell(*reports("copied", *MATCHERS)) == []  # a slice saw the change before the answer came
    (write,) = stage.answer()
    assert isinstance(write, WriteConfiguration)
    assert write.configuration == under_way("moving")
    assert stage.tell(*reports("change-ready", *MATCHERS)) == []
    (write,) = stage.answer()
    assert isinstance(write, WriteConfiguration)
    assert write.configuration == under_way("changing")


@pytest.mark.parametrize("step", ["change-ready", "done", "drained"])
def test_a_report_of_a_later_phase_is_not_that_of_copying(step: Step) -> None:
    stage = copying()
    assert stage.tell(*reports("copied", "matcher-1", "matcher-2"), *reports(step, *MATCHERS)) == []
    assert stage.core.state is State.COPYING


def test_that_of_copying_is_not_that_of_moving() -> None:
    stage = moving()
    assert stage.tell(*reports("copied", *MATCHERS)) == []
    assert stage.core.state is State.MOVING


def test_a_second_request_is_read_when_the_first_has_ended() -> None:
    stage = idle(*NEW)
    stage.ask(asked(Ask({"matcher": 2})))  # done at once, the write is under way
    second = asked(id="scaling-2")
    assert stage.feed(ScalingChanged(second)) == []
    assert stage.answer() == [Sweep(None)]
    stage.record = second
    assert stage.tick(1.0) == [ReadConfiguration(4)]
    (begin,) = stage.answer()
    assert isinstance(begin, WriteConfiguration)
    assert begin.record is not None
    assert begin.record.id == "scaling-2"


def test_late_news_of_a_scaling_that_has_ended_begins_nothing() -> None:
    stage = idle()
    assert stage.feed(ScalingChanged(asked())) == [ReadConfiguration(2)]
    assert stage.answer() == []  # it is not there any more
    assert stage.core.state is State.IDLE
    assert stage.tick(1.0) == []
    assert stage.feed(ScalingChanged(None)) == []


def test_a_request_that_was_told_twice_is_read_once() -> None:
    stage = idle()
    stage.record = asked(Ask({"matcher": 2}))
    stage.feed(ScalingChanged(stage.record))
    assert stage.feed(ScalingChanged(stage.record)) == []
    stage.answer()
    stage.answer()
    assert stage.tick(1.0) == []


@pytest.mark.parametrize(("phase", "step"), [("copying", "copied"), ("moving", "change-ready")])
def test_reports_of_another_change_do_not_count(phase: Phase, step: Step) -> None:
    stage = {"copying": copying, "moving": moving}[phase]()
    stage.tell(*reports(step, "matcher-1", "matcher-2"))
    other = replace(report(step, "matcher-3"), change="scaling-0")
    assert stage.core.on_event(ReportsChanged("scaling-0", (other,), ()), 1.0) == []
    assert isinstance(stage.tell(report(step, "matcher-3"))[0], WriteConfiguration)
