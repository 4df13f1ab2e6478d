"""What a scaling does when somebody dies: participants, leaders, answers."""

import pytest
from msgspec.structs import replace

from braid.coordination_events import Deposed, Elected, ReportsChanged
from braid.scaling import Report, ScalingRecord
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
    "moving": reports("change-ready", *MATCHERS),
    "changing": reports("done", *MATCHERS) + reports("exit-point-matcher-updated", "exitpoint-1"),
    "flushing": reports("scale-end", "accesspoint-1"),
}
NEXT: dict[Phase, Phase] = {"moving": "changing", "changing": "flushing", "flushing": "ending"}


def in_phase(phase: Phase) -> CoordinatorStage:
    """Elected a moment ago, while a change stands in this phase; nobody has reported yet."""
    stage = CoordinatorStage(under_way(phase), replace(asked(), phase=phase, epoch=7))
    stage.elect(registered(*NEW))
    return stage


def given_up(reason: str) -> tuple[Configuration, ScalingRecord]:
    record = replace(asked(), phase="aborted", state="aborted", epoch=7, reason=reason, began_s={"aborted": CLOCK_S})
    return replace(OLD, epochs=7), record


@pytest.mark.parametrize("phase", ["moving", "changing", "flushing"])
def test_a_new_leader_waits_where_the_change_stands_and_goes_on(phase: Phase) -> None:
    stage = in_phase(phase)
    assert stage.core.state is State(phase)
    assert stage.under_way == []
    record = replace(asked(), phase=NEXT[phase], epoch=7, began_s={NEXT[phase]: CLOCK_S})
    assert stage.tell(*AGAIN[phase]) == [WriteConfiguration(2, under_way(NEXT[phase]), 10, record)]


@pytest.mark.parametrize("phase", ["moving", "changing", "flushing"])
def test_a_new_leader_reads_the_reports_that_came_before_it(phase: Phase) -> None:
    stage = CoordinatorStage(under_way(phase), replace(asked(), phase=phase, epoch=7))
    stage.reports = AGAIN[phase]
    sweep, write = stage.elect(registered(*NEW))
    assert sweep == Sweep(ID)
    assert isinstance(write, WriteConfiguration)
    assert write.configuration == under_way(NEXT[phase])


def test_a_new_leader_ends_a_change_with_what_all_have_reported() -> None:
    stage = CoordinatorStage(under_way("ending"), replace(asked(), phase="ending", epoch=7))
    stage.reports = (report("change-ready", "matcher-1", moved=5), report("scale-end", "accesspoint-1", held_s=0.5))
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
    assert write.configuration == under_way("moving")


def test_a_leader_that_does_not_know_the_slices_yet_takes_nobody_for_dead() -> None:
    stage = CoordinatorStage(under_way("moving"), replace(asked(), phase="moving", epoch=7))
    stage.feed(Elected())
    assert stage.answer() == [Sweep(ID)]
    assert stage.core.state is State.MOVING
    assert stage.feed(registered(*NEW)) == []


@pytest.mark.parametrize("victim", ["accesspoint-1", "matcher-1", "matcher-3", "exitpoint-1"])
def test_a_participant_that_dies_while_state_moves_ends_the_scaling(victim: str) -> None:
    stage = in_phase("moving")
    left = [name for name in NEW if name != victim]
    configuration, record = given_up(f"{victim} is gone")
    assert stage.feed(registered(*left)) == [WriteConfiguration(2, configuration, 10, record)]
    assert stage.answer() == [Sweep(None)]
    assert stage.core.state is State.IDLE


def test_a_participant_that_started_again_ends_the_scaling_too() -> None:
    stage = in_phase("moving")
    configuration, record = given_up("matcher-2 started again")
    slices = registered(*NEW, incarnations={"matcher-2": 2})
    assert stage.feed(slices) == [WriteConfiguration(2, configuration, 10, record)]


def test_the_number_of_a_change_that_was_given_up_is_not_used_again() -> None:
    stage = in_phase("moving")
    stage.feed(registered(*NAMES))
    stage.answer()
    (record,) = stage.ask(asked(id="scaling-2"))
    assert isinstance(record, WriteRecord)
    stage.answer()
    (begin,) = stage.feed(registered(*NEW))
    assert isinstance(begin, WriteConfiguration)
    assert begin.configuration.change is not None
    assert begin.configuration.change.to.epoch == 8


def test_moving_ends_after_its_time() -> None:
    stage = in_phase("moving")
    stage.tell(*reports("change-ready", "matcher-1", "matcher-3"))
    assert stage.tick(599.9) == []
    (write,) = stage.tick(600.0)
    assert isinstance(write, WriteConfiguration)
    assert write.configuration == replace(OLD, epochs=7)
    assert write.record is not None
    assert write.record.reason == "not ready within 600 s: matcher-2"


def test_a_report_of_an_earlier_incarnation_does_not_count_while_state_moves() -> None:
    stage = in_phase("moving")
    assert stage.tell(*reports("change-ready", "matcher-1", "matcher-2"), report("change-ready", "matcher-3", 0)) == []


@pytest.mark.parametrize("phase", ["changing", "flushing"])
def test_from_the_cut_on_nobody_who_dies_takes_the_scaling_back(phase: Phase) -> None:
    stage = in_phase(phase)
    assert stage.feed(registered()) == []
    again = tuple(replace(each, incarnation=2) for each in AGAIN[phase])  # by those who started again
    (write,) = stage.tell(*again)
    assert isinstance(write, WriteConfiguration)
    assert write.configuration == under_way(NEXT[phase])


def test_after_a_stale_write_everything_is_read_again() -> None:
    stage = in_phase("moving")
    stage.tell(*AGAIN["moving"])
    stage.under_way.clear()
    assert stage.feed(AttemptFailed(2, "stale")) == []
    assert stage.informs[-1] == Inform("will read the configuration again", {"reason": "stale"}, warning=True)
    assert stage.core.state is State.READING
    assert stage.core.is_scaling
    assert stage.tick(RETRY_S) == [ReadConfiguration(3)]
    (write,) = stage.answer()
    assert isinstance(write, WriteConfiguration)
    assert write.expected_version == 10


def test_a_write_that_happened_although_its_answer_was_lost_is_not_repeated() -> None:
    stage = in_phase("moving")
    stage.tell(*AGAIN["moving"])
    (write,) = stage.under_way
    assert isinstance(write, WriteConfiguration)
    stage.configuration, stage.version, stage.record = write.configuration, 11, write.record
    stage.under_way.clear()
    stage.feed(AttemptFailed(2, "no answer"))
    stage.tick(RETRY_S)
    assert stage.answer() == []
    assert stage.core.state is State.CHANGING


def test_deadlines_are_not_longer_because_everything_was_read_again() -> None:
    stage = in_phase("moving")
    assert stage.tick(500.0) == []
    stage.feed(Deposed())
    stage.feed(Elected())
    stage.answer()
    assert isinstance(stage.tick(600.0)[0], WriteConfiguration)


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
    _, write = stage.elect(registered(*NEW))
    target = under_way("ending").target()
    assert target is not None
    assert write == WriteConfiguration(2, target, 10, None)
    assert stage.answer() == [Sweep(None)]
    assert stage.core.state is State.IDLE


def test_a_request_that_stands_in_place_of_a_removed_record_comes_afterwards() -> None:
    stage = CoordinatorStage(under_way("ending"), asked(id="scaling-2"))
    _, write = stage.elect(registered(*NEW))
    assert isinstance(write, WriteConfiguration)
    assert write.record is None
    stage.answer()
    assert stage.core.state is State.IDLE
    assert stage.tick(1.0) == [ReadConfiguration(3)]
    (done,) = stage.answer()
    assert isinstance(done, WriteRecord)
    assert (done.record.id, done.record.state) == ("scaling-2", "done")
