"""The matcher under anchored routing: what it tells access points, and what it acknowledges when they know it."""

from typing import Any

import pytest
from msgspec.structs import replace

from braid.messages import (
    Anchors,
    AnchorsKnown,
    MatcherStateStored,
    MatchRequest,
    Send,
    Subscribe,
    SubscriptionStored,
    Unsubscribe,
)
from braid.scaling import ReportStep
from braid.topology import Configuration
from services.matcher import announcing
from services.matcher.announcing import PART_MAX
from services.matcher.core import MatcherCore
from services.matcher.effects import Answer, Continue, Effects, Store
from tests.core.matcher_cases import CONFIGURATION, NOW, content, matched
from tests.core.matcher_scaling_cases import (
    acknowledge,
    chunk,
    chunk_of,
    chunks_of,
    copy,
    cut,
    end,
    receive,
    settle,
    start,
    take_previous,
)
from tests.core.matcher_scaling_cases import matcher as matcher_in_scaling
from tests.core.matching_cases import record
from tests.core.scaling_cases import CHANGE, IDS, NEW_EPOCH, TARGET, during

ANCHORED = replace(CONFIGURATION, accesspoints=("accesspoint-1", "accesspoint-2"), routing="anchored")
FIRST, SECOND = ANCHORED.accesspoints
STORED = Send(FIRST, [SubscriptionStored(1, 3, "connpoint-1", "s-1")])


def matcher(configuration: Configuration = ANCHORED, *, up: tuple[str, ...] = ANCHORED.accesspoints) -> MatcherCore:
    """All access points know its list, which is empty."""
    core = MatcherCore("matcher-1", lambda: 999)
    core.on_recovered([])
    settle(core, core.on_configuration(configuration))
    for name in up:
        core.on_accesspoint_up(name)
        assert know(core, name, 1) == []
    return core


def subscribe(core: MatcherCore, filter: str, id: str = "s-1", ref: int = 3) -> tuple[Answer, list[Send]]:
    """What is answered when it is written, and what access points are told."""
    store, *sends = core.on_subscribe(FIRST, Subscribe(1, ref, "connpoint-1", record(id, filter)))
    assert isinstance(store, Store)
    return store.answer, sends


def know(core: MatcherCore, accesspoint: str, part: int) -> Effects:
    return core.on_anchors_known(accesspoint, AnchorsKnown(0, part))


def told(part: int, *added: str, removed: tuple[str, ...] = (), begins: bool = False) -> Anchors:
    return Anchors(0, part, begins, True, list(added), list(removed))


# Acknowledgements


def test_an_acknowledgement_waits_for_the_disk_and_for_every_access_point() -> None:
    core = matcher()
    answer, sends = subscribe(core, "n = 1")
    assert answer == Answer(FIRST, STORED.messages[0], "filter:n = 1")
    assert sends == [Send(name, [told(2, "filter:n = 1")]) for name in (FIRST, SECOND)]
    assert matched(core, content(n=1)) != {}
    assert core.on_written(answer) == []
    assert know(core, SECOND, 2) == []
    assert know(core, FIRST, 2) == [STORED]
    assert know(core, FIRST, 2) == []


def test_where_the_disk_is_last_it_is_what_counts() -> None:
    core = matcher()
    answer, _ = subscribe(core, "n = 1")
    assert know(core, FIRST, 2) == know(core, SECOND, 2) == []
    assert core.on_written(answer) == [STORED]


def test_one_of_an_anchor_that_is_known_is_acknowledged_when_it_is_written() -> None:
    core = matcher()
    subscribe(core, "n = 1", "s-0")
    know(core, FIRST, 2)
    know(core, SECOND, 2)
    answer, sends = subscribe(core, "n = 1 and m > 2")
    assert sends == []
    assert core.on_written(answer) == [STORED]


def test_several_of_one_anchor_are_acknowledged_together_each_once() -> None:
    core = matcher()
    answers = [subscribe(core, "n = 1", f"s-{number}", ref=number)[0] for number in (1, 2, 1)]  # one is asked again
    other, sends = subscribe(core, "n = 2", "s-3", ref=3)
    assert sends == [Send(name, [told(3, "filter:n = 2")]) for name in (FIRST, SECOND)]
    assert [core.on_written(answer) for answer in (*answers, other)] == [[]] * 4
    know(core, FIRST, 2)
    known = know(core, SECOND, 2)
    assert [send.messages[0].id for send in known] == ["s-1", "s-2"]
    know(core, FIRST, 3)
    assert [send.messages[0].id for send in know(core, SECOND, 3)] == ["s-3"]


def test_one_without_an_anchor_is_told_too() -> None:
    core = matcher()
    answer, sends = subscribe(core, "n > 1")
    assert sends[0] == Send(FIRST, [told(2, "*")])
    assert core.on_written(answer) == know(core, FIRST, 2) == []
    assert know(core, SECOND, 2) == [STORED]


def test_a_removal_is_acknowledged_without_waiting() -> None:
    core = matcher()
    subscribe(core, "n = 1")
    erase, *sends = core.on_unsubscribe(FIRST, Unsubscribe(1, 4, "connpoint-1", "s-1"))
    assert sends == [Send(name, [told(3, removed=("filter:n = 1",))]) for name in (FIRST, SECOND)]
    assert len(core.on_written(erase.answer)) == 1


def test_under_broadcast_routing_nothing_is_told_or_waited_for() -> None:
    core = MatcherCore("matcher-1", lambda: 999)
    assert core.on_configuration(replace(ANCHORED, routing="broadcast")) == []
    assert core.on_accesspoint_up(FIRST) == []
    answer, sends = subscribe(core, "n = 1")
    assert (answer.anchor, sends) == ("", [])
    assert core.on_written(answer) == [STORED]


# Access points that come and go


def test_an_access_point_that_leaves_is_not_waited_for_any_more() -> None:
    core = matcher()
    answer, _ = subscribe(core, "n = 1")
    assert core.on_written(answer) == know(core, FIRST, 2) == []
    assert core.on_configuration(ANCHORED) == []
    assert core.on_configuration(replace(ANCHORED, epoch=2, epochs=2, accesspoints=(FIRST,))) == [STORED]


def test_when_routing_is_broadcast_again_nobody_is_waited_for() -> None:
    core = matcher()
    answer, _ = subscribe(core, "n = 1")
    core.on_written(answer)
    assert core.on_configuration(replace(ANCHORED, epoch=2, epochs=2, routing="broadcast")) == [STORED]


def test_one_without_a_link_is_waited_for() -> None:
    core = matcher(up=(FIRST,))
    answer, _ = subscribe(core, "n = 1")
    assert core.on_written(answer) == know(core, FIRST, 2) == []
    assert core.on_accesspoint_up(SECOND) == [Send(SECOND, [told(1, "filter:n = 1", begins=True)])]
    assert know(core, SECOND, 1) == [STORED]


def test_a_link_that_comes_again_must_bring_the_anchor_again() -> None:
    core = matcher()
    answer, _ = subscribe(core, "n = 1")
    core.on_written(answer)
    know(core, FIRST, 2)
    assert core.on_accesspoint_up(SECOND) == [Send(SECOND, [told(3, "filter:n = 1", begins=True)])]
    assert know(core, SECOND, 2) == []
    assert know(core, SECOND, 3) == [STORED]


def test_what_is_removed_meanwhile_does_not_wait_for_ever() -> None:
    """Nobody will hear of its anchor any more, so there is nothing to wait for."""
    core = matcher()
    answer, _ = subscribe(core, "n = 1")
    core.on_written(answer)
    know(core, FIRST, 2)
    core.on_unsubscribe(FIRST, Unsubscribe(1, 4, "connpoint-1", "s-1"))
    know(core, FIRST, 3)
    assert core.on_accesspoint_up(SECOND) == [Send(SECOND, [told(4, begins=True)]), STORED]


# What goes by itself


def test_anchors_of_subscriptions_that_end_are_taken_off_the_list() -> None:
    core = matcher(replace(ANCHORED, accesspoints=(FIRST,)), up=(FIRST,))
    core.on_subscribe(FIRST, Subscribe(1, 3, "connpoint-1", record("s-1", "n = 1", until_s=NOW + 5)))
    know(core, FIRST, 2)
    assert core.on_second(NOW) == []
    *_, send = core.on_second(NOW + 6)
    assert send == Send(FIRST, [told(3, removed=("filter:n = 1",))])


def test_anchors_of_what_moved_away_are_taken_off_the_list_at_last() -> None:
    core = matcher_in_scaling("matcher-1", IDS)
    target = replace(TARGET, routing="anchored", matchers=("matcher-2",))
    for name in (FIRST, SECOND):
        core.on_accesspoint_up(name)
    copy(core, during("copying", target))
    for name in (FIRST, SECOND):
        know(core, name, 1)
    core.on_configuration(during("moving", target))
    acknowledge(core, settle(core, start(core)))
    core.on_configuration(during("changing", target))
    cut(core)
    take_previous(core)
    assert core.index.get(IDS[0]) is not None
    effects = settle(core, [*core.on_configuration(during("ending", target)), *end(core)])
    assert [effect for effect in effects if isinstance(effect, Send)] == [
        Send(name, [told(2, removed=("*",))]) for name in (FIRST, SECOND)
    ]
    assert list(core.index.ids()) == []


# What was there before


def test_what_was_recovered_is_counted_bit_by_bit_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcing, "PART_MAX", 500)
    core = MatcherCore("matcher-1", lambda: 999)
    core.on_recovered([record(f"s-{number}", f"n = {number}") for number in range(700)])
    for name in (FIRST, SECOND):
        assert core.on_accesspoint_up(name) == []
    assert core.on_configuration(ANCHORED) == [Continue()]
    first = core.on_continue()
    assert [(send.to, len(send.messages[0].added)) for send in first[:-1]] == [(FIRST, 500), (SECOND, 500)]
    assert first[-1] == Continue()
    assert [len(send.messages[0].added) for send in core.on_continue()] == [200, 200]


# Publications


def test_places_count_in_the_whole_batch() -> None:
    core = matcher()
    subscribe(core, "n = 1")
    subscribe(core, "n < 3", "s-2")
    one, two = content(n=1), content(n=2)
    asked = ["matcher-1", "matcher-4"]
    request = MatchRequest(1, "connpoint-1.a", 5, 4, 0, 0, 1.5, 2, [two, content(n=9), one], None, [1, 4, 6], asked)
    ((partial,),) = [send.messages for send in core.on_match_requests([request], NOW, 7)]
    assert partial.matched == [("connpoint-1", [(1, ["s-2"], two), (6, ["s-1", "s-2"], one)])]
    assert (partial.partials, partial.asked) == (2, asked)


def test_a_request_for_nothing_is_answered_with_nothing() -> None:
    core = matcher()
    subscribe(core, "")
    request = MatchRequest(1, "connpoint-1.a", 5, 4, 0, 0, 1.5, 1, [], None, [], ["matcher-1"])
    ((partial,),) = [send.messages for send in core.on_match_requests([request], NOW, 7)]
    assert (partial.matched, partial.asked) == ([], ["matcher-1"])


def test_each_request_has_its_own_places() -> None:
    core = matcher()
    subscribe(core, "n = 1")
    one = content(n=1)
    places: list[Any] = [[3], None, [0, 7]]
    several = [[one], [one, one], [content(n=2), one]]
    requests = [
        MatchRequest(1, "connpoint-1.a", number, 0, 0, 0, 1.5, 1, contents, None, own, None)
        for number, (contents, own) in enumerate(zip(several, places, strict=True))
    ]
    (send,) = core.on_match_requests(requests, NOW, 7)
    found = [[place for _, matches in partial.matched for place, _, _ in matches] for partial in send.messages]
    assert found == [[3], [0, 1], [7]]


# Scalings


@pytest.mark.parametrize("known_before_stored", [True, False])
def test_change_ready_is_reported_when_everybody_knows_all_anchors(known_before_stored: bool) -> None:
    core = matcher_in_scaling("matcher-1", IDS)
    for name in (FIRST, SECOND):
        assert core.on_accesspoint_up(name) == []  # until now all routing was broadcast
    begun = settle(core, core.on_configuration(during("copying", replace(TARGET, routing="anchored"))))
    assert [send for send in begun if isinstance(send, Send) and not chunks_of([send])] == [
        Send(name, [told(1, "*", begins=True)]) for name in (FIRST, SECOND)
    ]
    moved = {"moved": float(sum(len(message.records) for message in chunks_of(begun)))}
    copied, ready = ReportStep(CHANGE, "copied", moved), ReportStep(CHANGE, "change-ready", moved)
    assert acknowledge(core, begun)[-1] == copied  # a few that are on their way do not hold the copy up
    core.on_configuration(during("moving", replace(TARGET, routing="anchored")))
    (last,) = chunks_of(settle(core, start(core)))
    stored = MatcherStateStored(NEW_EPOCH, last.chunk)
    assert know(core, FIRST, 1) == []
    if known_before_stored:
        assert know(core, SECOND, 1) == []
        assert core.scaling.on_matcher_state_stored("matcher-2", stored) == [ready]
    else:
        assert core.scaling.on_matcher_state_stored("matcher-2", stored) == []
        assert know(core, SECOND, 1) == [ready]


def test_many_anchors_that_nobody_was_told_of_hold_the_copy_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be told while new subscriptions wait."""
    monkeypatch.setattr(announcing, "NEARLY_TOLD", PART_MAX)
    core = matcher_in_scaling("matcher-2")
    for name in (FIRST, SECOND):
        core.on_accesspoint_up(name)
    settle(core, core.on_configuration(during("copying", replace(TARGET, routing="anchored"))))
    records = [record(f"s-{number}", f"n = {number}") for number in range(5 * PART_MAX + 1)]
    sends = receive(core, chunk_of(1, records, ends="copy"))
    assert sends[-1] == Send("matcher-1", [MatcherStateStored(NEW_EPOCH, 1)])
    parts = [(send.to, len(send.messages)) for send in sends[:-1] if isinstance(send, Send)]
    assert parts == [(FIRST, 3), (SECOND, 3)]  # beside the first part, which was empty
    for part, name in [(1, FIRST), (1, SECOND), (2, FIRST)]:
        (send,) = know(core, name, part)
        assert (send.to, len(send.messages[0].added)) == (name, PART_MAX)
    send, copied = know(core, SECOND, 2)
    assert (send.to, len(send.messages[0].added)) == (SECOND, PART_MAX)
    assert copied == ReportStep(CHANGE, "copied")  # one is left, and four parts are under way


def test_what_comes_from_others_is_told_before_change_ready() -> None:
    target = replace(TARGET, routing="anchored")
    core = matcher_in_scaling("matcher-2")
    for name in (FIRST, SECOND):
        core.on_accesspoint_up(name)
    settle(core, core.on_configuration(during("copying", target)))
    for name in (FIRST, SECOND):
        know(core, name, 1)
    assert receive(core, chunk(1, *IDS, ends="copy")) == [
        *(Send(name, [told(2, "*")]) for name in (FIRST, SECOND)),
        Send("matcher-1", [MatcherStateStored(NEW_EPOCH, 1)]),
        ReportStep(CHANGE, "copied"),
    ]
    core.on_configuration(during("moving", target))
    start(core)
    assert receive(core, chunk(2, ends="state")) == [Send("matcher-1", [MatcherStateStored(NEW_EPOCH, 2)])]
    assert know(core, FIRST, 2) == []
    assert know(core, SECOND, 2) == [ReportStep(CHANGE, "change-ready", {})]


def test_what_ended_at_others_is_taken_off_the_list() -> None:
    target = replace(TARGET, routing="anchored")
    core = matcher_in_scaling("matcher-2")
    core.on_accesspoint_up(FIRST)
    settle(core, core.on_configuration(during("copying", target)))
    know(core, FIRST, 1)
    receive(core, chunk_of(1, [record("s-1", "n = 1"), record("s-2", "n = 2")]))
    know(core, FIRST, 2)
    first, *_ = receive(core, chunk_of(2, [record("s-1", "n = 3")], removed=["s-2"]))
    assert first == Send(FIRST, [told(3, "filter:n = 3", removed=("filter:n = 1", "filter:n = 2"))])


@pytest.mark.parametrize("joins", ["before", "after"])
def test_an_access_point_that_joins_is_awaited_before_it_is_copied(joins: str) -> None:
    target = replace(TARGET, routing="anchored", accesspoints=("accesspoint-1", "accesspoint-9"))
    core = matcher_in_scaling("matcher-1", IDS)
    for name in (FIRST, SECOND):
        core.on_accesspoint_up(name)
    begun = settle(core, core.on_configuration(during("copying", target)))
    if joins == "before":
        assert core.on_accesspoint_up("accesspoint-9") == [Send("accesspoint-9", [told(1, "*", begins=True)])]
        assert [effect.step for effect in acknowledge(core, begun) if isinstance(effect, ReportStep)] == ["copied"]
    else:
        assert [effect for effect in acknowledge(core, begun) if isinstance(effect, ReportStep)] == []
        assert know(core, FIRST, 1) == know(core, SECOND, 1) == []
        assert core.on_accesspoint_up("accesspoint-9") == [Send("accesspoint-9", [told(1, "*", begins=True)])]
        (copied,) = know(core, "accesspoint-9", 1)
        assert copied.step == "copied"


def test_an_access_point_that_joins_is_awaited_before_change_ready() -> None:
    target = replace(TARGET, routing="anchored", accesspoints=("accesspoint-1", "accesspoint-9"))
    core = matcher_in_scaling("matcher-1", IDS)
    for name in (FIRST, SECOND):
        core.on_accesspoint_up(name)
    copy(core, during("copying", target))
    core.on_configuration(during("moving", target))
    acknowledge(core, settle(core, start(core)))
    assert know(core, FIRST, 1) == know(core, SECOND, 1) == []
    assert core.on_accesspoint_up("accesspoint-9") == [Send("accesspoint-9", [told(1, "*", begins=True)])]
    (ready,) = know(core, "accesspoint-9", 1)
    assert ready.step == "change-ready"
