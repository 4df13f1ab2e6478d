"""The matcher: one partial for every request, one answer for every question, and never before it is stored."""

from typing import Any

import msgspec
import pytest

from braid.content import Content, encode_content
from braid.matching.explanation import Explanation, FilterStep, PartExplained
from braid.matching.index import IndexFullError, MatchIndex
from braid.messages import (
    Explain,
    Explained,
    FindSubscriptions,
    MatchRequest,
    Partial,
    Send,
    Subscribe,
    SubscriptionGone,
    SubscriptionRemoved,
    SubscriptionsFound,
    SubscriptionStored,
    Unsubscribe,
)
from braid.subscription import SubscriptionRecord
from braid.topology import Configuration
from services.matcher import core as core_module
from services.matcher import endings as endings_module
from services.matcher.core import Erase, MatcherCore, Store

CONFIGURATION = Configuration(1, ("accesspoint-1",), ("matcher-1", "matcher-2"), ("exitpoint-1", "exitpoint-2"))
NOW = 1000.0


def record(id: str, filter: str = "", **changes: Any) -> SubscriptionRecord:
    given: dict[str, Any] = {"subscriber": "anna", "home": "connpoint-1", "created_s": 0.0} | changes
    return SubscriptionRecord(id=id, filter=filter, **given)


def matcher(*records: SubscriptionRecord) -> MatcherCore:
    core = MatcherCore("matcher-1", lambda: 999)
    core.on_recovered(records)
    core.on_configuration(CONFIGURATION)
    return core


def content(**attributes: Any) -> bytes:
    return encode_content(Content(attributes=attributes))


def request(sequence: int, *contents: bytes, publisher: int = 0, epoch: int = 1, hops: Any = None) -> MatchRequest:
    return MatchRequest(epoch, "connpoint-1.a", sequence, sequence - 1, 0, publisher, 2, list(contents), hops)


def match(core: MatcherCore, *requests: MatchRequest) -> list[Send]:
    return core.on_match_requests(list(requests), NOW, 7)


def matched(core: MatcherCore, *contents: bytes) -> dict[str, list[Any]]:
    ((message,),) = [send.messages for send in match(core, request(1, *contents))]
    return dict(message.matched)


# Match requests


def test_a_request_is_answered_also_when_nothing_matches() -> None:
    core = matcher(record("s-1", "n = 1"))
    assert match(core, request(5, content(n=2))) == [
        Send("exitpoint-1", [Partial(1, "connpoint-1.a", 5, 4, 0, 0, 2, "matcher-1", [], None)])
    ]
    assert matched(core) == {}


def test_matches_are_grouped_by_home_in_the_order_of_the_batch() -> None:
    core = matcher(
        record("s-1", "n = 1"),
        record("s-2", "n < 3"),
        record("s-3", "n = 1", home="connpoint-2"),
        record("s-4", "n = 9", home="connpoint-3"),
    )
    one, two = content(n=1), content(n=2)
    assert matched(core, two, one, content(n=5), one) == {
        "connpoint-1": [(0, ["s-2"], two), (1, ["s-1", "s-2"], one), (3, ["s-1", "s-2"], one)],
        "connpoint-2": [(1, ["s-3"], one), (3, ["s-3"], one)],
    }


def test_several_requests_are_matched_at_once_and_answered_each_for_itself() -> None:
    core = matcher(record("s-1", "n = 1"), record("s-2", "n < 3"), record("s-3", "n = 1", home="connpoint-2"))
    one, two, five = content(n=1), content(n=2), content(n=5)
    (send,) = match(core, request(5, five, one), request(6), request(7, b"{", two, one), request(8, five))
    assert send == Send(
        "exitpoint-1",
        [
            Partial(
                1,
                "connpoint-1.a",
                5,
                4,
                0,
                0,
                2,
                "matcher-1",
                [("connpoint-1", [(1, ["s-1", "s-2"], one)]), ("connpoint-2", [(1, ["s-3"], one)])],
            ),
            Partial(1, "connpoint-1.a", 6, 5, 0, 0, 2, "matcher-1", []),
            Partial(
                1,
                "connpoint-1.a",
                7,
                6,
                0,
                0,
                2,
                "matcher-1",
                [
                    ("connpoint-1", [(1, ["s-2"], two), (2, ["s-1", "s-2"], one)]),
                    ("connpoint-2", [(2, ["s-3"], one)]),
                ],
            ),
            Partial(1, "connpoint-1.a", 8, 7, 0, 0, 2, "matcher-1", []),
        ],
    )
    assert core.unreadable == 1


def test_places_are_counted_from_the_beginning_of_a_request_also_with_one_home() -> None:
    core = matcher(record("s-1", "n = 1"))
    one = content(n=1)
    sends = match(core, request(1, content(), one), request(2, one, epoch=2), request(3, one), request(4, b"", b"[]"))
    assert [m.matched for send in sends for m in send.messages] == [
        [("connpoint-1", [(1, ["s-1"], one)])],
        [("connpoint-1", [(0, ["s-1"], one)])],
        [],
    ]
    assert (core.unreadable, core.stale) == (2, 1)


def test_what_came_before_on_a_topic_may_have_come_in_an_earlier_request() -> None:
    core = matcher(record("s-1", "n > prev(n)"))
    rising = [encode_content(Content(topic="a", attributes={"n": n})) for n in (1, 2)]
    sends = match(core, request(1, rising[0]), request(2, rising[1]))
    assert [m.matched for m in sends[0].messages] == [[], [("connpoint-1", [(0, ["s-1"], rising[1])])]]
    assert matched(core, rising[1]) == {}


def test_the_publisher_chooses_the_exit_point() -> None:
    core = matcher()
    sends = match(core, request(1, publisher=1), request(2, publisher=2), request(3, publisher=3))
    assert [(send.to, [m.sequence for m in send.messages]) for send in sends] == [
        ("exitpoint-2", [1, 3]),
        ("exitpoint-1", [2]),
    ]


def test_a_request_of_another_epoch_is_dropped_and_counted() -> None:
    core = matcher()
    sends = match(core, request(1, epoch=0), request(2), request(3, epoch=2))
    assert [m.sequence for send in sends for m in send.messages] == [2]
    assert core.stale == 2


def test_without_a_configuration_nothing_is_answered() -> None:
    core = MatcherCore("matcher-1", lambda: 0)
    assert match(core, request(1), request(2)) == []
    assert core.on_subscribe(Subscribe(1, 1, "connpoint-1", record("s-1"))) == []
    assert core.on_unsubscribe(Unsubscribe(1, 2, "connpoint-1", "s-1")) == []
    assert core.on_find_subscriptions(FindSubscriptions(1, 3, "connpoint-1")) == []
    assert core.on_explain(Explain(1, 4, "connpoint-1", b"{}"), NOW) == []
    assert core.stale == 6


@pytest.mark.parametrize("unreadable", [b"", b"{", b"[]", b'{"attributes":1}', b'{"expires":"soon"}', b'"\xff"'])
def test_unreadable_content_does_not_stop_the_others(unreadable: bytes) -> None:
    core = matcher(record("s-1"))
    readable = content(n=1)
    assert matched(core, readable, unreadable, readable) == {
        "connpoint-1": [(0, ["s-1"], readable), (2, ["s-1"], readable)]
    }
    assert core.unreadable == 1


@pytest.mark.parametrize(
    ("expires", "alive"), [("1970-01-01T00:16:40.000Z", False), ("1970-01-01T00:16:40.001Z", True), (None, True)]
)
def test_an_expired_publication_matches_nobody(expires: str | None, alive: bool) -> None:
    written = encode_content(Content(id="p", expires=expires))
    assert matched(matcher(record("s-1")), written) == ({"connpoint-1": [(0, ["s-1"], written)]} if alive else {})


def test_windows() -> None:
    core = matcher(
        record("past", until_s=NOW), record("open", from_s=NOW, until_s=NOW + 1), record("later", from_s=NOW + 1)
    )
    ((_, ids, _),) = matched(core, b"{}")["connpoint-1"]
    assert ids == ["open"]


def test_a_traced_request() -> None:
    hops = [("connpoint-1", 1, 2), ("accesspoint-1", 3, 4)]
    (send,) = match(matcher(), request(1, hops=hops))
    assert send.messages[0].hops == [*hops, ("matcher-1", 7, 999)]


# Subscriptions


def subscribe(core: MatcherCore, given: SubscriptionRecord, epoch: int = 1) -> list[Any]:
    return core.on_subscribe(Subscribe(epoch, 3, "connpoint-1", given))


def test_a_subscription_is_answered_only_through_its_store_effect() -> None:
    core = matcher()
    given = record("s-1", "n = 1")
    answer = SubscriptionStored(1, 3, "connpoint-1", "s-1")
    assert subscribe(core, given) == [Store(given, Send("connpoint-1", [answer]))]
    assert matched(core, content(n=1)) == {"connpoint-1": [(0, ["s-1"], content(n=1))]}


def test_asked_again_it_is_stored_and_answered_again() -> None:
    core = matcher()
    assert subscribe(core, record("s-1")) == subscribe(core, record("s-1"))
    assert len(core.index) == 1


def test_the_same_id_replaces() -> None:
    core = matcher(record("s-1", "n = 1"))
    subscribe(core, record("s-1", "n = 2"))
    assert matched(core, content(n=1)) == {}
    assert list(matched(core, content(n=2))) == ["connpoint-1"]


def test_a_move_tells_the_home_before() -> None:
    core = matcher(record("s-1"))
    moved = record("s-1", home="connpoint-2")
    answer = SubscriptionStored(1, 3, "connpoint-1", "s-1")
    gone = SubscriptionGone(1, "connpoint-1", "s-1")
    assert subscribe(core, moved) == [Store(moved, Send("connpoint-1", [answer])), Send("connpoint-1", [gone])]
    assert list(matched(core, b"{}")) == ["connpoint-2"]


def test_a_full_index_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_full(*_: Any) -> None:
        raise IndexFullError("full")

    core = matcher(record("s-1", "n = 1"))
    monkeypatch.setattr(MatchIndex, "add", is_full)
    assert subscribe(core, record("s-2")) == []
    assert subscribe(core, record("s-1", "n = 2")) == []
    assert core.refused == 2
    assert list(core.index) == [record("s-1", "n = 1")]


def test_unsubscribing() -> None:
    core = matcher(record("s-1"))
    answer = SubscriptionRemoved(1, 4, "connpoint-1", "s-1", existed=True)
    asked = Unsubscribe(1, 4, "connpoint-1", "s-1")
    assert core.on_unsubscribe(asked) == [Erase("s-1", Send("connpoint-1", [answer]))]
    assert matched(core, b"{}") == {}
    again = msgspec.structs.replace(answer, existed=False)
    assert core.on_unsubscribe(asked) == [Erase("s-1", Send("connpoint-1", [again]))]


def test_a_subscription_that_another_connection_point_ended_is_gone_from_its_home() -> None:
    core = matcher(record("s-1"))
    asked = Unsubscribe(1, 4, "connpoint-2", "s-1")
    answer = SubscriptionRemoved(1, 4, "connpoint-2", "s-1", existed=True)
    assert core.on_unsubscribe(asked) == [
        Erase("s-1", Send("connpoint-2", [answer])),
        Send("connpoint-1", [SubscriptionGone(1, "connpoint-1", "s-1")]),
    ]


def test_without_a_configuration_nothing_expires() -> None:
    core = MatcherCore("matcher-1", lambda: 0)
    core.on_recovered([record("s-1", until_s=NOW)])
    assert core.on_tick(NOW) == []
    core.on_configuration(CONFIGURATION)
    assert len(core.on_tick(NOW)) == 2


def test_changes_of_another_epoch_change_nothing() -> None:
    core = matcher(record("s-1"))
    assert subscribe(core, record("s-2"), epoch=2) == []
    assert core.on_unsubscribe(Unsubscribe(0, 4, "connpoint-1", "s-1")) == []
    assert core.on_find_subscriptions(FindSubscriptions(7, 5, "connpoint-1")) == []
    assert [known.id for known in core.index] == ["s-1"]
    assert core.stale == 3


def test_a_tick_erases_what_is_over() -> None:
    core = matcher(record("s-1", until_s=NOW), record("s-2", until_s=NOW + 0.1), record("s-3"))
    assert core.on_tick(NOW - 0.1) == []
    assert core.on_tick(NOW) == [
        Erase("s-1", None),
        Send("connpoint-1", [SubscriptionGone(1, "connpoint-1", "s-1")]),
    ]
    assert core.on_tick(NOW) == []
    assert sorted(known.id for known in core.index) == ["s-2", "s-3"]


def test_only_the_latest_end_counts() -> None:
    core = matcher(record("s-1", until_s=NOW), record("s-2", until_s=NOW), record("s-3", until_s=NOW))
    subscribe(core, record("s-1", until_s=NOW + 5))
    subscribe(core, record("s-2"))
    core.on_unsubscribe(Unsubscribe(1, 4, "connpoint-1", "s-3"))
    subscribe(core, record("s-3", until_s=NOW + 1))
    assert core.on_tick(NOW) == []
    assert [effect.id for effect in core.on_tick(NOW + 9) if isinstance(effect, Erase)] == ["s-3", "s-1"]
    assert [known.id for known in core.index] == ["s-2"]


def test_many_that_end_at_once_end_a_part_at_each_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_module, "_ENDS_AT_ONCE", 2)
    core = matcher(*[record(f"s-{n}", until_s=NOW + n) for n in range(5)])
    assert [len(core.on_tick(NOW + 9)) for _ in range(4)] == [4, 4, 2, 0]


def test_an_end_that_is_moved_again_and_again_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings_module, "_OUTDATED_MAX", 10)
    endings = endings_module.Endings()
    for moved in range(1000):
        endings.note(record("s-1", until_s=NOW + moved))
        endings.note(record("s-2", until_s=NOW + 2 * moved))
    assert len(endings) <= 15
    assert list(endings.passed(NOW + 1998)) == ["s-1", "s-2"]
    assert list(endings.passed(NOW + 1998)) == []


# Explaining


def explain(core: MatcherCore, given: bytes, id: str = "", limit: int = 1000) -> Explained:
    (send,) = core.on_explain(Explain(1, 5, "connpoint-9", given, id, limit), NOW)
    assert isinstance(send, Send)
    assert send.to == "connpoint-9"
    (answer,) = send.messages
    found: Explained = answer
    return found


def test_explaining_answers_the_first_ids_and_counts_all() -> None:
    core = matcher(*[record(f"s-{n}", f"n < {n}") for n in (7, 3, 1, 8, 5)])
    expected = Explained(1, 5, "connpoint-9", "matcher-1", ["s-3", "s-5"], 4, b"")
    assert explain(core, content(n=2), limit=2) == expected
    assert explain(core, content(n=2)).ids == ["s-3", "s-5", "s-7", "s-8"]
    assert explain(core, content(n=2), limit=0).ids == []
    assert explain(core, content(n=9)) == Explained(1, 5, "connpoint-9", "matcher-1", [], 0, b"")


def test_a_subscription_it_has_is_explained_whether_it_matches_or_not() -> None:
    core = matcher(record("s-1", "n < 3"), record("s-2", "n = 2"))
    answer = explain(core, content(n=2), "s-1")
    assert (answer.ids, answer.count) == (["s-1", "s-2"], 2)
    assert msgspec.json.decode(answer.explanation, type=Explanation).matches
    answer = explain(core, content(n=5), "s-1")
    assert (answer.ids, answer.count) == ([], 0)
    step = FilterStep(text="n < 3", holds=False, saw="n is 5", values={"n": 5})
    part = PartExplained(part="filter", holds=False, wants="n < 3", reasons=["n < 3: n is 5"], filter=step)
    assert msgspec.json.decode(answer.explanation, type=Explanation) == Explanation(
        subscription="s-1", matches=False, failed=["filter"], parts=[part]
    )


def test_a_subscription_of_another_matcher_is_not_explained() -> None:
    assert explain(matcher(record("s-1")), content(), "s-2") == Explained(
        1, 5, "connpoint-9", "matcher-1", ["s-1"], 1, b""
    )


@pytest.mark.parametrize("unreadable", [b"", b"{", b'{"attributes":1}', b'{"topic":"a//b"}', b'{"zone":{"type":"?"}}'])
def test_what_cannot_be_read_is_answered_nevertheless(unreadable: bytes) -> None:
    core = matcher(record("s-1"), record("s-2", topic="a", topic_scope="both"))
    assert explain(core, unreadable, "s-2") == Explained(1, 5, "connpoint-9", "matcher-1", [], 0, b"")
    assert core.unreadable == 1


def test_a_question_of_another_epoch_is_dropped() -> None:
    core = matcher(record("s-1"))
    assert core.on_explain(Explain(2, 5, "connpoint-9", b"{}"), NOW) == []
    assert core.stale == 1


def test_what_is_explained_was_never_published() -> None:
    core = matcher(record("s-1", "n > prev(n)"))
    low, high = (encode_content(Content(topic="a", attributes={"n": n})) for n in (1, 9))
    assert matched(core, low) == {}
    assert explain(core, high, "s-1").ids == ["s-1"]
    answer = explain(core, high, "s-1")
    assert answer.ids == ["s-1"]
    assert msgspec.json.decode(answer.explanation, type=Explanation).matches
    assert matched(core, high) == {"connpoint-1": [(0, ["s-1"], high)]}
    assert explain(core, high, "s-1").ids == []


# Finding


def find(core: MatcherCore, **conditions: Any) -> SubscriptionsFound:
    ((send,),) = [core.on_find_subscriptions(FindSubscriptions(1, 5, "connpoint-9", **conditions))]
    assert isinstance(send, Send)
    assert send.to == "connpoint-9"
    (answer,) = send.messages
    assert (answer.ref, answer.connpoint, answer.matcher) == (5, "connpoint-9", "matcher-1")
    found: SubscriptionsFound = answer
    return found


def pages(core: MatcherCore, **conditions: Any) -> list[list[str]]:
    collected, after = [], ""
    while True:
        found = find(core, after=after, **conditions)
        collected.append([known.id for known in found.records])
        after = found.cursor
        if not after:
            return collected


def test_by_id() -> None:
    core = matcher(record("s-1"), record("s-2"))
    assert find(core, id="s-2").records == [record("s-2")]
    assert find(core, id="s-3").records == []
    assert find(core, id="s-2").cursor == ""


def test_pages_by_subscriber_and_by_home() -> None:
    core = matcher(
        *[
            record(f"s-{n}", subscriber="anna" if n % 2 else "bert", home="connpoint-1" if n < 5 else "connpoint-2")
            for n in (7, 3, 1, 8, 5, 2, 6, 4)
        ]
    )
    assert pages(core, subscriber="anna", limit=3) == [["s-1", "s-3", "s-5"], ["s-7"]]
    assert pages(core, subscriber="anna", home="connpoint-2", limit=3) == [["s-5", "s-7"]]
    assert pages(core, home="connpoint-2", limit=3) == [["s-5", "s-6", "s-7"], ["s-8"]]
    assert [id for page in pages(core, limit=3) for id in page] == [f"s-{n}" for n in range(1, 9)]
    assert pages(core, subscriber="nobody") == [[]]


def test_changes_between_two_pages() -> None:
    core = matcher(*[record(f"s-{n}") for n in range(1, 7)])
    first = find(core, limit=2)
    assert first.cursor == "s-2"
    core.on_unsubscribe(Unsubscribe(1, 4, "connpoint-1", "s-2"))
    core.on_unsubscribe(Unsubscribe(1, 4, "connpoint-1", "s-4"))
    subscribe(core, record("s-35"))
    assert [known.id for known in find(core, after=first.cursor).records] == ["s-3", "s-35", "s-5", "s-6"]
    core.on_tick(NOW)
    subscribe(core, record("s-9", until_s=NOW + 1))
    assert find(core, after="s-6").records == [record("s-9", until_s=NOW + 1)]
    core.on_tick(NOW + 2)
    assert find(core, after="s-6").records == []


def test_a_page_is_bounded_by_what_it_looks_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_module, "_PAGE_LOOKS_MAX", 3)
    core = matcher(*[record(f"s-{n}", home="connpoint-2" if n == 8 else "connpoint-1") for n in range(1, 10)])
    assert pages(core, home="connpoint-2") == [[], [], ["s-8"]]
    assert [id for page in pages(core) for id in page] == [f"s-{n}" for n in range(1, 10)]


def test_a_page_is_bounded_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_module, "_PAGE_BYTES_MAX", 1000)
    core = matcher(*[record(f"s-{n}", f"s = '{'x' * 300}'") for n in range(1, 6)])
    assert [len(page) for page in pages(core)] == [2, 2, 1]
