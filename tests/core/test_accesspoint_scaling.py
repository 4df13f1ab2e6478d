"""The access point in a scaling: what it sends in each phase, what it keeps back and holds, and how it goes back."""

from typing import Any

import msgspec
import pytest

from braid.messages import (
    ChangeMatcher,
    ChangeMatcherOnExitPoint,
    ExitPointScaling,
    FindPublications,
    GoesElsewhere,
    MatchRequest,
    Publications,
    ScaleEnd,
    Send,
    StartScale,
    Subscribe,
    Unsubscribe,
)
from braid.scaling import ReportStep
from braid.topology import PHASES, Change, Phase, Target
from services.accesspoint import scaling as scaling_module
from services.accesspoint.core import AccessPointCore
from services.accesspoint.scaling import PARTING_S_MAX, State
from tests.core.scaling_cases import (
    CHANGE,
    ENDED,
    GIVEN_UP,
    MOVING,
    NEW_EPOCH,
    OLD_EPOCH,
    SETTLED,
    STAYING,
    during,
    record,
    to,
)

START = [Send("matcher-1", [StartScale(NEW_EPOCH)]), Send("matcher-2", [StartScale(NEW_EPOCH)])]
OLD_CUT = [
    ChangeMatcherOnExitPoint(NEW_EPOCH, "accesspoint-1", 2),
    ExitPointScaling(NEW_EPOCH),
    ChangeMatcher(NEW_EPOCH),
]
NEW_CUT = [ExitPointScaling(NEW_EPOCH), ChangeMatcher(NEW_EPOCH)]
CUTS = [Send("matcher-1", OLD_CUT), Send("matcher-2", NEW_CUT)]
END = [Send("matcher-1", [ScaleEnd(NEW_EPOCH)]), Send("matcher-2", [ScaleEnd(NEW_EPOCH)])]


def accesspoint(*phases: Phase, now_s: float = 10.0) -> AccessPointCore:
    """One that has seen these phases."""
    core = AccessPointCore("accesspoint-1", lambda: 0)
    core.on_configuration(SETTLED, now_s)
    for phase in phases:
        core.on_configuration(during(phase), now_s)
    return core


def ended(kept_back_s: float = 0.0, held_s: float = 0.0) -> ReportStep:
    return ReportStep(CHANGE, "scale-end", {"kept_back_s": kept_back_s, "held_s": held_s})


def subscribe(ref: int, id: str, epoch: int = OLD_EPOCH) -> Subscribe:
    return Subscribe(epoch, ref, "connpoint-1", record(id))


def publications(sequence: int, *contents: bytes) -> Publications:
    return Publications(OLD_EPOCH, "connpoint-1.a", sequence, 0, 0, 7, 1.5, list(contents) or [b"{}"])


def requests(epoch: int, partials: int, *sequences: int) -> list[Any]:
    return [MatchRequest(epoch, "connpoint-1.a", sequence, 0, 0, 7, 1.5, partials, [b"{}"]) for sequence in sequences]


# Phase by phase


def test_every_phase_in_its_turn() -> None:
    core = accesspoint()
    states = []
    for configuration, effects in [
        (during("copying"), []),
        (during("moving"), START),
        (during("changing"), CUTS),
        (during("flushing"), [ended()]),
        (during("ending"), END),
        (ENDED, []),
    ]:
        assert core.on_configuration(configuration, 10.0) == effects
        states.append(core.scaling.state)
    assert states == [State.SERVING, State.BUFFERING, State.HOLDING, State.FLUSHED, State.FLUSHED, State.SERVING]


@pytest.mark.parametrize(
    ("seen", "effects"),
    [
        (["changing"], [CUTS]),
        (["copying", "changing"], [[], CUTS]),
        (["copying", "flushing"], [[], [*CUTS, ended()]]),
        (["copying", "ending"], [[], [*CUTS, ended(), *END]]),
        (["flushing"], [[*CUTS, ended()]]),
        (["ending"], [[*CUTS, ended(), *END]]),
        (["moving", "flushing"], [START, [*CUTS, ended()]]),
        (["moving", "ending"], [START, [*CUTS, ended(), *END]]),
        (["changing", "ending"], [CUTS, [ended(), *END]]),
    ],
)
def test_what_a_missed_phase_would_have_done_is_done_later(seen: list[Phase], effects: list[Any]) -> None:
    core = accesspoint()
    assert [core.on_configuration(during(phase), 10.0) for phase in seen] == effects


@pytest.mark.parametrize("phase", ["copying", "moving", "changing", "flushing"])
def test_a_phase_that_is_seen_again_does_nothing(phase: Phase) -> None:
    assert accesspoint(phase).on_configuration(during(phase), 10.0) == []


def test_the_end_is_said_again_and_reported_once() -> None:
    assert accesspoint("flushing", "ending").on_configuration(during("ending"), 10.0) == END


def test_a_slice_that_starts_in_the_middle_knows_what_is_in_force() -> None:
    core = AccessPointCore("accesspoint-1", lambda: 0)
    assert core.on_configuration(during("changing"), 10.0) == CUTS
    assert core.on_publications([publications(1)], 10.0, 0) == []
    sent = [Send(matcher, requests(NEW_EPOCH, 2, 1)) for matcher in ("matcher-1", "matcher-2")]
    assert core.on_configuration(during("flushing"), 10.5) == [*sent, ended(held_s=0.5)]


def test_one_that_leaves_says_when_it_is_drained() -> None:
    target = to(accesspoints=("accesspoint-2",))
    core = accesspoint()
    for phase in ("copying", "moving", "changing", "flushing"):
        core.on_configuration(during(phase, target), 10.0)
    assert core.on_configuration(during("ending", target), 10.0) == [*END, ReportStep(CHANGE, "drained")]
    assert core.scaling.state is State.LEFT


def leaving(*phases: Phase) -> AccessPointCore:
    """One that has seen these phases of a scaling that leaves it out."""
    core = accesspoint()
    for phase in phases:
        core.on_configuration(during(phase, to(accesspoints=("accesspoint-2",))), 10.0)
    return core


def test_the_end_of_one_that_leaves_is_its_last_word() -> None:
    """When the scaling has ended, matchers tell it of no anchors, and questions for the past do not go through it."""
    core = leaving("changing", "ending")
    assert core.on_publications([publications(1)], 10.0, 0) == []
    assert core.on_subscribe(subscribe(1, STAYING[0]), 10.0) == []
    assert core.on_unsubscribe(Unsubscribe(OLD_EPOCH, 2, "connpoint-1", STAYING[0]), 10.0) == []
    assert core.stale == 3


def test_what_one_that_leaves_held_goes_before_its_last_word() -> None:
    core = leaving("moving", "changing")
    core.on_publications([publications(1)], 10.0, 0)
    core.on_subscribe(subscribe(1, STAYING[0]), 10.0)
    effects = core.on_configuration(during("ending", to(accesspoints=("accesspoint-2",))), 10.5)
    told = [message for e in effects if isinstance(e, Send) and e.to == "matcher-1" for message in e.messages]
    assert [type(message) for message in told] == [MatchRequest, Subscribe, ScaleEnd]


def test_one_that_has_left_lets_questions_for_the_past_through() -> None:
    """As long as the scaling runs they wait for it, and a matcher that leaves may take minutes to hand over."""
    question = FindPublications(OLD_EPOCH, 1, "connpoint-1", record("s-1"), 0.0, 1.0, 10, [])
    sends = leaving("changing", "ending").on_find_publications(question)
    assert [(send.to, send.messages[0].accesspoints) for send in sends] == [
        ("matcher-1", ["accesspoint-1", "accesspoint-2"]),
        ("matcher-2", ["accesspoint-1", "accesspoint-2"]),
    ]


# A connection point that hears of the scaling late

ELSEWHERE = GoesElsewhere(NEW_EPOCH)
LAST_WORDS = [*END, ReportStep(CHANGE, "drained")]


def parting(*connpoints: str) -> AccessPointCore:
    """One that leaves, and these have not said that they send elsewhere."""
    core = leaving("moving", "changing", "flushing")
    for connpoint in connpoints:
        core.scaling.on_connpoint_up(connpoint)
    assert core.on_configuration(during("ending", to(accesspoints=("accesspoint-2",))), 10.0) == []
    assert core.scaling.state is State.PARTING
    return core


def test_one_that_leaves_goes_on_until_all_connection_points_send_elsewhere() -> None:
    core = parting("connpoint-1", "connpoint-2")
    assert core.on_publications([publications(1)], 10.1, 0) == [
        Send(matcher, requests(NEW_EPOCH, 2, 1)) for matcher in ("matcher-1", "matcher-2")
    ]
    assert core.on_subscribe(subscribe(1, MOVING[0]), 10.1) == [
        Send("matcher-2", [subscribe(1, MOVING[0], epoch=NEW_EPOCH)])
    ]
    assert core.scaling.on_goes_elsewhere("connpoint-1", ELSEWHERE, 10.2) == []
    assert core.scaling.on_goes_elsewhere("connpoint-2", ELSEWHERE, 10.3) == LAST_WORDS
    assert core.scaling.state is State.LEFT
    assert core.on_publications([publications(2)], 10.4, 0) == []


def test_it_does_not_wait_for_who_said_so_before_it_heard_of_the_end() -> None:
    core = leaving("moving", "changing", "flushing")
    core.scaling.on_connpoint_up("connpoint-1")
    assert core.scaling.on_goes_elsewhere("connpoint-1", ELSEWHERE, 10.0) == []
    assert core.on_configuration(during("ending", to(accesspoints=("accesspoint-2",))), 10.0) == LAST_WORDS


def test_what_was_said_of_an_earlier_scaling_does_not_count() -> None:
    core = parting("connpoint-1")
    assert core.scaling.on_goes_elsewhere("connpoint-1", GoesElsewhere(OLD_EPOCH), 10.1) == []
    assert core.scaling.state is State.PARTING


def test_whoever_is_linked_anew_says_it_again() -> None:
    core = parting("connpoint-1", "connpoint-2")
    core.scaling.on_goes_elsewhere("connpoint-1", ELSEWHERE, 10.1)
    core.scaling.on_connpoint_up("connpoint-1")
    assert core.scaling.on_goes_elsewhere("connpoint-2", ELSEWHERE, 10.2) == []
    assert core.scaling.on_goes_elsewhere("connpoint-1", ELSEWHERE, 10.3) == LAST_WORDS


def test_one_that_leaves_does_not_wait_for_a_connection_point_that_is_gone() -> None:
    core = parting("connpoint-1")
    assert core.scaling.on_connpoint_down("connpoint-1", 10.1) == LAST_WORDS
    assert core.scaling.left_early == 0


def test_one_that_leaves_does_not_wait_for_long() -> None:
    core = parting("connpoint-1")
    assert core.scaling.on_tick(10.0 + PARTING_S_MAX) == []
    assert core.scaling.on_tick(10.01 + PARTING_S_MAX) == LAST_WORDS
    assert (core.scaling.state, core.scaling.left_early) == (State.LEFT, 1)


def test_one_that_stays_does_not_wait_for_connection_points() -> None:
    core = accesspoint("moving", "changing", "flushing")
    core.scaling.on_connpoint_up("connpoint-1")
    assert core.on_configuration(during("ending"), 10.0) == END


def test_a_matcher_that_is_linked_again_does_not_hear_the_last_word_early() -> None:
    assert parting("connpoint-1").on_matcher_up("matcher-2") == [Send("matcher-2", NEW_CUT)]


@pytest.mark.parametrize("phase", ["changing", "flushing", "ending"])
def test_a_phase_that_is_seen_again_does_not_end_the_wait(phase: Phase) -> None:
    core = parting("connpoint-1")
    assert core.on_configuration(during(phase, to(accesspoints=("accesspoint-2",))), 10.1) == []
    assert core.scaling.state is State.PARTING


def test_when_the_scaling_has_ended_it_waits_for_nobody() -> None:
    core = parting("connpoint-1")
    core.on_configuration(msgspec.structs.replace(ENDED, accesspoints=("accesspoint-2",)), 10.1)
    assert core.on_publications([publications(1)], 10.2, 0) == []
    assert core.scaling.on_goes_elsewhere("connpoint-1", ELSEWHERE, 10.3) == []


@pytest.mark.parametrize("phase", ["changing", "flushing", "ending"])
def test_one_that_has_left_says_nothing_twice(phase: Phase) -> None:
    core = leaving("changing", "ending")
    assert core.on_configuration(during(phase, to(accesspoints=("accesspoint-2",))), 11.0) == []
    assert core.scaling.state is State.LEFT


def test_one_that_has_left_tells_a_matcher_that_is_linked_again() -> None:
    (cut, end) = leaving("changing", "ending").on_matcher_up("matcher-2")
    assert (cut, end) == (Send("matcher-2", NEW_CUT), Send("matcher-2", [ScaleEnd(NEW_EPOCH)]))


def test_one_that_has_left_may_be_taken_in_again() -> None:
    core = leaving("changing", "ending")
    left = msgspec.structs.replace(ENDED, accesspoints=("accesspoint-2",))
    again = Target(NEW_EPOCH + 1, ("accesspoint-1", "accesspoint-2"), ENDED.matchers, ENDED.exitpoints)
    change = Change("scaling-2", "flushing", again, {})
    core.on_configuration(msgspec.structs.replace(left, change=change), 11.0)
    assert [send.to for send in core.on_publications([publications(1)], 11.0, 0)] == ["matcher-1", "matcher-2"]


def test_one_that_takes_no_part_does_nothing() -> None:
    core = AccessPointCore("accesspoint-9", lambda: 0)
    for phase in PHASES:
        assert core.on_configuration(during(phase), 10.0) == []
    assert core.scaling.state is State.SERVING


def test_the_next_scaling_is_reported_too() -> None:
    core = accesspoint("moving", "changing", "flushing", "ending")
    core.on_configuration(ENDED, 10.0)
    target = to(matchers=("matcher-1",))
    target = msgspec.structs.replace(target, epoch=7)
    again = during("flushing", target, ENDED)
    assert again.change is not None
    again = msgspec.structs.replace(again, change=msgspec.structs.replace(again.change, id="scaling-2"))
    report = core.on_configuration(again, 10.0)[-1]
    assert isinstance(report, ReportStep)
    assert (report.change, report.step) == ("scaling-2", "scale-end")


# While matchers copy


def test_while_matchers_copy_everything_flows_under_the_old_epoch() -> None:
    core = accesspoint("copying")
    assert core.on_publications([publications(1)], 10.0, 0) == [Send("matcher-1", requests(OLD_EPOCH, 1, 1))]
    for ref, id in enumerate([MOVING[0], STAYING[0]], 1):
        assert core.on_subscribe(subscribe(ref, id), 10.0) == [Send("matcher-1", [subscribe(ref, id)])]
    end = Unsubscribe(OLD_EPOCH, 3, "connpoint-2", MOVING[0])
    assert core.on_unsubscribe(end, 10.0) == [Send("matcher-1", [end])]
    assert not core.scaling.keeps_back
    assert not core.scaling.holds
    assert core.on_configuration(during("moving"), 11.0) == START  # behind all of them


def test_given_up_while_matchers_copy_there_is_nothing_to_send() -> None:
    core = accesspoint("copying")
    core.on_subscribe(subscribe(1, MOVING[0]), 10.0)
    assert core.on_configuration(GIVEN_UP, 11.0) == []
    assert core.on_subscribe(subscribe(2, MOVING[1]), 11.0) == [Send("matcher-1", [subscribe(2, MOVING[1])])]
    assert core.on_matcher_up("matcher-1") == []


def test_how_long_matchers_copied_is_not_told_as_a_wait() -> None:
    core = accesspoint("copying")
    core.on_subscribe(subscribe(1, STAYING[0]), 10.0)
    core.on_configuration(during("moving"), 500.0)
    core.on_subscribe(subscribe(2, STAYING[0]), 501.0)
    core.on_configuration(during("changing"), 502.0)
    assert core.on_configuration(during("flushing"), 503.0)[-1] == ended(kept_back_s=2.0)


@pytest.mark.parametrize("knows_before", [True, False])
def test_one_that_the_old_configuration_leaves_out_serves_nothing_before_it_is_taken_in(knows_before: bool) -> None:
    """Matchers of the old epoch would not wait for its `StartScale`, and it need not know their anchors yet."""
    target = to(accesspoints=("accesspoint-1", "accesspoint-9"))
    core = AccessPointCore("accesspoint-9", lambda: 0)
    if knows_before:
        core.on_configuration(SETTLED, 9.0)
    assert core.on_configuration(during("copying", target), 10.0) == []
    assert core.on_publications([publications(1)], 10.0, 0) == []
    assert core.on_subscribe(subscribe(1, STAYING[0]), 10.0) == []
    assert core.on_matcher_up("matcher-1") == core.on_matcher_up("matcher-2") == []
    assert core.on_configuration(during("moving", target), 11.0) == START
    assert core.on_publications([publications(2)], 11.0, 0) == []
    assert core.on_subscribe(subscribe(2, STAYING[0]), 11.0) == []
    core.on_configuration(during("changing", target), 13.0)
    core.on_publications([publications(3)], 13.0, 0)
    assert core.scaling.on_tick(13.0 + scaling_module.HELD_S_MAX) == []  # only from then on it waits for exit points
    calls = Send("matcher-1", [subscribe(1, STAYING[0], NEW_EPOCH), subscribe(2, STAYING[0], NEW_EPOCH)])
    assert core.on_configuration(during("flushing", target), 13.5) == [
        *[Send(matcher, requests(NEW_EPOCH, 2, 1, 2, 3)) for matcher in ("matcher-1", "matcher-2")],
        calls,
        ended(kept_back_s=0.5, held_s=0.5),
    ]
    assert core.stale == 0


@pytest.mark.parametrize("ticks", [False, True])
def test_what_came_long_before_it_is_taken_in_is_not_held_and_not_told_as_a_wait(ticks: bool) -> None:
    """Its connection point has sent it again since, or will."""
    target = to(accesspoints=("accesspoint-1", "accesspoint-9"))
    core = AccessPointCore("accesspoint-9", lambda: 0)
    core.on_configuration(during("copying", target), 10.0)
    for sequence, came_s in enumerate((10.0, 1000.0, 3000.0 - scaling_module.EARLY_S_MAX, 3000.0), 1):
        if ticks:
            assert core.scaling.on_tick(came_s) == []
        core.on_publications([publications(sequence)], came_s, 0)
        core.on_subscribe(subscribe(sequence, STAYING[0]), came_s)
    assert core.scaling.buffers.dropped == (2 if ticks else 0)
    core.on_configuration(during("changing", target), 3000.0)
    assert core.scaling.buffers.dropped == 2
    assert core.scaling.on_tick(3000.0 + scaling_module.HELD_S_MAX) == []
    calls = [subscribe(ref, STAYING[0], NEW_EPOCH) for ref in (3, 4)]
    assert core.on_configuration(during("flushing", target), 3001.0) == [
        *[Send(matcher, requests(NEW_EPOCH, 2, 3, 4)) for matcher in ("matcher-1", "matcher-2")],
        Send("matcher-1", calls),
        ended(kept_back_s=1.0, held_s=1.0),
    ]
    assert core.scaling.buffers.held_bytes == 0


@pytest.mark.parametrize("phase", ["copying", "moving"])
def test_what_came_for_one_that_is_not_taken_in_after_all_is_dropped(phase: Phase) -> None:
    """Connection points send it again, elsewhere."""
    target = to(accesspoints=("accesspoint-1", "accesspoint-9"))
    core = AccessPointCore("accesspoint-9", lambda: 0)
    core.on_configuration(during(phase, target), 10.0)
    core.on_publications([publications(1)], 10.0, 0)
    core.on_subscribe(subscribe(1, STAYING[0]), 10.0)
    assert core.on_configuration(GIVEN_UP, 11.0) == []
    assert core.stale == 2
    assert core.on_publications([publications(1)], 12.0, 0) == []
    assert core.on_configuration(during("copying", target, GIVEN_UP), 13.0) == []
    assert core.on_configuration(GIVEN_UP, 14.0) == []


def test_left_out_by_what_is_in_force_it_stops_when_matchers_begin_to_copy() -> None:
    """It has missed the end of the last scaling, which left it out; the next one takes it in again."""
    core = accesspoint()
    without = msgspec.structs.replace(SETTLED, epoch=NEW_EPOCH, epochs=NEW_EPOCH, accesspoints=("accesspoint-2",))
    target = msgspec.structs.replace(to(), epoch=NEW_EPOCH + 1)
    assert core.on_configuration(during("copying", target, without), 10.0) == []
    assert core.on_publications([publications(1)], 10.0, 0) == []
    assert core.on_subscribe(subscribe(1, STAYING[0]), 10.0) == []
    assert core.on_configuration(msgspec.structs.replace(without, epochs=NEW_EPOCH + 1), 11.0) == []
    assert core.on_publications([publications(1)], 11.0, 0) == []


# What waits


def test_subscriptions_wait_and_go_to_their_new_matchers_in_order() -> None:
    core = accesspoint("moving")
    first, second = subscribe(1, MOVING[0]), subscribe(2, STAYING[0])
    third = Unsubscribe(OLD_EPOCH, 3, "connpoint-2", MOVING[0])
    assert core.on_subscribe(first, 10.0) == []
    assert core.on_subscribe(second, 10.5) == []
    assert core.on_unsubscribe(third, 11.0) == []
    assert core.on_configuration(during("changing"), 12.0) == CUTS
    assert core.on_subscribe(first, 12.0) == []
    assert core.on_configuration(during("flushing"), 13.0) == [
        Send("matcher-2", [subscribe(1, MOVING[0], NEW_EPOCH), Unsubscribe(NEW_EPOCH, 3, "connpoint-2", MOVING[0])]),
        Send("matcher-1", [subscribe(2, STAYING[0], NEW_EPOCH)]),
        ended(kept_back_s=3.0),
    ]
    assert core.on_subscribe(first, 13.0) == [Send("matcher-2", [subscribe(1, MOVING[0], NEW_EPOCH)])]


def test_calls_that_nobody_repeats_are_not_carried_out() -> None:
    """Whoever made them has given up, and may have done something else since."""
    core = accesspoint("moving")
    for ref, id in enumerate([STAYING[0], STAYING[1]], 1):
        core.on_subscribe(subscribe(ref, id), 10.0)
    core.on_subscribe(subscribe(2, STAYING[1]), 15.0)
    assert core.on_configuration(GIVEN_UP, 16.0) == [Send("matcher-1", [subscribe(2, STAYING[1])])]


def test_left_out_it_forwards_nothing() -> None:
    """Nobody would wait for it at the cut of the next scaling."""
    core = accesspoint("moving")
    without = msgspec.structs.replace(SETTLED, epoch=NEW_EPOCH, epochs=NEW_EPOCH, accesspoints=("accesspoint-2",))
    core.on_configuration(without, 12.0)
    assert core.on_publications([publications(1)], 12.0, 0) == []
    assert core.on_subscribe(subscribe(1, STAYING[0]), 12.0) == []


def test_given_up_what_waits_goes_to_the_old_matcher_in_order() -> None:
    core = accesspoint("moving")
    for ref, id in enumerate([MOVING[0], STAYING[0], MOVING[1]], 1):
        core.on_subscribe(subscribe(ref, id), 10.0)
    assert core.on_configuration(GIVEN_UP, 12.0) == [
        Send("matcher-1", [subscribe(1, MOVING[0]), subscribe(2, STAYING[0]), subscribe(3, MOVING[1])])
    ]
    assert core.scaling.state is State.SERVING
    assert core.on_publications([publications(1)], 12.0, 0) == [Send("matcher-1", requests(OLD_EPOCH, 1, 1))]


def test_asked_again_a_call_waits_once_at_its_first_place() -> None:
    core = accesspoint("moving")
    for ref, id in [(1, MOVING[0]), (2, MOVING[1]), (1, MOVING[0])]:
        core.on_subscribe(subscribe(ref, id), 10.0)
    core.on_unsubscribe(Unsubscribe(OLD_EPOCH, 1, "connpoint-2", "s-9"), 10.0)
    released = core.on_configuration(GIVEN_UP, 12.0)
    assert [(call.connpoint, call.ref) for s in released if isinstance(s, Send) for call in s.messages] == [
        ("connpoint-1", 1),
        ("connpoint-1", 2),
        ("connpoint-2", 1),
    ]


def test_publications_flow_under_the_old_epoch_while_state_moves() -> None:
    core = accesspoint("moving")
    assert core.on_publications([publications(1)], 10.0, 0) == [Send("matcher-1", requests(OLD_EPOCH, 1, 1))]


def test_publications_wait_at_the_cut_and_go_on_in_order_under_the_new_epoch() -> None:
    core = accesspoint("moving", "changing")
    assert core.on_publications([publications(1), publications(2)], 10.0, 0) == []
    assert core.on_publications([publications(3)], 11.0, 0) == []
    expected = requests(NEW_EPOCH, 2, 1, 2, 3)
    assert core.on_configuration(during("flushing"), 12.5) == [
        Send("matcher-1", expected),
        Send("matcher-2", expected),
        ended(held_s=2.5),
    ]
    assert core.scaling.buffers.held_bytes == 0


# Bounds


def test_calls_beyond_the_bound_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling_module, "KEPT_BACK_MAX", 2)
    core = accesspoint("moving")
    for ref in (1, 2, 3, 1):
        core.on_subscribe(subscribe(ref, f"s-{ref}"), 10.0)
    assert [ref for _, ref in core.scaling.buffers.kept_back] == [1, 2]
    assert core.scaling.buffers.dropped == 1


def test_publications_beyond_the_bound_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling_module, "HELD_BYTES_MAX", 10)
    core = accesspoint("changing")
    core.on_publications([publications(1, b"123456"), publications(2, b"12345"), publications(3, b"1234")], 10.0, 0)
    assert [message.sequence for message, _, _ in core.scaling.buffers.held] == [1, 3]
    assert (core.scaling.buffers.held_bytes, core.scaling.buffers.dropped) == (10, 1)


def test_what_was_dropped_is_counted_since_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling_module, "KEPT_BACK_MAX", 0)
    core = accesspoint("moving")
    core.on_subscribe(subscribe(1, "s-1"), 10.0)
    core.on_configuration(GIVEN_UP, 11.0)
    core.on_configuration(during("moving", settled=GIVEN_UP), 12.0)
    core.on_subscribe(subscribe(2, "s-1"), 10.0)
    assert core.scaling.buffers.dropped == 2


def test_how_long_something_waited_is_told_of_each_scaling_by_itself() -> None:
    """Also when the beginning of the next one was missed."""
    core = accesspoint("moving")
    core.on_subscribe(subscribe(1, "s-1"), 10.0)
    core.on_configuration(GIVEN_UP, 15.0)
    assert core.on_configuration(during("flushing", settled=GIVEN_UP), 20.0)[-1] == ended()


# A link that is there again


@pytest.mark.parametrize(
    ("phases", "to_old", "to_new"),
    [
        ([], [], []),
        (["copying"], [], []),
        (["copying", "moving"], START[:1], START[1:]),
        (["moving"], START[:1], START[1:]),
        (["moving", "changing"], CUTS[:1], CUTS[1:]),
        (["moving", "changing", "flushing"], CUTS[:1], CUTS[1:]),
        (["moving", "changing", "flushing", "ending"], [CUTS[0], END[0]], [CUTS[1], END[1]]),
    ],
)
def test_a_matcher_that_is_linked_again_hears_what_it_may_have_missed(
    phases: list[Phase], to_old: list[Send], to_new: list[Send]
) -> None:
    core = accesspoint(*phases)
    assert core.on_matcher_up("matcher-1") == to_old
    assert core.on_matcher_up("matcher-2") == to_new


def test_after_the_scaling_a_link_is_only_a_link() -> None:
    core = accesspoint("moving", "changing", "flushing", "ending")
    core.on_configuration(ENDED, 10.0)
    assert core.on_matcher_up("matcher-2") == []
    assert AccessPointCore("accesspoint-1", lambda: 0).on_matcher_up("matcher-1") == []


def test_held_for_too_long_calls_go_on_too() -> None:
    """One that waited on would come behind a later call about the same subscription, and undo it."""
    core = accesspoint("moving")
    core.on_configuration(during("changing"), 12.0)
    core.on_publications([publications(1)], 12.0, 0)
    core.on_subscribe(subscribe(1, STAYING[0]), 13.0)
    assert core.scaling.on_tick(12.0 + scaling_module.HELD_S_MAX) == []
    later = core.scaling.on_tick(12.1 + scaling_module.HELD_S_MAX)
    assert later[-1] == Send("matcher-1", [subscribe(1, STAYING[0], NEW_EPOCH)])
    assert core.scaling.state is State.FLUSHED
    assert core.on_configuration(during("flushing"), 17.0)[:-1] == []  # nothing is left but the report


def test_calls_alone_do_not_wait_for_exit_points_for_longer_either() -> None:
    core = accesspoint("moving")
    core.on_subscribe(subscribe(1, STAYING[0]), 5.0)
    core.on_configuration(during("changing"), 12.0)
    core.on_subscribe(subscribe(1, STAYING[0]), 14.0)
    assert core.scaling.on_tick(12.0 + scaling_module.HELD_S_MAX) == []
    later = core.scaling.on_tick(12.1 + scaling_module.HELD_S_MAX)
    assert later == [Send("matcher-1", [subscribe(1, STAYING[0], NEW_EPOCH)])]
