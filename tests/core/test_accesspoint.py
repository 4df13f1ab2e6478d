"""The access point: publications to all matchers, subscriptions to theirs, answers to whoever asked."""

from typing import Any

import pytest
from msgspec.structs import replace

from braid.messages import (
    FindSubscriptions,
    MatchRequest,
    Publications,
    Send,
    Subscribe,
    SubscriptionGone,
    SubscriptionRemoved,
    SubscriptionsFound,
    SubscriptionStored,
    Unsubscribe,
)
from braid.selector import BroadcastSelector
from braid.subscription import SubscriptionRecord
from braid.topology import Configuration
from services.accesspoint.core import AccessPointCore

CONFIGURATION = Configuration(4, ("accesspoint-1",), ("matcher-1", "matcher-2"), ("exitpoint-1",))
NOW = 50.0
SELECTOR = BroadcastSelector(CONFIGURATION)


def accesspoint() -> AccessPointCore:
    core = AccessPointCore("accesspoint-1", lambda: 999)
    core.on_configuration(CONFIGURATION, NOW)
    return core


def publications(sequence: int, epoch: int = 4, hops: Any = None) -> Publications:
    return Publications(epoch, "connpoint-1.a", sequence, sequence - 1, 2, 77, 1.5, [b"{}", b"[]"], hops)


def test_every_matcher_gets_the_whole_batch_and_how_many_are_asked() -> None:
    requests = [MatchRequest(4, "connpoint-1.a", n, n - 1, 2, 77, 1.5, 2, [b"{}", b"[]"], None) for n in (3, 4)]
    assert accesspoint().on_publications([publications(3), publications(4)], NOW, 7) == [
        Send("matcher-1", requests),
        Send("matcher-2", requests),
    ]


def test_a_traced_batch() -> None:
    first, second = accesspoint().on_publications([publications(1, hops=[("connpoint-1", 1, 2)])], NOW, 7)
    assert first.messages[0].hops == [("connpoint-1", 1, 2), ("accesspoint-1", 7, 999)]
    assert second.messages == first.messages


def test_publications_of_every_epoch_go_on_under_that_of_the_access_point() -> None:
    """So the cut of a scaling lies at one place in each of its links, whatever the connection points know."""
    core = accesspoint()
    sends = core.on_publications([publications(1, epoch=3), publications(2), publications(3, epoch=5)], NOW, 7)
    assert [[(m.epoch, m.sequence) for m in send.messages] for send in sends] == [[(4, 1), (4, 2), (4, 3)]] * 2
    assert core.stale == 0


def test_without_a_configuration_nothing_goes_on() -> None:
    core = AccessPointCore("accesspoint-1", lambda: 0)
    assert core.on_publications([publications(1), publications(2)], NOW, 0) == []
    assert core.on_unsubscribe(Unsubscribe(4, 1, "connpoint-1", "s-1"), NOW) == []
    assert core.on_find_subscriptions(FindSubscriptions(4, 1, "connpoint-1")) == []
    assert core.stale == 4


@pytest.mark.parametrize("id", ["s-1", "s-2", "s-3", "s-4", "s-5"])
def test_one_subscription_is_always_at_the_same_matcher(id: str) -> None:
    core = accesspoint()
    subscribe = Subscribe(4, 1, "connpoint-1", SubscriptionRecord(id, "anna", "connpoint-1", "", 0.0))
    unsubscribe = Unsubscribe(4, 2, "connpoint-1", id)
    find = FindSubscriptions(4, 3, "connpoint-1", id=id)
    matcher = SELECTOR.matcher_of(id)
    assert core.on_subscribe(subscribe, NOW) == [Send(matcher, [subscribe])]
    assert core.on_unsubscribe(unsubscribe, NOW) == [Send(matcher, [unsubscribe])]
    assert core.on_find_subscriptions(find) == [Send(matcher, [find])]


@pytest.mark.parametrize("conditions", [{}, {"subscriber": "anna"}, {"home": "connpoint-1"}])
def test_a_search_goes_to_all_matchers(conditions: dict[str, str]) -> None:
    find = FindSubscriptions(4, 3, "connpoint-1", **conditions)  # type: ignore[arg-type]  # any of them
    asked = replace(find, asked=2)
    assert accesspoint().on_find_subscriptions(find) == [Send("matcher-1", [asked]), Send("matcher-2", [asked])]


@pytest.mark.parametrize("epoch", [0, 3, 5])
def test_questions_of_every_epoch_go_on_under_that_of_the_access_point(epoch: int) -> None:
    core = accesspoint()
    record = SubscriptionRecord("s-1", "a", "c", "", 0.0)
    matcher = SELECTOR.matcher_of("s-1")
    assert core.on_subscribe(Subscribe(epoch, 1, "c", record), NOW) == [Send(matcher, [Subscribe(4, 1, "c", record)])]
    assert core.on_unsubscribe(Unsubscribe(epoch, 2, "c", "s-1"), NOW) == [
        Send(matcher, [Unsubscribe(4, 2, "c", "s-1")])
    ]
    assert core.on_find_subscriptions(FindSubscriptions(epoch, 3, "c", id="s-1")) == [
        Send(matcher, [FindSubscriptions(4, 3, "c", id="s-1")])
    ]
    asked = FindSubscriptions(4, 4, "c", asked=2)
    assert core.on_find_subscriptions(FindSubscriptions(epoch, 4, "c")) == [
        Send("matcher-1", [asked]),
        Send("matcher-2", [asked]),
    ]
    assert core.stale == 0


@pytest.mark.parametrize(
    "answer",
    [
        SubscriptionStored(4, 1, "connpoint-2", "s-1"),
        SubscriptionRemoved(4, 1, "connpoint-2", "s-1", True),
        SubscriptionsFound(4, 1, "connpoint-2", "matcher-1", [], ""),
        SubscriptionGone(4, "connpoint-2", "s-1"),
    ],
)
def test_answers_go_to_whoever_asked(answer: Any) -> None:
    assert accesspoint().on_answer(answer) == [Send("connpoint-2", [answer])]
