"""Subscriptions flow on while a matcher copies: what comes, changes and ends is so at the receiver too."""

import pytest
from msgspec.structs import replace

from braid.messages import (
    Calls,
    MatcherStateStored,
    Send,
    SubscriptionRemoved,
    SubscriptionStored,
)
from braid.scaling import ReportStep
from services.matcher.effects import Answer, Continue, Effects, Erase, Store, StoreState
from services.matcher.scaling_states import State
from tests.core.matcher_scaling_cases import (
    ACCESSPOINTS,
    COMING,
    COMING_HERE,
    acknowledge,
    chunk,
    chunk_of,
    chunks_of,
    cut,
    matcher,
    receive,
    receiver,
    sender,
    settle,
    start,
    store_all,
    subscribe,
    unsubscribe,
)
from tests.core.scaling_cases import (
    CHANGE,
    MOVING,
    NEW_EPOCH,
    OLD_EPOCH,
    SETTLED,
    STAYING,
    during,
    record,
    to,
)

BEFORE = [State.COPYING, State.COPIED, State.STARTING]  # while calls of the old epoch come


# Call by call


@pytest.mark.parametrize("state", BEFORE)
def test_a_call_is_done_and_answered_as_ever(state: State) -> None:
    core = sender(state)
    stored = Answer("accesspoint-1", SubscriptionStored(OLD_EPOCH, 1, "connpoint-1", COMING))
    removed = Answer("accesspoint-1", SubscriptionRemoved(OLD_EPOCH, 2, "connpoint-1", MOVING[0], existed=True))
    assert subscribe(core, COMING, ref=1) == [Store(record(COMING, "n = 1"), stored, is_new=True), Continue()]
    assert unsubscribe(core, MOVING[0], ref=2) == [Erase([MOVING[0]], removed), Continue()]
    assert core.on_written(stored) == [Send("accesspoint-1", [stored.message])]
    assert core.on_written(removed) == [Send("accesspoint-1", [removed.message])]


@pytest.mark.parametrize("state", [State.COPIED, State.STARTING])
def test_what_stays_asks_for_nothing_more(state: State) -> None:
    core = sender(state)
    assert [type(effect) for effect in subscribe(core, STAYING[0], ref=1)] == [Store]
    assert [type(effect) for effect in unsubscribe(core, STAYING[1], ref=2)] == [Erase]
    assert core.on_continue() == []


@pytest.mark.parametrize("state", [State.COPIED, State.STARTING])
def test_the_last_chunk_has_what_changed_since_the_copy(state: State) -> None:
    core = sender(state)
    effects = [
        *subscribe(core, COMING, ref=1),
        *unsubscribe(core, MOVING[0], ref=2),
        *subscribe(core, MOVING[1], "n = 3", ref=3),
        *subscribe(core, STAYING[0], "n = 4", ref=4),
    ]
    assert chunks_of(settle(core, effects)) == []  # a few wait for more, or for the end
    if state is State.COPIED:
        core.on_configuration(during("moving"))
    (last,) = chunks_of(settle(core, start(core)))
    calls = {
        id: Calls("connpoint-1", {"connpoint-1": ref}) for ref, id in [(1, COMING), (2, MOVING[0]), (3, MOVING[1])]
    }
    records = [record(COMING, "n = 1"), record(MOVING[1], "n = 3")]
    assert last == chunk_of(2, records, removed=[MOVING[0]], calls=calls, ends="state")
    stored = core.scaling.on_matcher_state_stored("matcher-2", MatcherStateStored(NEW_EPOCH, 2))
    assert [effect.step for effect in stored] == ["change-ready"]


def test_the_copy_leaves_out_what_is_sent_as_a_change() -> None:
    core = sender(State.COPYING)
    unsubscribe(core, MOVING[0], ref=1)
    subscribe(core, MOVING[1], "n = 1", ref=2)
    (copy,) = chunks_of(settle(core, [Continue()]))
    assert copy.ends == "copy"
    assert {known.id: known.filter for known in copy.records} == dict.fromkeys(MOVING[2:], "")
    core.on_configuration(during("moving"))
    (last,) = chunks_of(settle(core, start(core)))  # with the changes, which need not be sent twice
    assert (last.records, last.removed) == ([record(MOVING[1], "n = 1")], [MOVING[0]])


def test_it_is_not_copied_before_everything_it_sent_is_stored() -> None:
    core = sender(State.COPYING)
    sent = settle(core, [Continue()])
    assert core.scaling.state is State.COPYING
    assert [effect for effect in sent if isinstance(effect, ReportStep)] == []
    assert acknowledge(core, sent) == [ReportStep(CHANGE, "copied", {"moved": float(len(MOVING))})]
    assert core.scaling.state.value == "copied"


def test_a_link_that_breaks_while_it_copies_gets_the_copy_again() -> None:
    core = sender(State.COPYING)
    assert core.scaling.on_peer_up("matcher-2") == []
    sent = [effect for effect in settle(core, [Continue()]) if isinstance(effect, Send)]
    assert core.scaling.on_peer_up("matcher-2") == sent
    acknowledge(core, sent)
    assert core.scaling.on_peer_up("matcher-2") == []


# Who receives


def test_later_chunks_say_what_counts() -> None:
    core = receiver(State.COPYING)
    receive(core, chunk(1, *MOVING[:3]))
    receive(core, chunk_of(2, [record(MOVING[0], "n = 1")], removed=[MOVING[1]]))
    receive(core, chunk(3, removed=["never-there"]))
    assert {id: known.filter for id in core.index.ids() if (known := core.index.get(id))} == {
        MOVING[0]: "n = 1",
        MOVING[2]: "",
    }


def test_a_removal_of_what_is_its_own_in_the_old_epoch_is_not_done() -> None:
    """Nobody else may end it."""
    core = sender(State.COPYING)
    core.scaling.on_add_matcher_state("matcher-2", chunk(1, removed=[STAYING[0]]))
    assert STAYING[0] in core.index


def test_it_is_copied_when_the_copy_of_every_other_is_stored() -> None:
    core = receiver(State.COPYING)
    acknowledged = [Send("matcher-1", [MatcherStateStored(NEW_EPOCH, number)]) for number in (1, 2, 3)]
    assert receive(core, chunk(1, *MOVING[:3])) == acknowledged[:1]
    (store,) = core.scaling.on_add_matcher_state("matcher-1", chunk(2, *MOVING[3:], ends="copy"))
    assert core.scaling.state is State.COPYING
    assert core.scaling.on_state_stored(store) == [acknowledged[1], ReportStep(CHANGE, "copied")]
    assert receive(core, chunk(3, MOVING[0])) == acknowledged[2:]
    assert core.scaling.state.value == "copied"


def test_the_last_chunk_is_not_the_end_while_some_access_point_has_not_said_start_scale() -> None:
    """It could not be sent before, but it may be heard of before."""
    core = receiver(State.STARTING)
    assert receive(core, chunk(2, ends="state")) == [Send("matcher-1", [MatcherStateStored(NEW_EPOCH, 2)])]
    assert core.scaling.on_start_scale(ACCESSPOINTS[0], NEW_EPOCH) == []
    assert core.scaling.on_start_scale(ACCESSPOINTS[1], NEW_EPOCH) == [ReportStep(CHANGE, "change-ready")]


def test_a_copy_that_was_sent_again_behind_the_cut_changes_nothing() -> None:
    core = receiver(State.READY, *(record(id) for id in MOVING))
    again = chunk_of(1, [record(MOVING[0], "n = 9")], removed=MOVING[1:], ends="copy")
    assert core.scaling.on_add_matcher_state("matcher-1", again) == [
        Send("matcher-1", [MatcherStateStored(NEW_EPOCH, 1)])
    ]
    assert sorted(core.index.ids()) == sorted(MOVING)


def test_chunks_that_come_again_before_the_last_one_is_stored_undo_nothing() -> None:
    """The link breaks while all are on their way to the disk: between two that come again, the last one is stored."""
    core = receiver(State.COPYING)
    first = chunk(1, *MOVING, ends="copy")
    second = chunk_of(2, [record(MOVING[0], "n = 2")], removed=[MOVING[1]])
    receive(core, first)  # stored, but its acknowledgement is lost with the link
    core.on_configuration(during("moving"))
    start(core)
    stores: Effects = []
    for message in (second, chunk(3, ends="state")):
        stores += core.scaling.on_add_matcher_state("matcher-1", message)
    core.scaling.on_add_matcher_state("matcher-1", first)
    store_all(core, stores)
    assert core.scaling.state is State.READY
    core.scaling.on_add_matcher_state("matcher-1", second)
    kept = {id: known.filter for id in core.index.ids() if (known := core.index.get(id)) is not None}
    assert kept == dict.fromkeys(MOVING[2:], "") | {MOVING[0]: "n = 2"}


def test_a_chunk_that_comes_again_is_acknowledged_again_when_it_is_on_disk() -> None:
    core = receiver(State.COPYING)
    message = chunk(1, *MOVING, ends="copy")
    (store,) = core.scaling.on_add_matcher_state("matcher-1", message)
    assert core.scaling.on_add_matcher_state("matcher-1", message) == []
    acknowledged = Send("matcher-1", [MatcherStateStored(NEW_EPOCH, 1)])
    assert core.scaling.on_state_stored(store) == [acknowledged, ReportStep(CHANGE, "copied")]
    assert core.scaling.on_add_matcher_state("matcher-1", message) == [acknowledged]


def test_a_chunk_whose_predecessor_was_lost_is_not_taken() -> None:
    """The link broke between them: both will be sent again, in their order."""
    core = receiver(State.COPYING)
    first, second = chunk(1, *MOVING), chunk(2, removed=MOVING[:1], ends="copy")
    assert core.scaling.on_add_matcher_state("matcher-1", second) == []
    assert list(core.index.ids()) == []
    assert [receive(core, message)[0].messages[0].chunk for message in (first, second)] == [1, 2]
    assert sorted(core.index.ids()) == sorted(MOVING[1:])


def test_chunks_of_two_senders_are_counted_apart() -> None:
    settled = replace(SETTLED, matchers=("matcher-1", "matcher-3"))
    target = to(matchers=("matcher-1", "matcher-2", "matcher-3"))
    core = matcher("matcher-2", configuration=settled)
    core.on_configuration(during("copying", target, settled))
    for name, ids in (("matcher-1", MOVING[:3]), ("matcher-3", MOVING[3:5])):
        assert core.scaling.state is State.COPYING
        (store,) = core.scaling.on_add_matcher_state(name, chunk(1, *ids, ends="copy"))
        acknowledged, *reported = core.scaling.on_state_stored(store)
        assert acknowledged == Send(name, [MatcherStateStored(NEW_EPOCH, 1)])
    assert reported == [ReportStep(CHANGE, "copied")]
    assert sorted(core.index.ids()) == sorted(MOVING[:5])


# Calls


def test_a_call_that_was_overtaken_before_the_cut_is_not_done_behind_it() -> None:
    calls = {MOVING[0]: Calls("connpoint-1", {"connpoint-1": 9}), MOVING[1]: Calls("connpoint-1", {"connpoint-1": 9})}
    core = receiver(State.COPYING)
    receive(core, chunk(1, MOVING[0], removed=[MOVING[1]], calls=calls, ends="copy"))
    core.on_configuration(during("moving"))
    start(core)
    receive(core, chunk(2, ends="state"))
    core.on_configuration(during("changing"))
    cut(core, old=False)
    removed = SubscriptionRemoved(NEW_EPOCH, 8, "connpoint-1", MOVING[0], existed=False)
    stored = SubscriptionStored(NEW_EPOCH, 8, "connpoint-1", MOVING[1])
    assert unsubscribe(core, MOVING[0], ref=8, epoch=NEW_EPOCH) == [Send("accesspoint-1", [removed])]
    assert subscribe(core, MOVING[1], ref=8, epoch=NEW_EPOCH) == [Send("accesspoint-1", [stored])]
    assert list(core.index.ids()) == [MOVING[0]]
    assert core.calls.overtaken == 2
    store_all(core, unsubscribe(core, MOVING[0], ref=10, epoch=NEW_EPOCH))
    assert list(core.index.ids()) == []


def test_calls_about_what_ended_before_the_scaling_are_handed_over() -> None:
    core = sender()
    subscribe(core, COMING, ref=5)
    unsubscribe(core, COMING, ref=6)
    unsubscribe(core, COMING_HERE, ref=7)
    core.on_configuration(during("copying"))
    (copy,) = chunks_of(settle(core, [Continue()]))
    assert copy.removed == [COMING]
    assert copy.calls == {COMING: Calls("connpoint-1", {"connpoint-1": 6})}


# What cannot be kept


@pytest.mark.parametrize("state", [State.COPYING, State.COPIED, State.STARTING, State.SENDING])
def test_a_chunk_that_cannot_be_written_is_reported_once(state: State) -> None:
    """Nobody would send it again, so the scaling must not wait for it."""
    core = receiver(state)
    stored = StoreState([], set(), [], "matcher-1", NEW_EPOCH, 7, "")
    assert core.scaling.on_state_not_stored(stored) == [ReportStep(CHANGE, "refused")]
    assert core.scaling.on_state_not_stored(stored) == []


def test_a_write_that_fails_behind_the_scaling_concerns_nobody() -> None:
    stored = StoreState([], set(), [], "matcher-1", NEW_EPOCH, 7, "")
    assert receiver(State.CHANGED).scaling.on_state_not_stored(stored) == []
    assert receiver().scaling.on_state_not_stored(stored) == []
