"""What a matcher remembers for `prev`: on disk before a partial leaves; in a scaling handed over, awaited, merged."""

import pytest
from msgspec.structs import replace

from braid.content import Content, encode_content
from braid.matching.chains import Position, Remembered, encode_chain
from braid.matching.previous import ChainChanges
from braid.messages import HandOverPrevious, MatchRequest, Partial, PreviousHandedOver, Send
from braid.scaling import ReportStep
from services.matcher import taking_previous
from services.matcher.core import PREVIOUS_AWAITED_S_MAX, MatcherCore
from services.matcher.effects import Continue, Effects, Keep, StorePrevious
from services.matcher.scaling_states import State
from services.matcher.taking_previous import TakingPrevious
from tests.core.matcher_cases import CONFIGURATION, NOW
from tests.core.matcher_scaling_cases import (
    acknowledge,
    cut,
    end,
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
    MOVING,
    NEW_EPOCH,
    OLD_EPOCH,
    STAYING,
    during,
    record,
    to,
)

FALLING = "n < prev(n)"
ORIGIN = "connpoint-1.a"
MOVED = record(MOVING[0], FALLING)
DONE, DRAINED = ReportStep(CHANGE, "done"), ReportStep(CHANGE, "drained")


def content(n: int, topic: str = "t") -> bytes:
    return encode_content(Content(topic=topic, attributes={"n": n, "other": 1}))


def request(sequence: int, n: int, epoch: int = 1, topic: str = "t") -> MatchRequest:
    return MatchRequest(epoch, ORIGIN, sequence, 0, 0, 0, 1.5, 2, [content(n, topic)])


def chain(*numbers: int) -> bytes:
    """Of publications whose sequence is their number."""
    return encode_chain([Remembered(Position(ORIGIN, n, 0), b'{"n":%d}' % n) for n in numbers])


def match(core: MatcherCore, *requests: MatchRequest) -> Effects:
    return core.on_match_requests(list(requests), NOW, int(NOW * 1e9))


def partials(effects: Effects) -> list[tuple[int, bool]]:
    """Sequences, and whether somebody was found."""
    sends = [effect for effect in effects if isinstance(effect, Send)]
    return [(m.sequence, bool(m.matched)) for s in sends for m in s.messages if isinstance(m, Partial)]


def stored(effects: Effects) -> list[StorePrevious]:
    return [effect for effect in effects if isinstance(effect, StorePrevious)]


def handed(effects: Effects) -> list[HandOverPrevious]:
    sends = [effect for effect in effects if isinstance(effect, Send)]
    return [m for s in sends for m in s.messages if isinstance(m, HandOverPrevious)]


def matcher(*, keeps: bool = True, filter: str = FALLING) -> MatcherCore:
    core = MatcherCore("matcher-1", lambda: 999, keeps_publications=keeps)
    core.on_recovered([record("s-1", filter)])
    core.on_previous_recovered({})
    core.on_configuration(replace(CONFIGURATION, matchers=("matcher-1",)))
    return core


# On disk


def test_a_partial_leaves_when_what_is_remembered_is_on_disk() -> None:
    core = matcher()
    keep, store = match(core, request(9, 9), request(10, 8))
    assert isinstance(keep, Keep)
    assert store == StorePrevious(2, ChainChanges({"t": _chain((9, 9), (10, 8))}))
    assert core.on_kept(keep.ticket) == []
    assert partials(core.on_previous_stored(store)) == [(9, False), (10, True)]


def _chain(*pairs: tuple[int, int]) -> bytes:
    return encode_chain([Remembered(Position(ORIGIN, sequence, 0), b'{"n":%d}' % n) for sequence, n in pairs])


def test_where_publications_are_not_kept_nothing_waits() -> None:
    core = matcher(keeps=False)
    store, send = match(core, request(9, 9))
    assert store == StorePrevious(0, ChainChanges({"t": chain(9)}))
    assert partials([send]) == [(9, False)]


def test_where_nobody_looks_back_nothing_is_written() -> None:
    core = matcher(filter="n < 5")
    assert [type(effect) for effect in match(core, request(9, 9))] == [Keep]


def test_what_comes_again_is_not_written_again() -> None:
    core = matcher(keeps=False)
    match(core, request(9, 9))
    assert stored(match(core, request(9, 9))) == []


def test_a_start_finds_it() -> None:
    core = MatcherCore("matcher-1", lambda: 999)
    core.on_recovered([record("s-1", FALLING)])
    core.on_previous_recovered({"t": chain(9)})
    core.on_configuration(CONFIGURATION)
    assert partials(match(core, request(10, 8), request(9, 9))) == [(10, True), (9, False)]


def test_a_start_at_which_nobody_looks_back_clears_it() -> None:
    core = MatcherCore("matcher-1", lambda: 999)
    core.on_recovered([record("s-1")])
    core.on_previous_recovered({"t": chain(9)})
    assert stored(core.on_configuration(CONFIGURATION)) == [StorePrevious(0, ChainChanges({}, is_cleared=True))]
    assert stored(core.on_second(NOW)) == []


# Who hands over


def handing(state: State) -> MatcherCore:
    """matcher-1, one of whose subscriptions says `prev` and goes to matcher-2; it has seen the publication 9."""
    core = sender(State.SERVING)
    core.index.add(MOVED)
    match(core, request(9, 9, OLD_EPOCH))
    left = settle(core, core.on_configuration(during("copying")))
    assert handed(left) == [HandOverPrevious(NEW_EPOCH, 1, 1, {"t": chain(9)}, False)]
    assert core.scaling.state is State.COPYING
    acknowledge(core, left)
    assert core.scaling.state is State.COPYING
    assert take_previous(core)[-1].step == "copied"
    if state is State.READY:
        core.on_configuration(during("moving"))
        acknowledge(core, settle(core, start(core)))
        core.on_configuration(during("changing"))
    assert core.scaling.state is state
    return core


def test_what_has_changed_goes_with_the_next_pass() -> None:
    core = handing(State.COPIED)
    match(core, request(10, 10, OLD_EPOCH))
    assert core.on_second(NOW) == [Continue()]
    assert handed(core.on_continue()) == [HandOverPrevious(NEW_EPOCH, 2, 1, {"t": chain(9, 10)}, False)]


def test_the_last_ones_go_when_the_old_epoch_is_answered_no_more() -> None:
    core = handing(State.READY)
    match(core, request(10, 10, OLD_EPOCH), request(11, 11, NEW_EPOCH))
    assert handed(cut(core, "accesspoint-1")) == []
    effects = cut(core, "accesspoint-2")
    assert handed(effects) == [HandOverPrevious(NEW_EPOCH, 2, 1, {"t": chain(9, 10)}, True)]
    assert [sequence for sequence, _ in partials(effects)] == [11]
    assert effects[-1] == DONE
    assert DRAINED not in end(core)
    assert take_previous(core, 1) == []
    assert take_previous(core, 2) == [Continue(), DRAINED]


def test_a_sender_that_started_again_hands_over_what_was_on_its_disk() -> None:
    core = MatcherCore("matcher-1", lambda: 0)
    core.on_recovered([MOVED, *(record(id) for id in STAYING)], foreign_expected=True)
    core.on_previous_recovered({"t": chain(9)})
    effects = core.on_configuration(during("changing"))
    assert handed(effects) == [HandOverPrevious(NEW_EPOCH, 1, 1, {"t": chain(9)}, True)]
    settle(core, effects)
    assert not core.index.looks_back
    assert handed(core.scaling.on_peer_up("matcher-2")) == [HandOverPrevious(NEW_EPOCH, 2, 2, {"t": chain(9)}, True)]


def test_where_every_subscription_stays_nothing_is_handed_over() -> None:
    core = sender(State.SERVING)
    target = to(matchers=("matcher-1",), exitpoints=("exitpoint-2",))
    assert handed(settle(core, core.on_configuration(during("copying", target)))) == []
    assert core.scaling.previous.is_copied
    assert core.scaling.previous.is_gone


# Who gets it


def hand(core: MatcherCore, number: int, *, first: int = 1, is_last: bool = False, **chains: bytes) -> Effects:
    message = HandOverPrevious(NEW_EPOCH, number, first, chains, is_last)
    return core.scaling.on_hand_over_previous("matcher-1", message)


def acknowledged(number: int) -> Send:
    return Send("matcher-1", [PreviousHandedOver(NEW_EPOCH, number)])


def test_requests_wait_for_the_last_ones_too() -> None:
    core = receiver(State.READY, MOVED)
    assert hand(core, 1, t=chain(7)) == [acknowledged(1)]
    assert match(core, request(10, 8, NEW_EPOCH)) == []
    assert cut(core, old=False) == [DONE]
    assert match(core, request(11, 11, NEW_EPOCH)) == []
    effects = hand(core, 2, is_last=True, t=chain(7, 9))
    assert partials(effects) == [(10, True), (11, False)]
    assert partials(match(core, request(12, 5, NEW_EPOCH))) == [(12, True)]
    *_, store = core.on_continue()
    assert (store.taken, store.epoch, store.ticket) == ({"matcher-1": 2}, NEW_EPOCH, 0)
    assert core.on_previous_stored(store) == [acknowledged(2)]


def test_what_came_before_the_cut_waits_for_it() -> None:
    core = receiver(State.READY, MOVED)
    assert hand(core, 1, is_last=True, t=chain(9)) == []
    assert match(core, request(10, 8, NEW_EPOCH)) == []
    assert partials(cut(core, old=False)) == [(10, True)]
    (store,) = stored(settle(core, [Continue()]))
    assert (store.changes, store.taken) == (ChainChanges({}), {"matcher-1": 1})


def test_what_is_not_looked_at_is_merged_bit_by_bit_and_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.matcher.moving_previous._MERGED_AT_ONCE", 2)
    core = receiver(State.CHANGED, MOVED)
    assert hand(core, 1, is_last=True, a=chain(1), b=chain(2), c=chain(3)) == [Continue()]
    first, second = stored(settle(core, [Continue()]))
    assert (first.changes, first.taken) == (ChainChanges({"a": chain(1), "b": chain(2)}), {})
    assert (second.changes, second.taken) == (ChainChanges({"c": chain(3)}), {"matcher-1": 1})


def test_where_nobody_looks_back_nobody_waits() -> None:
    core = receiver(State.CHANGED, record(MOVING[0]))
    assert partials(match(core, request(10, 8, NEW_EPOCH))) == [(10, True)]
    assert hand(core, 1, is_last=True, t=chain(9)) == [Continue()]
    (store,) = stored(core.on_continue())
    assert (store.changes, store.taken) == (ChainChanges({}), {"matcher-1": 1})
    assert len(core.index.previous) == 0


def test_nobody_waits_for_ever_and_what_comes_late_is_merged() -> None:
    core = receiver(State.CHANGED, MOVED)
    assert match(core, request(10, 8, NEW_EPOCH)) == []
    assert core.on_tick(NOW + PREVIOUS_AWAITED_S_MAX - 1) == []
    assert partials(core.on_tick(NOW + PREVIOUS_AWAITED_S_MAX)) == [(10, False)]
    assert partials(match(core, request(11, 11, NEW_EPOCH))) == [(11, False)]  # once is enough
    assert hand(core, 1, is_last=True, t=chain(9)) == [Continue()]
    (store,) = stored(core.on_continue())
    assert store.changes.chains["t"] == _chain((9, 9), (10, 8), (11, 11))
    assert store.taken == {"matcher-1": 1}


def test_what_comes_before_the_configuration_counts() -> None:
    core = receiver(State.SERVING)
    assert hand(core, 1, is_last=True, t=chain(9)) == []
    core.on_configuration(during("copying"))
    assert not core.scaling.previous._taking.is_awaited  # type: ignore[union-attr]  # it is there by now


def test_what_comes_before_the_configuration_comes_again_on_the_next_link() -> None:
    core = receiver(State.SERVING)
    hand(core, 1, t=chain(9))
    core.scaling.on_peer_up("matcher-1")
    core.on_configuration(during("copying"))
    assert hand(core, 2, first=2, is_last=True, t=chain(9)) == []
    assert core.scaling.previous._taking.release() == [{"t": chain(9)}]  # type: ignore[union-attr]  # as above


def test_a_scaling_that_is_given_up_drops_it() -> None:
    core = receiver(State.COPIED, MOVED)
    hand(core, 1, t=chain(9))
    store_all(core, settle(core, core.on_configuration(GIVEN_UP)))
    assert core.index.previous.attributes_of("t") is None


def test_a_scaling_that_has_ended_without_a_sender_keeps_what_it_has_handed_over() -> None:
    core = receiver(State.CHANGED, MOVED)
    hand(core, 1, t=chain(9))
    assert match(core, request(10, 8, NEW_EPOCH)) == []
    assert partials(core.on_configuration(ENDED)) == [(10, True)]


def test_a_receiver_that_started_again_waits_for_the_last_ones() -> None:
    core = MatcherCore("matcher-2", lambda: 0)
    core.on_recovered([MOVED], foreign_expected=True)
    core.on_previous_recovered({"t": chain(9)})
    core.on_configuration(during("flushing"))
    assert match(core, request(10, 8, NEW_EPOCH)) == []
    assert partials(hand(core, 7, first=7, is_last=True)) == [(10, True)]


def test_the_last_one_counts_when_none_is_missing_before_it() -> None:
    """Links hold back what is sent while they are broken, and a receiver may have been started again meanwhile."""
    core = receiver(State.CHANGED, MOVED)
    match(core, request(10, 8, NEW_EPOCH))
    assert hand(core, 3, is_last=True) == []
    assert hand(core, 4, first=4, t=chain(9)) == [acknowledged(4)]
    assert hand(core, 6, first=4, is_last=True) == []
    assert hand(core, 7, first=7, t=chain(9)) == [acknowledged(7)]
    assert partials(hand(core, 8, first=7, is_last=True)) == [(10, True)]


def test_what_a_sender_hands_over_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking_previous, "BYTES_MAX", 600)
    taking = TakingPrevious(["matcher-1", "matcher-3"])
    for number, name in enumerate("abcb", start=1):
        taking.take("matcher-1", HandOverPrevious(NEW_EPOCH, number, 1, {name: b"x"}, number == 4))
    assert taking.forgotten == 1
    assert taking.is_awaited
    taking.take("matcher-3", HandOverPrevious(NEW_EPOCH, 1, 1, {}, True))
    assert not taking.is_awaited
    assert taking.release() == [{"c": b"x", "b": b"x"}, {}]
    assert taking.take_acknowledgements() == {"matcher-1": 4, "matcher-3": 1}
