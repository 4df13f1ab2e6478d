"""What a scaling does when somebody dies: participants, leaders, answers."""

import pytest
from msgspec.structs import replace

from braid.coordination_events import Deposed, Elected, ReportsChanged
from braid.scaling import Report, ScalingRecord, Step
from braid.topology import Configuration, Phase
from coordinator.core import RETRY_S, State
from coordinator.events import (
    AttemptFailed,
    ConfigurationWritten,
    Inform,
    ReadConfiguration,
    Sweep,
    WriteConfiguration,
    WriteRecord,
)
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
AGAIN: dict[Phase, tuple[Report, ...]] = {
    "copying": reports("copied", *MATCHERS),
    "moving": reports("change-ready", *MATCHERS),
    "changing": reports("done", *MATCHERS) + reports("exit-point-matcher-updated", "exitpoint-1"),
    "flushing": reports("scale-end", "accesspoint-1"),
}
NEXT: dict[Phase, Phase] = {"copying": "moving", "moving": "changing", "changing": "flushing", "flushing": "ending"}
STEP: dict[Phase, Step] = {"copying": "copied", "moving": "change-ready"}


def in_phase(phase: Phase) -> CoordinatorStage:
    """Elected a moment ago, while a change stands in this phase; nobody has reported yet."""
    stage = CoordinatorStage(under_way(phase), replace(asked(), phase=phase, epoch=7))
    stage.elect(registered(*NEW))
    return stage


def given_up(reason: str) -> tuple[Configuration, ScalingRecord]:
    record = replace(asked(), phase="aborted", state="aborted", epoch=7, reason=reason, began_s={"aborted": CLOCK_S})
    return replace(OLD, epochs=7), record


@pytest.mark.parametrize("phase", NEXT)
def test_a_new_leader_waits_where_the_change_stands_and_goes_on(phase: Phase) -> None:
    stage = in_phase(phase)
    assert stage.core.state is State(phase)
    assert stage.under_way == []
    record = replace(asked(), phase=NEXT[phase], epoch=7, began_s={NEXT[phase]: CLOCK_S})
    assert stage.tell(*AGAIN[phase]) == [WriteConfiguration(2, under_way(NEXT[phase]), 10, record)]


@pytest.mark.parametrize("phase", STEP)
def test_a_matcher_that_cannot_store_its_share_ends_it_at_once(phase: Phase) -> None:
    stage = in_phase(phase)
    configuration, record = given_up("no room, or a failing disk, for what is moved to matcher-3; its log says which")
    assert stage.tell(report("refused", "matcher-3")) == [WriteConfiguration(2, configuration, 10, record)]


def test_what_is_given_up_tells_how_long_subscriptions_were_kept_back() -> None:
    began = replace(asked(), phase="moving", epoch=7, began_s={"moving": CLOCK_S - 4})
    stage = CoordinatorStage(under_way("moving"), began)
    stage.elect(registered(*NEW))
    (write,) = stage.tell(report("refused", "matcher-3"))
    assert isinstance(write, WriteConfiguration)
    assert write.record is not None
    assert write.record.longest_wait_s == 4


@pytest.mark.parametrize("phase", NEXT)
def test_a_new_leader_reads_the_reports_that_came_before_it(phase: Phase) -> None:
    stage = CoordinatorStage(under_way(phase), replace(asked(), phase=phase, epoch=7))
    stage.reports = AGAIN[phase]
    sweep, write = stage.elect(registered(*NEW))
    assert sweep == Sweep(ID)
    assert isinstance(write, WriteConfiguration)
    assert write.configuration == under_way(NEXT[phase])


def test_a_new_leader_ends_a_change_with_what_all_have_reported() -> None:
    stage = CoordinatorStage(under_way("ending"), replace(asked(), phase="ending", epoch=7))
    ready, ended = report("change-ready", "matcher-1", moved=5), report("scale-end", "accesspoint-1", held_s=0.5)
    stage.reports = (ready, ended, *reports("drained", *MATCHERS))
    _, write = stage.elect(registered(*NEW))
    assert isinstance(write, WriteConfiguration)
    assert write.record is not None
    assert (write.record.state, write.record.moved, write.record.longest_pause_s) == ("done", 5, 0.5)


@pytest.mark.parametrize("phase", ["asked", "gathering"])
def test_a_new_leader_gathers_again(phase: str) -> None:
    stage = CoordinatorStage(OLD, replace(asked(), phase=phase, wants=("matcher-3",)))
    stage.elect(registered(*NAMES))
    assert stage.core.state is State.GATHERING
    if stage.under_way:
        stage.answer()
    (write,) = stage.feed(registered(*NEW))
    assert isinstance(write, WriteConfiguration)
    assert write.configuration == under_way("copying")


@pytest.mark.parametrize("phase", STEP)
def test_a_leader_that_does_not_know_the_slices_yet_takes_nobody_for_dead(phase: Phase) -> None:
    stage = CoordinatorStage(under_way(phase), replace(asked(), phase=phase, epoch=7))
    stage.feed(Elected())
    assert stage.answer() == [Sweep(ID)]
    assert stage.core.state is State(phase)
    assert stage.feed(registered(*NEW)) == []


@pytest.mark.parametrize("phase", STEP)
@pytest.mark.parametrize("victim", ["accesspoint-1", "matcher-1", "matcher-3", "exitpoint-1"])
def test_a_participant_that_dies_before_the_cut_ends_the_scaling(phase: Phase, victim: str) -> None:
    stage = in_phase(phase)
    left = [name for name in NEW if name != victim]
    configuration, record = given_up(f"{victim} is gone")
    assert stage.feed(registered(*left)) == [WriteConfiguration(2, configuration, 10, record)]
    assert stage.answer() == [Sweep(None)]
    assert stage.core.state is State.IDLE


@pytest.mark.parametrize("phase", STEP)
def test_a_participant_that_started_again_ends_the_scaling_too(phase: Phase) -> None:
    stage = in_phase(phase)
    configuration, record = given_up("matcher-2 started again")
    slices = registered(*NEW, incarnations={"matcher-2": 2})
    assert stage.feed(slices) == [WriteConfiguration(2, configuration, 10, record)]


@pytest.mark.parametrize("phase", STEP)
def test_all_that_are_gone_are_named_also_when_everybody_has_reported(phase: Phase) -> None:
    stage = CoordinatorStage(under_way(phase), replace(asked(), phase=phase, epoch=7))
    stage.reports = AGAIN[phase]
    left = [name for name in NEW if name not in ("matcher-3", "accesspoint-1")]
    configuration, record = given_up("accesspoint-1 is gone, matcher-1 started again, matcher-3 is gone")
    slices = registered(*left, incarnations={"matcher-1": 2})
    assert stage.elect(slices) == [Sweep(ID), WriteConfiguration(2, configuration, 10, record)]


@pytest.mark.parametrize("phase", STEP)
def test_who_takes_no_part_may_come_and_go(phase: Phase) -> None:
    stage = in_phase(phase)
    assert stage.feed(registered(*NEW, "matcher-9", "connpoint-1")) == stage.feed(registered(*NEW)) == []
    assert stage.core.state is State(phase)


@pytest.mark.parametrize("phase", STEP)
def test_the_number_of_a_change_that_was_given_up_is_not_used_again(phase: Phase) -> None:
    stage = in_phase(phase)
    stage.feed(registered(*NAMES))
    stage.answer()
    (record,) = stage.ask(asked(id="scaling-2"))
    assert isinstance(record, WriteRecord)
    stage.answer()
    (begin,) = stage.feed(registered(*NEW))
    assert isinstance(begin, WriteConfiguration)
    assert begin.configuration.change is not None
    assert begin.configuration.change.to.epoch == 8


@pytest.mark.parametrize(("phase", "most_s"), [("copying", 3600), ("moving", 60)])
def test_before_the_cut_each_phase_ends_after_its_time(phase: Phase, most_s: int) -> None:
    stage = in_phase(phase)
    stage.tell(*reports(STEP[phase], "matcher-1", "matcher-3"))
    assert stage.tick(most_s - 0.1) == []
    (write,) = stage.tick(most_s)
    assert isinstance(write, WriteConfiguration)
    assert write.configuration == replace(OLD, epochs=7)
    assert write.record is not None
    assert write.record.reason == f"not {STEP[phase]} within {most_s} s: matcher-2"


def test_the_time_of_moving_begins_when_the_copy_has_ended() -> None:
    stage = in_phase("copying")
    assert stage.tick(3000.0) == []
    stage.tell(*AGAIN["copying"])
    stage.answer()
    assert stage.tick(3059.9) == []
    assert isinstance(stage.tick(3060.0)[0], WriteConfiguration)


@pytest.mark.parametrize("phase", STEP)
@pytest.mark.parametrize("incarnation", [0, 2])
def test_a_report_of_another_incarnation_does_not_count_before_the_cut(phase: Phase, incarnation: int) -> None:
    stage = in_phase(phase)
    step = STEP[phase]
    assert stage.tell(*reports(step, "matcher-1", "matcher-2"), report(step, "matcher-3", incarnation)) == []
    assert stage.core.state is State(phase)


@pytest.mark.parametrize("phase", ["changing", "flushing"])
def test_from_the_cut_on_nobody_who_dies_takes_the_scaling_back(phase: Phase) -> None:
    stage = in_phase(phase)
    assert stage.feed(registered()) == []
    again = tuple(replace(each, incarnation=2) for each in AGAIN[phase])  # by those who started again
    (write,) = stage.tell(*again)
    assert isinstance(write, WriteConfiguration)
    assert write.configuration == under_way(NEXT[phase])


@pytest.mark.parametrize("phase", STEP)
def test_after_a_stale_write_everything_is_read_again(phase: Phase) -> None:
    stage = in_phase(phase)
    stage.tell(*AGAIN[phase])
    stage.under_way.clear()
    assert stage.feed(AttemptFailed(2, "stale")) == []
    assert stage.informs[-1] == Inform("will read the configuration again", {"reason": "stale"}, warning=True)
    assert stage.core.state is State.READING
    assert stage.core.is_scaling
    assert stage.tick(RETRY_S) == [ReadConfiguration(3)]
    (write,) = stage.answer()
    assert isinstance(write, WriteConfiguration)
    assert write.expected_version == 10


@pytest.mark.parametrize("phase", STEP)
def test_a_write_that_happened_although_its_answer_was_lost_is_not_repeated(phase: Phase) -> None:
    stage = in_phase(phase)
    stage.tell(*AGAIN[phase])
    (write,) = stage.under_way
    assert isinstance(write, WriteConfiguration)
    stage.configuration, stage.version, stage.record = write.configuration, 11, write.record
    stage.under_way.clear()
    stage.feed(AttemptFailed(2, "no answer"))
    stage.tick(RETRY_S)
    assert stage.answer() == []
    assert stage.core.state is State(NEXT[phase])


@pytest.mark.parametrize(("phase", "most_s"), [("copying", 3600.0), ("moving", 60.0)])
def test_deadlines_are_not_longer_because_everything_was_read_again(phase: Phase, most_s: float) -> None:
    stage = in_phase(phase)
    stage.now = most_s - 10.0
    stage.feed(registered(*NAMES))
    stage.under_way.clear()
    stage.feed(AttemptFailed(2, "stale"))
    stage.feed(registered(*NEW))  # the one that was missing is there after all
    stage.tick(most_s - 9.0)
    assert stage.answer() == []
    assert stage.tick(most_s - 0.1) == []
    assert isinstance(stage.tick(most_s)[0], WriteConfiguration)


@pytest.mark.parametrize(
    ("phase", "most_s"),
    [("copying", 3600.0), ("moving", 60.0), ("changing", 10.0), ("flushing", 10.0), ("ending", 10.0)],
)
def test_deadlines_begin_anew_when_it_leads_again(phase: Phase, most_s: float) -> None:
    """While ZooKeeper is away, nobody can report."""
    stage = in_phase(phase)
    assert stage.tick(most_s - 1.0) == []
    assert stage.feed(Deposed()) == stage.tick(most_s + 2.0) == []
    stage.feed(Elected())
    assert stage.answer() == [Sweep(ID)]
    assert stage.tick(2 * most_s + 1.9) == []
    assert isinstance(stage.tick(2 * most_s + 2.0)[0], WriteConfiguration)


def test_slices_have_time_to_register_when_it_leads_again() -> None:
    stage = CoordinatorStage(OLD, replace(asked(), phase="gathering", wants=("matcher-3",)))
    stage.elect(registered(*NAMES))
    assert stage.feed(Deposed()) == stage.tick(31.0) == []
    stage.feed(Elected())
    assert stage.answer() == [Sweep(ID)]
    (begin,) = stage.feed(registered(*NEW))
    assert isinstance(begin, WriteConfiguration)
    assert begin.configuration == under_way("copying")


def test_a_matcher_that_leaves_has_time_to_hand_over_when_the_coordinator_leads_again() -> None:
    stage = CoordinatorStage(under_way("ending", ("matcher-1",)), replace(asked(), phase="ending", epoch=7))
    stage.elect(registered(*NAMES))
    assert stage.feed(Deposed()) == stage.tick(12.0) == []
    stage.feed(Elected())
    assert stage.answer() == [Sweep(ID)]
    assert stage.tell(report("drained", "matcher-1")) == []
    assert stage.tick(600.0) == []
    (write,) = stage.tell(report("drained", "matcher-2"))
    assert isinstance(write, WriteConfiguration)
    assert write.record is not None
    assert write.record.state == "done"


def test_a_leader_that_is_deposed_while_writing_listens_to_no_answer() -> None:
    stage = in_phase("moving")
    stage.tell(*AGAIN["moving"])
    stage.under_way.clear()
    assert stage.feed(Deposed()) == []
    assert stage.core.state is State.STANDBY
    assert not stage.core.is_scaling
    assert stage.feed(ConfigurationWritten(2, under_way("changing"), 11)) == []
    assert stage.feed(registered()) == []
    stage.configuration = under_way("changing")  # it was written after all
    stage.feed(registered(*NEW))
    assert stage.feed(Elected()) == [ReadConfiguration(4)]
    assert stage.answer() == [Sweep(ID)]
    assert stage.core.state.value == "changing"


def test_reports_that_come_while_it_reads_are_not_lost() -> None:
    stage = CoordinatorStage(under_way("moving"), replace(asked(), phase="moving", epoch=7))
    stage.feed(registered(*NEW))
    stage.feed(Elected())
    stage.feed(ReportsChanged(ID, AGAIN["moving"], ()))
    _, write = stage.answer()  # what it read had been read before they came
    assert isinstance(write, WriteConfiguration)
    assert write.configuration == under_way("changing")


def test_a_change_goes_on_without_its_record() -> None:
    stage = CoordinatorStage(under_way("ending"), None)
    stage.reports = reports("drained", *MATCHERS)
    _, write = stage.elect(registered(*NEW))
    target = under_way("ending").target()
    assert target is not None
    assert write == WriteConfiguration(2, target, 10, None)
    assert stage.answer() == [Sweep(None)]
    assert stage.core.state is State.IDLE


def test_a_request_that_stands_in_place_of_a_removed_record_comes_afterwards() -> None:
    stage = CoordinatorStage(under_way("ending"), asked(id="scaling-2"))
    stage.reports = reports("drained", *MATCHERS)
    _, write = stage.elect(registered(*NEW))
    assert isinstance(write, WriteConfiguration)
    assert write.record is None
    stage.answer()
    assert stage.core.state is State.IDLE
    assert stage.tick(1.0) == [ReadConfiguration(3)]
    (done,) = stage.answer()
    assert isinstance(done, WriteRecord)
    assert (done.record.id, done.record.state) == ("scaling-2", "done")
