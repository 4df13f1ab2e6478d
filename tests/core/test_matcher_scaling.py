"""The matcher's machine in a scaling: each transition with its exact effects."""

from typing import Literal

import pytest
from msgspec.structs import replace

from braid.messages import AddMatcherState, MatcherStateStored, Send
from braid.scaling import ReportStep
from braid.topology import Configuration, Phase
from services.matcher.core import MatcherCore
from services.matcher.effects import Continue, ExpectForeign, Forget, StoreState, WhenForgotten
from services.matcher.scaling_states import State
from tests.core.matcher_scaling_cases import (
    ACCESSPOINTS,
    NOTHING_REMEMBERED,
    acknowledge,
    at_cut,
    chunk,
    chunk_of,
    chunks_of,
    cut,
    end,
    matcher,
    receive,
    receiver,
    sender,
    settle,
    start,
    store_all,
    take_previous,
)
from tests.core.scaling_cases import (
    CHANGE,
    ENDED,
    GIVEN_UP,
    IDS,
    MOVING,
    NEW_EPOCH,
    SETTLED,
    STAYING,
    TARGET,
    during,
    record,
    to,
)

COPIED = ReportStep(CHANGE, "copied")
READY, DONE, DRAINED = (ReportStep(CHANGE, step) for step in ("change-ready", "done", "drained"))
MOVED = {"moved": float(len(MOVING))}
ENDS: tuple[Literal["copy", "state"], ...] = ("copy", "state")
NEXT = replace(TARGET, epoch=NEW_EPOCH + 1)


def test_who_sends_phase_by_phase() -> None:
    core = sender()
    assert core.on_configuration(during("copying")) == [ExpectForeign(True), Continue()]
    assert core.on_continue() == [Continue()]  # all ids; then those of which calls are known
    (send,) = core.on_continue()
    (message,) = send.messages
    assert (send.to, message) == ("matcher-2", chunk_of(1, message.records, ends="copy"))
    assert sorted(known.id for known in message.records) == sorted(MOVING)
    stored = MatcherStateStored(NEW_EPOCH, 1)
    assert core.scaling.on_matcher_state_stored("matcher-2", stored) == [ReportStep(CHANGE, "copied", MOVED)]
    assert core.scaling.on_matcher_state_stored("matcher-2", stored) == []
    assert core.on_configuration(during("copying")) == core.on_configuration(during("moving")) == []
    assert core.scaling.on_start_scale("accesspoint-1", NEW_EPOCH) == []
    assert core.scaling.on_start_scale("accesspoint-2", NEW_EPOCH) == [Continue()]
    assert core.on_continue() == [Send("matcher-2", [chunk(2, ends="state")])]
    stored = MatcherStateStored(NEW_EPOCH, 2)
    assert core.scaling.on_matcher_state_stored("matcher-2", stored) == [ReportStep(CHANGE, "change-ready", MOVED)]
    assert core.scaling.on_matcher_state_stored("matcher-2", stored) == []
    assert core.on_configuration(during("changing")) == []
    first, second = ([Send("exitpoint-1", [at_cut(name)])] for name in ACCESSPOINTS)
    assert cut(core, "accesspoint-1") == first
    assert cut(core, "accesspoint-2") == [*second, NOTHING_REMEMBERED, DONE]
    assert core.on_configuration(during("flushing")) == []
    assert core.on_configuration(during("ending")) == []
    assert end(core) == []
    assert take_previous(core) == [Continue(), DRAINED]
    forgotten, when_forgotten = core.on_continue()
    assert isinstance(forgotten, Forget)
    assert sorted(forgotten.ids) == sorted(MOVING)
    assert when_forgotten == WhenForgotten()
    assert core.on_configuration(ENDED) == [Continue()]
    assert core.on_continue() == [ExpectForeign(False)]
    assert sorted(core.index.ids()) == sorted(STAYING)
    assert core.scaling.violations == 0


@pytest.mark.parametrize("phase", ["changing", "flushing", "ending"])
def test_access_points_may_tell_of_the_end_before_the_configuration_is_read(phase: Phase) -> None:
    core = sender(State.CHANGED)
    assert end(core) == [Continue(), DRAINED]
    assert core.on_configuration(during(phase)) == []
    assert core.scaling.state is State.ENDED
    assert core.on_configuration(ENDED)[-1] == Continue()
    assert core.scaling.state.value == "serving"


def test_who_receives_phase_by_phase() -> None:
    core = receiver()
    assert core.on_configuration(during("copying")) == [ExpectForeign(True)]
    for message in (chunk(1, *MOVING[:3]), chunk(2, *MOVING[3:], ends="copy")):
        (stored,) = core.scaling.on_add_matcher_state("matcher-1", message)
        assert stored == StoreState(message.records, set(), [], "matcher-1", NEW_EPOCH, message.chunk, message.ends)
        acknowledged = Send("matcher-1", [MatcherStateStored(NEW_EPOCH, message.chunk)])
        assert core.scaling.on_state_stored(stored) == [acknowledged, *([COPIED] if message.ends else [])]
    assert core.on_configuration(during("copying")) == core.on_configuration(during("moving")) == []
    assert start(core) == []
    changed = record(MOVING[0], "n = 1")
    message = chunk_of(3, [changed, record(MOVING[2])], removed=MOVING[1:2], ends="state")
    (stored,) = core.scaling.on_add_matcher_state(
        "matcher-1", message
    )  # and what is there already is not written again
    assert stored == StoreState([changed], {MOVING[0]}, [MOVING[1]], "matcher-1", NEW_EPOCH, 3, "state")
    assert core.scaling.on_state_stored(stored) == [Send("matcher-1", [MatcherStateStored(NEW_EPOCH, 3)]), READY]
    assert core.on_configuration(during("changing")) == []
    assert cut(core, old=False) == [DONE]
    assert core.on_configuration(during("flushing")) == core.on_configuration(during("ending")) == []
    assert end(core) == [Continue(), DRAINED]
    assert core.on_continue() == []
    assert core.on_configuration(ENDED) == [Continue()]
    assert core.on_continue() == [ExpectForeign(False)]
    assert sorted(core.index.ids()) == sorted({*MOVING} - {MOVING[1]})
    assert core.scaling.violations == 0


def test_who_leaves_hands_over_everything_and_says_when_it_is_drained() -> None:
    target = to(matchers=("matcher-2",))
    core = matcher("matcher-1", IDS)
    (message,) = chunks_of(sent := settle(core, core.on_configuration(during("copying", target))))
    assert sorted(known.id for known in message.records) == sorted(IDS)
    assert acknowledge(core, sent)[-1] == ReportStep(CHANGE, "copied", {"moved": float(len(IDS))})
    core.on_configuration(during("moving", target))
    assert acknowledge(core, settle(core, start(core))) == [
        ReportStep(CHANGE, "change-ready", {"moved": float(len(IDS))})
    ]
    for phase in ("changing", "flushing", "ending"):
        core.on_configuration(during(phase, target))
    cut(core)
    take_previous(core)
    assert end(core) == [Continue(), DRAINED]
    settle(core, [Continue()])
    assert list(core.index.ids()) == []


def test_what_is_heard_early_is_kept_once_however_often_its_link_breaks() -> None:
    """A sender begins anew with what is under way; a receiver that hears nothing from ZooKeeper must not gather it."""
    core = matcher("matcher-2")
    early = [chunk(1, *MOVING[:3]), chunk(2, *MOVING[3:], ends="copy")]
    for _ in range(3):
        core.scaling.on_peer_up("matcher-1")
        for message in early:
            core.scaling.on_add_matcher_state("matcher-1", message)
    assert list(core.scaling._of(NEW_EPOCH).chunks.values()) == early


def test_what_is_heard_early_stays_when_a_second_link_to_its_sender_is_made() -> None:
    """Each of two matchers may have a link to the other: what came over one is not sent again because of the other."""
    core = receiver()
    early = [chunk(1, *MOVING[:3]), chunk(2, *MOVING[3:], ends="copy")]
    for message in early:
        core.scaling.on_add_matcher_state("matcher-1", message)
    core.scaling.on_peer_up("matcher-1")
    _, *stored = core.on_configuration(during("copying"))
    assert [(effect.chunk, effect.ends) for effect in stored] == [(1, ""), (2, "copy")]


def test_what_is_heard_before_the_configuration_counts() -> None:
    core = receiver()
    early = [chunk(1, *MOVING[:3]), chunk(2, *MOVING[3:], ends="copy")]
    assert [core.scaling.on_add_matcher_state("matcher-1", message) for message in early] == [[], []]
    begun, *stored = core.on_configuration(during("copying"))
    assert begun == ExpectForeign(True)  # before what it is about is written
    assert [(effect.chunk, effect.ends) for effect in stored] == [(1, ""), (2, "copy")]
    acknowledged = [Send("matcher-1", [MatcherStateStored(NEW_EPOCH, number)]) for number in (1, 2)]
    assert store_all(core, stored) == [*acknowledged, COPIED]
    assert start(core) == []  # ZooKeeper has told others
    assert receive(core, chunk(3, ends="state")) == [Send("matcher-1", [MatcherStateStored(NEW_EPOCH, 3)])]
    assert core.scaling.state.value == "copied"
    assert core.on_configuration(during("moving")) == [READY]
    assert core.scaling.state.value == "ready"


def test_all_that_an_old_scaling_said_is_forgotten_with_its_number() -> None:
    core = matcher("matcher-2")
    start(core, NEW_EPOCH - 1)
    old = AddMatcherState(NEW_EPOCH - 1, 1, [record("s-1")], [], {}, "copy")
    core.scaling.on_add_matcher_state("matcher-1", old)
    assert core.on_configuration(during("copying")) == [ExpectForeign(True)]
    assert core.scaling.state is State.COPYING
    assert core.on_configuration(during("moving")) == []
    assert core.scaling.state.value == "starting"
    assert list(core.index.ids()) == []


@pytest.mark.parametrize("phase", ["flushing", "ending"])
def test_the_coordinator_has_gone_on_so_nobody_waits_for_cuts(phase: Phase) -> None:
    assert sender(State.READY).on_configuration(during(phase)) == [NOTHING_REMEMBERED, DONE]


def test_a_cut_that_is_said_again_is_sent_on_again() -> None:
    core = sender(State.CHANGED)
    forwarded = [Send("exitpoint-1", [at_cut(name)]) for name in ACCESSPOINTS]
    assert cut(core) == forwarded
    assert core.scaling.state is State.CHANGED


def test_a_cut_goes_to_the_exit_points_of_both_configurations() -> None:
    core = matcher("matcher-1")
    core.on_configuration(during("moving", to(exitpoints=("exitpoint-2",))))
    assert core.scaling.on_change_matcher_on_exit_point("accesspoint-1", at_cut("accesspoint-1")) == [
        Send("exitpoint-1", [at_cut("accesspoint-1")]),
        Send("exitpoint-2", [at_cut("accesspoint-1")]),
    ]


def test_an_exit_point_that_is_linked_again_hears_every_cut() -> None:
    core = sender(State.READY)
    assert core.scaling.on_peer_up("exitpoint-1") == []
    cut(core, "accesspoint-2")
    assert core.scaling.on_peer_up("exitpoint-1") == [Send("exitpoint-1", [at_cut("accesspoint-2")])]
    cut(core, "accesspoint-1")
    cuts = [at_cut("accesspoint-2"), at_cut("accesspoint-1")]
    assert core.scaling.on_peer_up("exitpoint-1") == [Send("exitpoint-1", cuts)]
    assert core.scaling.on_peer_up("exitpoint-9") == core.scaling.on_peer_up("accesspoint-1") == []
    core.on_configuration(ENDED)
    assert core.scaling.on_peer_up("exitpoint-1") == []


def test_change_matcher_before_the_cut_for_exit_points_is_a_violation() -> None:
    core = sender(State.READY)
    core.scaling.on_change_matcher("accesspoint-1", NEW_EPOCH)
    assert core.scaling.violations == 1
    newcomer = receiver(State.READY)
    newcomer.scaling.on_change_matcher("accesspoint-1", NEW_EPOCH)
    assert newcomer.scaling.violations == 0  # it is asked for nothing in the old epoch


@pytest.mark.parametrize("state", [State.COPYING, State.COPIED, State.STARTING, State.SENDING])
def test_something_of_the_new_epoch_before_all_state_is_there_is_a_violation(state: State) -> None:
    core = receiver(state)
    assert core.scaling.selector_of(NEW_EPOCH) is None
    assert core.scaling.violations == 1
    assert core.scaling.selector_of(NEW_EPOCH + 1) is None
    assert core.scaling.violations == 1


@pytest.mark.parametrize("state", [State.COPYING, State.COPIED, State.STARTING, State.SENDING])
def test_given_up_everything_is_as_it_was(state: State) -> None:
    old, new = sender(state), receiver(state, *(record(id) for id in MOVING))
    if state is State.COPYING:
        receive(new, chunk(1, *MOVING))
    assert old.on_configuration(GIVEN_UP) == [Continue()]
    assert settle(old, [Continue()]) == [ExpectForeign(False)]
    assert sorted(old.index.ids()) == sorted(IDS)
    assert new.on_configuration(GIVEN_UP) == [Continue()]
    forgotten, *more = settle(new, [Continue()])
    assert list(new.index.ids()) == []
    assert sorted(forgotten.ids) == sorted(MOVING)
    assert more == [WhenForgotten(), ExpectForeign(False)]
    assert {old.scaling.state, new.scaling.state} == {State.SERVING}
    assert old.scaling.violations == new.scaling.violations == 0


def test_given_up_before_anything_arrived_there_is_nothing_to_erase() -> None:
    core = receiver(State.COPYING)
    assert core.on_configuration(GIVEN_UP) == [Continue()]
    assert settle(core, [Continue()]) == [ExpectForeign(False)]


def test_the_next_scaling_begins_while_refuse_of_the_last_one_is_left() -> None:
    core = receiver(State.COPYING)
    core.scaling.on_add_matcher_state("matcher-1", chunk(1, *MOVING))
    core.on_configuration(GIVEN_UP)
    core.on_configuration(during("copying", NEXT, GIVEN_UP))
    again = AddMatcherState(NEXT.epoch, 1, [record(id) for id in MOVING], [], {}, "copy")
    core.scaling.on_add_matcher_state("matcher-1", again)
    assert settle(core, [Continue()]) == [WhenForgotten()]  # what has come back is not thrown away
    assert sorted(core.index.ids()) == sorted(MOVING)


# Started again


def restarted(phase: Phase, ids: list[str], name: str = "matcher-1") -> tuple[MatcherCore, list[object]]:
    core = MatcherCore(name, lambda: 0)
    core.on_recovered([record(id) for id in ids], foreign_expected=True)
    return core, core.on_configuration(during(phase))


def test_started_again_in_changing_it_takes_over_what_is_its_own_in_the_new_epoch() -> None:
    core, effects = restarted("changing", IDS)
    assert effects == [NOTHING_REMEMBERED, Continue()]
    assert core.scaling.state is State.READY
    assert core.scaling.selector_of(SETTLED.epoch) is None  # what moved away may be changed elsewhere by now
    erased, _ = core.on_continue()
    assert sorted(erased.ids) == sorted(MOVING)
    assert cut(core)[-1] == DONE
    assert core.scaling.violations == 0


@pytest.mark.parametrize("phase", ["flushing", "ending"])
def test_started_again_later_it_does_not_wait_for_the_cut(phase: Phase) -> None:
    core, effects = restarted(phase, IDS)
    assert effects == [NOTHING_REMEMBERED, Continue(), DONE]
    assert core.scaling.state is State.CHANGED
    settle(core, effects)
    assert sorted(core.index.ids()) == sorted(STAYING)


def test_started_again_after_the_scaling_it_throws_out_what_moved_away() -> None:
    core = MatcherCore("matcher-1", lambda: 0)
    core.on_recovered([record(id) for id in IDS], foreign_expected=True)
    effects = settle(core, core.on_configuration(ENDED))
    erased, *more = effects
    assert sorted(erased.ids) == sorted(MOVING)
    assert more == [WhenForgotten(), ExpectForeign(False)]


def started_in_the_middle(phase: Phase, ids: list[str], name: str, *, keeps: bool = False) -> MatcherCore:
    """Its process before took part in the scaling; what the coordinator decides it has not decided knowing this one."""
    core = MatcherCore(name, lambda: 0, keeps_publications=keeps, incarnation=2)
    core.on_recovered([record(id) for id in ids], foreign_expected=True)
    assert core.on_configuration(with_participants(phase)) == []
    assert core.on_continue() == []
    assert sorted(core.index.ids()) == sorted(ids)
    assert core.scaling.selector_of(SETTLED.epoch) is None
    return core


def with_participants(phase: Phase) -> Configuration:
    configuration = during(phase)
    assert configuration.change is not None
    participants = {"matcher-1": 1, "matcher-2": 1}
    return replace(configuration, change=replace(configuration.change, participants=participants))


@pytest.mark.parametrize("phase", ["copying", "moving"])
@pytest.mark.parametrize(("name", "ids", "kept"), [("matcher-1", IDS, IDS), ("matcher-2", MOVING, [])])
def test_started_again_while_everything_may_go_back_it_waits_for_that(
    phase: Phase, name: str, ids: list[str], kept: list[str]
) -> None:
    core = started_in_the_middle(phase, ids, name)
    settle(core, core.on_configuration(GIVEN_UP))
    assert sorted(core.index.ids()) == sorted(kept)
    assert core.scaling.state is State.SERVING
    assert core.scaling.violations == 0


@pytest.mark.parametrize("phase", ["copying", "moving"])
def test_started_again_unseen_before_everything_goes_forward_it_has_what_was_moved(phase: Phase) -> None:
    """The coordinator went on by what the process before it had reported."""
    core = started_in_the_middle(phase, MOVING, "matcher-2")
    settle(core, core.on_configuration(with_participants("changing")))
    assert core.scaling.state is State.READY
    assert sorted(core.index.ids()) == sorted(MOVING)


@pytest.mark.parametrize("phase", ["changing", "flushing", "ending"])
def test_started_in_the_middle_it_forwards_the_cuts_that_came_before_it_knew_to_whom(phase: Phase) -> None:
    core = started_in_the_middle("moving", IDS, "matcher-1")
    assert cut(core) == []
    effects = core.on_configuration(with_participants(phase))
    assert Send("exitpoint-1", [at_cut(name) for name in ACCESSPOINTS]) in effects
    assert effects[-1] == DONE
    assert core.scaling.violations == 0


def test_started_in_the_middle_it_forwards_cuts_behind_the_partials_that_wait_for_the_disk() -> None:
    core = started_in_the_middle("moving", IDS, "matcher-1", keeps=True)
    cut(core, "accesspoint-1")
    ticket = core._keeping.ticket()
    forwarded = Send("exitpoint-1", [at_cut("accesspoint-1")])
    assert forwarded not in core.on_configuration(with_participants("changing"))
    assert core.on_kept(ticket) == [forwarded]


@pytest.mark.parametrize("phase", ["copying", "moving"])
def test_one_that_hears_of_it_late_throws_out_what_it_must_not_have(phase: Phase) -> None:
    core, effects = restarted(phase, MOVING, "matcher-2")
    erased, *_ = settle(core, [effect for effect in effects if isinstance(effect, Continue)])
    assert sorted(erased.ids) == sorted(MOVING)
    assert list(core.index.ids()) == []


def test_it_is_not_copied_while_what_it_must_not_keep_is_on_its_disk() -> None:
    """Started again behind the point of no return, it would take that for its own."""
    core = MatcherCore("matcher-2", lambda: 0)
    core.on_recovered([record(id) for id in IDS], foreign_expected=True)
    core.on_configuration(SETTLED)
    core.on_configuration(during("copying"))
    assert receive(core, chunk(1, ends="copy")) == [Send("matcher-1", [MatcherStateStored(NEW_EPOCH, 1)])]
    *forgotten, when_forgotten = settle(core, [Continue()])
    assert sorted(id for part in forgotten for id in part.ids) == sorted(IDS)
    assert when_forgotten == WhenForgotten()
    assert core.on_all_forgotten() == [COPIED]


def test_it_is_not_ready_while_what_it_must_not_keep_is_on_its_disk() -> None:
    core, _ = restarted("moving", IDS, "matcher-2")
    start(core)
    for number, ends in enumerate(ENDS, 1):
        stored = Send("matcher-1", [MatcherStateStored(NEW_EPOCH, number)])
        assert receive(core, chunk(number, ends=ends)) == [stored]
    assert settle(core, [Continue()])[-1] == WhenForgotten()
    assert core.on_all_forgotten() == [READY]


def test_without_the_mark_of_a_scaling_nothing_is_looked_at() -> None:
    core = MatcherCore("matcher-1", lambda: 0)
    core.on_recovered([record(id) for id in IDS])
    assert core.on_configuration(ENDED) == []
    assert len(core.index) == len(IDS)


def test_where_no_subscription_moves_nobody_looks_at_them() -> None:
    """Other exit points, say: who keeps what is the same, so there is nothing to send and nothing to wait for."""
    core = sender()
    target = to(matchers=SETTLED.matchers, exitpoints=("exitpoint-1", "exitpoint-2"))
    assert core.on_configuration(during("copying", target)) == [COPIED]
    assert not core.expects_foreign
    assert core.on_configuration(during("moving", target)) == []
    assert start(core) == [READY]
