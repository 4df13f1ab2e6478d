"""Match requests at the matcher: one partial for each, also when nothing matches."""

import pytest
from msgspec.structs import replace

from braid.content import Content, encode_content
from braid.messages import (
    Explain,
    FindSubscriptions,
    Partial,
    Send,
    Subscribe,
    Unsubscribe,
)
from services.matcher.core import MatcherCore
from tests.core.matcher_cases import NOW, content, match, matched, matcher, record, request, sent


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
    sends = sent(match(core, request(1, rising[0]), request(2, rising[1])))
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
    assert core.on_subscribe("accesspoint-1", Subscribe(1, 1, "connpoint-1", record("s-1"))) == []
    assert core.on_unsubscribe("accesspoint-1", Unsubscribe(1, 2, "connpoint-1", "s-1")) == []
    assert core.on_find_subscriptions("accesspoint-1", FindSubscriptions(1, 3, "connpoint-1")) == []
    assert core.on_explain("accesspoint-1", Explain(1, 4, "connpoint-1", b"{}"), NOW) == []
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


def test_a_batch_that_is_sent_again_is_compared_with_what_came_before_it_the_first_time() -> None:
    core = matcher(record("s-1", "price < prev(price) * 0.9"))
    batches = [encode_content(Content(topic="stocks/acme", attributes={"price": price})) for price in (100, 80, 90)]
    expected = [[], [("connpoint-1", [(0, ["s-1"], batches[1])])], []]
    for attempt in range(2):
        requests = [replace(request(n, each), attempt=attempt) for n, each in enumerate(batches, start=1)]
        ((partials,),) = [[send.messages for send in sent(match(core, *requests))]]
        assert [partial.matched for partial in partials] == expected
    last = replace(request(4, batches[1]), watermark=3)
    ((partials,),) = [[send.messages for send in sent(match(core, last))]]
    assert [partial.matched for partial in partials] == [expected[1]]
