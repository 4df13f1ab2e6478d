"""The matcher at the cut: two epochs are answered, each with what counts in it, and what comes too early waits."""

from typing import Any

import pytest
from msgspec.structs import replace

from braid.matching.index import IndexFullError, MatchIndex
from braid.messages import (
    Explain,
    FindSubscriptions,
    MatcherStateStored,
    MatchRequest,
    Partial,
    Send,
    Subscribe,
    SubscriptionGone,
    SubscriptionRemoved,
    SubscriptionStored,
    Unsubscribe,
)
from braid.scaling import ReportStep
from services.matcher import core as core_module
from services.matcher.core import MatcherCore
from services.matcher.effects import Answer, Continue, Erase, ExpectForeign, Store, WhenForgotten
from services.matcher.scaling_states import State
from tests.core.matcher_scaling_cases import (
    acknowledge,
    chunk,
    chunk_of,
    chunks_of,
    cut,
    end,
    receive,
    receiver,
    sender,
    settle,
    start,
    store_all,
)
from tests.core.scaling_cases import (
    CHANGE,
    ENDED,
    GIVEN_UP,
    IDS,
    MOVING,
    NEW_EPOCH,
    OLD_EPOCH,
    STAYING,
    during,
    record,
)

MOVED = [record(id) for id in MOVING]


def request(sequence: int, epoch: int, content: bytes = b"{}") -> MatchRequest:
    return MatchRequest(epoch, "connpoint-1.a", sequence, 0, 0, 0, 1.5, 2, [content])


def partials(effects: list[Any]) -> list[Partial]:
    return [m for e in effects if isinstance(e, Send) for m in e.messages if isinstance(m, Partial)]


def found(core: MatcherCore, epoch: int) -> list[str]:
    """The subscriptions that a publication of this epoch finds, and every question too."""
    (partial,) = partials(core.on_match_requests([request(1, epoch)], 0.0, 0))
    ids = sorted(id for _, matches in partial.matched for _, own, _ in matches for id in own)
    ((listed,),) = [
        s.messages for s in core.on_find_subscriptions("accesspoint-1", FindSubscriptions(epoch, 1, "c", asked=2))
    ]
    assert (sorted(known.id for known in listed.records), listed.asked) == (ids, 2)
    ((explained,),) = [
        s.messages for s in core.on_explain("accesspoint-1", Explain(epoch, 1, "c", b"{}", asked=2), 0.0)
    ]
    assert (explained.ids, explained.count, explained.asked) == (ids, len(ids), 2)
    return ids


@pytest.mark.parametrize("state", list(State)[1:-1])
def test_the_old_epoch_has_all_until_the_end(state: State) -> None:
    assert found(sender(state), OLD_EPOCH) == sorted(IDS)
    assert found(receiver(state, *MOVED), OLD_EPOCH) == []


def test_the_new_epoch_has_each_once_behind_the_cut() -> None:
    assert found(sender(State.CHANGED), NEW_EPOCH) == sorted(STAYING)
    assert found(receiver(State.CHANGED, *MOVED), NEW_EPOCH) == sorted(MOVING)


def test_in_the_end_the_old_epoch_is_not_answered_any_more() -> None:
    core = sender(State.ENDED)
    assert core.on_match_requests([request(1, OLD_EPOCH), request(2, OLD_EPOCH)], 0.0, 0) == []
    assert core.stale == 2
    assert found(core, NEW_EPOCH) == sorted(STAYING)


def test_both_epochs_in_one_run_are_answered_in_order() -> None:
    core = sender(State.CHANGED)
    batch = [request(1, OLD_EPOCH), request(2, NEW_EPOCH), request(3, OLD_EPOCH)]
    answered = partials(core.on_match_requests(batch, 0.0, 0))
    assert [(partial.sequence, partial.epoch) for partial in answered] == [(1, 4), (2, 6), (3, 4)]


# What waits for the cut


def test_requests_of_the_new_epoch_wait_until_every_access_point_has_passed() -> None:
    core = sender(State.READY)
    assert core.on_match_requests([request(1, NEW_EPOCH), request(2, OLD_EPOCH)], 5.0, 0)[0].messages[0].sequence == 2
    assert core.on_match_requests([request(3, NEW_EPOCH)], 5.0, 0) == []
    assert partials(cut(core, "accesspoint-1")) == []
    answered = partials(cut(core, "accesspoint-2"))
    assert [(partial.sequence, partial.epoch) for partial in answered] == [(1, NEW_EPOCH), (3, NEW_EPOCH)]


def test_what_waited_is_matched_when_its_turn_comes() -> None:
    """Windows and publications that ended while it waited have ended."""
    core = receiver(State.READY, record(MOVING[0], until_s=7.0), record(MOVING[1]), clock_s=8.0)
    expires = b'{"expires":"1970-01-01T00:00:07Z"}'
    core.on_match_requests([request(1, NEW_EPOCH), request(2, NEW_EPOCH, expires)], 5.0, 5 * 10**9)
    answered = partials(cut(core, old=False))
    matched = [[id for _, matches in one.matched for _, own, _ in matches for id in own] for one in answered]
    assert matched == [[MOVING[1]], []]


def test_requests_beyond_the_bound_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_module, "REQUESTS_KEPT_MAX", 3)
    core = sender(State.READY)
    core.on_match_requests([request(1, NEW_EPOCH), request(2, NEW_EPOCH)], 0.0, 0)
    core.on_match_requests([request(3, NEW_EPOCH), request(4, NEW_EPOCH)], 0.0, 0)
    core.on_match_requests([request(5, NEW_EPOCH)], 0.0, 0)
    assert [partial.sequence for partial in partials(cut(core))] == [1, 2, 3]


def test_answers_of_the_new_epoch_wait_until_every_access_point_has_passed() -> None:
    core = receiver(State.READY, *MOVED)
    given = record(MOVING[0], "n = 1")
    stored = Answer("accesspoint-1", SubscriptionStored(NEW_EPOCH, 1, "connpoint-1", MOVING[0]))
    removed = Answer("accesspoint-2", SubscriptionRemoved(NEW_EPOCH, 2, "connpoint-1", MOVING[1], existed=True))
    kept = replace(given, given_from_s=0.0)
    assert core.on_subscribe("accesspoint-1", Subscribe(NEW_EPOCH, 1, "connpoint-1", given)) == [Store(kept, stored)]
    assert core.on_unsubscribe("accesspoint-2", Unsubscribe(NEW_EPOCH, 2, "connpoint-1", MOVING[1])) == [
        Erase([MOVING[1]], removed)
    ]
    assert core.on_written(stored) == core.on_written(removed) == []
    assert cut(core, "accesspoint-1", old=False) == []
    assert cut(core, "accesspoint-2", old=False)[:2] == [
        Send("accesspoint-1", [stored.message]),
        Send("accesspoint-2", [removed.message]),
    ]
    assert core.on_written(stored) == [Send("accesspoint-1", [stored.message])]


def test_answers_of_the_old_epoch_do_not_wait() -> None:
    core = sender(State.READY)
    answer = Answer("accesspoint-1", SubscriptionStored(OLD_EPOCH, 1, "connpoint-1", "s-1"))
    assert core.on_written(answer) == [Send("accesspoint-1", [answer.message])]


# Changes while two epochs are there


def test_what_has_moved_away_does_not_exist_for_calls_of_the_new_epoch() -> None:
    core = sender(State.CHANGED)
    (erase,) = core.on_unsubscribe("accesspoint-1", Unsubscribe(NEW_EPOCH, 1, "connpoint-1", MOVING[0]))
    assert not erase.answer.message.existed
    assert MOVING[0] in found(core, OLD_EPOCH)


def test_one_that_arrived_and_is_removed_behind_the_cut_is_gone_for_good() -> None:
    core = receiver(State.CHANGED, *MOVED)
    store_all(core, core.on_unsubscribe("accesspoint-1", Unsubscribe(NEW_EPOCH, 1, "connpoint-1", MOVING[0])))
    again = core.scaling.on_add_matcher_state("matcher-1", chunk(1, *MOVING, ends="copy"))
    assert again == [Send("matcher-1", [MatcherStateStored(NEW_EPOCH, 1)])]  # it is older than what we have
    assert found(core, NEW_EPOCH) == sorted(MOVING[1:])


def test_what_arrived_and_is_over_ends_when_it_counts() -> None:
    """Only then is its home told, and until the cut the matcher where it counts tells it."""
    given = record(MOVING[0], until_s=7.0)
    core = receiver(State.COPIED, given)
    assert core.on_second(7.0) == core.on_second(16.9) == []
    assert list(core.index.ids()) == [given.id]
    settle(core, [*core.on_configuration(during("moving")), *start(core)])
    receive(core, chunk(2, ends="state"))
    settle(core, core.on_configuration(during("changing")))
    assert core.on_second(17.0) == [
        Erase([given.id], None),
        Send("accesspoint-1", [SubscriptionGone(NEW_EPOCH, given.home, given.id)]),
    ]


def test_one_that_arrived_and_does_not_come_to_count_goes_as_refuse() -> None:
    core = receiver(State.COPYING)
    core.scaling.on_add_matcher_state("matcher-1", chunk_of(1, [record(MOVING[0], until_s=7.0)]))
    assert core.on_second(7.0) == []
    settle(core, core.on_configuration(GIVEN_UP))
    assert list(core.index.ids()) == []
    assert core.on_second(17.0) == []


def test_subscriptions_do_not_end_while_calls_wait_for_the_last_changes() -> None:
    core = sender(State.SENDING)
    put_away = record(STAYING[0], until_s=7.0)
    core.on_subscribe("accesspoint-1", Subscribe(OLD_EPOCH, 1, "connpoint-1", put_away))
    assert core.scaling.is_in_a_hurry
    assert not any(isinstance(effect, Erase) for effect in core.on_second(9.0))
    settle(core, core.on_configuration(GIVEN_UP))
    assert [effect.ids for effect in core.on_second(10.0) if isinstance(effect, Erase)] == [[put_away.id]]


def test_refuse_is_removed_bit_by_bit_and_other_messages_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_module, "_REFUSE_AT_ONCE", 5)
    core = sender(State.ENDED)
    erased: list[str] = []
    while True:
        erase, *more = core.on_continue()
        assert len(erase.ids) <= 5
        erased += erase.ids
        assert found(core, NEW_EPOCH) == sorted(STAYING)
        if more == [WhenForgotten()]:
            break
        assert more == [Continue()]
    assert sorted(erased) == sorted(MOVING)
    core.on_configuration(ENDED)
    assert core.on_continue() == [ExpectForeign(False)]


def test_a_chunk_that_does_not_fit_is_never_acknowledged_and_the_matcher_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def is_full(*_: Any) -> None:
        raise IndexFullError("full")

    early, late = receiver(), receiver(State.SENDING)
    early.scaling.on_add_matcher_state("matcher-1", chunk(1, *MOVING))
    with monkeypatch.context() as patch:
        patch.setattr(MatchIndex, "add_many", is_full)
        assert early.on_configuration(during("copying")) == [ExpectForeign(True), ReportStep(CHANGE, "refused")]
        assert late.scaling.on_add_matcher_state("matcher-1", chunk(2, *MOVING)) == [ReportStep(CHANGE, "refused")]
    assert (early.refused, late.refused) == (len(MOVING), len(MOVING))
    for core in (early, late):
        settle(core, core.on_configuration(GIVEN_UP))
        assert found(core, OLD_EPOCH) == []


def test_a_whole_scaling_between_two_leaves_each_with_its_own() -> None:
    old, new = sender(), receiver()

    def send(effects: list[Any]) -> None:
        """What the old one sends, the new one stores."""
        sent = settle(old, effects)
        for message in chunks_of(sent):
            receive(new, message)
        acknowledge(old, sent)

    new.on_configuration(during("copying"))
    send(old.on_configuration(during("copying")))
    assert old.scaling.state is new.scaling.state is State.COPIED
    for core in (old, new):
        core.on_configuration(during("moving"))
    start(new)
    send(start(old))
    for core in (old, new):
        assert core.scaling.state is State.READY
        core.on_configuration(during("changing"))
        cut(core, old=core is old)
        core.on_configuration(during("ending"))
        settle(core, [*end(core), *core.on_configuration(ENDED)])
    assert sorted(old.index.ids()) == found(old, NEW_EPOCH) == sorted(STAYING)
    assert sorted(new.index.ids()) == found(new, NEW_EPOCH) == sorted(MOVING)
    assert old.scaling.violations == new.scaling.violations == 0
