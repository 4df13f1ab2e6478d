"""Questions to the matcher: what matches and why, and which subscriptions it keeps, page by page."""

from typing import Any

import msgspec
import pytest

from braid.content import Content, encode_content
from braid.matching.explanation import Explanation, FilterStep, PartExplained
from braid.messages import (
    Explain,
    Explained,
    FindSubscriptions,
    Send,
    SubscriptionsFound,
    Unsubscribe,
)
from services.matcher import holdings as holdings_module
from services.matcher.core import MatcherCore
from tests.core.matcher_cases import NOW, content, match, matched, matcher, record, request, sent, subscribe


def explain(core: MatcherCore, given: bytes, id: str = "", limit: int = 1000) -> Explained:
    (send,) = core.on_explain("accesspoint-1", Explain(1, 5, "connpoint-9", given, id, limit), NOW)
    assert isinstance(send, Send)
    assert send.to == "accesspoint-1"
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
    assert core.on_explain("accesspoint-1", Explain(2, 5, "connpoint-9", b"{}"), NOW) == []
    assert core.stale == 1


def test_what_is_explained_was_never_published() -> None:
    core = matcher(record("s-1", "n > prev(n)"))
    low, high = (encode_content(Content(topic="a", attributes={"n": n})) for n in (1, 9))
    assert matched(core, low) == {}
    assert explain(core, high, "s-1").ids == ["s-1"]
    answer = explain(core, high, "s-1")
    assert answer.ids == ["s-1"]
    assert msgspec.json.decode(answer.explanation, type=Explanation).matches
    ((send,),) = [sent(match(core, request(2, high)))]
    assert [partial.matched for partial in send.messages] == [[("connpoint-1", [(0, ["s-1"], high)])]]
    assert explain(core, high, "s-1").ids == []


def find(core: MatcherCore, **conditions: Any) -> SubscriptionsFound:
    ((send,),) = [core.on_find_subscriptions("accesspoint-1", FindSubscriptions(1, 5, "connpoint-9", **conditions))]
    assert isinstance(send, Send)
    assert send.to == "accesspoint-1"
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
    core.on_unsubscribe("accesspoint-1", Unsubscribe(1, 4, "connpoint-1", "s-2"))
    core.on_unsubscribe("accesspoint-1", Unsubscribe(1, 4, "connpoint-1", "s-4"))
    subscribe(core, record("s-35"))
    assert [known.id for known in find(core, after=first.cursor).records] == ["s-3", "s-35", "s-5", "s-6"]
    core.on_second(NOW)
    subscribe(core, record("s-9", until_s=NOW + 1))
    assert find(core, after="s-6").records == [record("s-9", until_s=NOW + 1)]
    core.on_second(NOW + 2)
    assert find(core, after="s-6").records == []


def test_a_page_is_bounded_by_what_it_looks_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdings_module, "_PAGE_LOOKS_MAX", 3)
    core = matcher(*[record(f"s-{n}", home="connpoint-2" if n == 8 else "connpoint-1") for n in range(1, 10)])
    assert pages(core, home="connpoint-2") == [[], [], ["s-8"]]
    assert [id for page in pages(core) for id in page] == [f"s-{n}" for n in range(1, 10)]


def test_a_page_is_bounded_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdings_module, "_PAGE_BYTES_MAX", 1000)
    core = matcher(*[record(f"s-{n}", f"s = '{'x' * 300}'") for n in range(1, 6)])
    assert [len(page) for page in pages(core)] == [2, 2, 1]
