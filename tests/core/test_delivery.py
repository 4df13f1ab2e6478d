"""Deliveries: every notification is receipted, none is delivered twice or behind a later one; exact payloads."""

import pytest

from braid.messages import Confirmed, Match, Notifications, Partial, Received, Send
from services.connpoint import delivery
from services.connpoint.delivery import Addressed, DeliveryCore, Latest
from services.exitpoint.core import ExitPointCore

ORIGIN = "connpoint-2.b"
CONTENT = b'{"id":"p","data":{ "raw":  1 }}'


def connpoint() -> DeliveryCore:
    core = DeliveryCore("connpoint-1", lambda: 999)
    core.subscribers.update({"s-1": "anna", "s-2": "anna", "s-3": "bert"})
    return core


def notification(
    sequence: int,
    *matches: Match,
    watermark: int = 0,
    publisher: int = 8,
    origin: str = ORIGIN,
    hops: list[tuple[str, int, int]] | None = None,
) -> Notifications:
    return Notifications(1, origin, sequence, watermark, publisher, list(matches) or [(0, ["s-1"], CONTENT)], hops)


def test_the_exact_payload_and_the_receipt() -> None:
    payloads, _, receipts = connpoint().on_notifications("exitpoint-1", [notification(7)], 0)
    assert payloads == {"anna": [b'{"subscriptions":["s-1"],"publication":{"id":"p","data":{ "raw":  1 }}}']}
    assert receipts == [Send("exitpoint-1", [Received(1, ORIGIN, [7], [])])]


def test_each_subscriber_gets_a_publication_once_with_its_own_ids() -> None:
    payloads, *_ = connpoint().on_notifications("exitpoint-1", [notification(1, (0, ["s-1", "s-3", "s-2"], b"{}"))], 0)
    assert payloads == {
        "anna": [b'{"subscriptions":["s-1","s-2"],"publication":{}}'],
        "bert": [b'{"subscriptions":["s-3"],"publication":{}}'],
    }


def test_what_has_an_address_is_set_aside_with_its_place_for_each_subscription() -> None:
    core = connpoint()
    core.addressed.update(["a-1", "a-2"])
    batch = [notification(7, (0, ["a-1"], b"0"), (3, ["s-1", "a-2", "a-1", "a-9"], b"3"))]
    payloads, addressed, receipts = core.on_notifications("exitpoint-1", batch, 0)
    assert payloads == {"anna": [b'{"subscriptions":["s-1"],"publication":3}']}
    assert addressed == [
        Addressed("a-1", (ORIGIN, 7, 0), b"0"),
        Addressed("a-2", (ORIGIN, 7, 3), b"3"),
        Addressed("a-1", (ORIGIN, 7, 3), b"3"),
        Addressed("a-9", (ORIGIN, 7, 3), b"3"),  # whoever delivers it now, nothing here knows that it has ended
    ]
    assert receipts == [Send("exitpoint-1", [Received(1, ORIGIN, [7], [])])]
    assert core.unclaimed == 0
    assert core.on_notifications("exitpoint-1", batch, 0).addressed == []


def test_payloads_keep_the_order_of_batches_and_places() -> None:
    batch = [
        notification(2, (0, ["s-1"], b"1"), (3, ["s-1", "s-2"], b"2"), (4, ["s-3"], b"3")),
        notification(1, (0, ["s-2"], b"4"), publisher=9),
    ]
    payloads, _, receipts = connpoint().on_notifications("exitpoint-1", batch, 0)
    assert [payload[-2:-1] for payload in payloads["anna"]] == [b"1", b"2", b"4"]
    assert [payload[-2:-1] for payload in payloads["bert"]] == [b"3"]
    assert receipts == [Send("exitpoint-1", [Received(1, ORIGIN, [2, 1], [])])]


def test_what_was_seen_is_receipted_and_delivered_to_nobody() -> None:
    core = connpoint()
    core.on_notifications("exitpoint-1", [notification(1)], 0)
    payloads, _, receipts = core.on_notifications("exitpoint-2", [notification(1), notification(2), notification(2)], 0)
    assert {subscriber: len(own) for subscriber, own in payloads.items()} == {"anna": 1}
    assert receipts == [Send("exitpoint-2", [Received(1, ORIGIN, [1, 2, 2], [])])]
    assert core.repeated == 2


def test_below_the_watermark_everything_was_seen() -> None:
    core = connpoint()
    core.on_notifications("exitpoint-1", [notification(9, watermark=5)], 0)
    payloads, _, receipts = core.on_notifications(
        "exitpoint-1", [notification(5, publisher=9), notification(6, publisher=9)], 0
    )
    assert [len(own) for own in payloads.values()] == [1]
    assert receipts[0].messages[0].sequences == [5, 6]


def test_what_comes_behind_a_later_batch_of_its_publisher_is_receipted_and_delivered_to_nobody() -> None:
    core = connpoint()
    core.on_notifications("exitpoint-1", [notification(3)], 0)
    batch = [notification(2), notification(1, publisher=9), notification(4), notification(2)]
    payloads, _, receipts = core.on_notifications("exitpoint-1", batch, 0)
    assert len(payloads["anna"]) == 2
    assert receipts == [Send("exitpoint-1", [Received(1, ORIGIN, [2, 1, 4, 2], [])])]
    assert core.repeated == 2


def test_an_exit_point_that_forgot_in_a_crash_does_not_turn_back_time() -> None:
    """The first batch matched nobody, its confirmation got lost; then a subscription, the second batch, a crash."""

    def exitpoint() -> ExitPointCore:
        core = ExitPointCore("exitpoint-1", lambda: 999, gathers_max=10, gather_s_max=60.0)
        core.on_connpoints({"connpoint-1": 1, "connpoint-2": 11})
        return core

    def partial(sequence: int, previous: int, ids: list[str]) -> Partial:
        matched: list[tuple[str, list[Match]]] = [("connpoint-1", [(0, ids, b"%d" % sequence)])] if ids else []
        return Partial(1, ORIGIN, sequence, previous, 0, 8, 1, "matcher-1", matched)

    core, before, after = connpoint(), exitpoint(), exitpoint()
    assert before.on_partials([partial(1, 0, [])], 0.0, 0) == [Send("connpoint-2", [Confirmed(1, ORIGIN, [1])])]
    (sent,) = before.on_partials([partial(2, 1, ["s-1"])], 0.0, 0)
    payloads, *_ = core.on_notifications("exitpoint-1", sent.messages, 0)
    assert payloads == {"anna": [b'{"subscriptions":["s-1"],"publication":2}']}

    (sent,) = after.on_partials([partial(1, 0, ["s-1"]), partial(2, 1, ["s-1"])], 9.0, 0)
    payloads, _, (receipt,) = core.on_notifications("exitpoint-1", sent.messages, 0)
    assert payloads == {}
    (confirmed,) = after.on_received("connpoint-1", receipt.messages)
    assert confirmed.messages[0].sequences == [1, 2]


def test_the_memory_of_publishers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "_PRUNE_EVERY", 50)
    latest = Latest()
    for sequence in range(1, 1001):
        latest.advance(sequence - 10)
        assert latest.take(publisher=sequence, sequence=sequence)
        assert not latest.take(publisher=sequence, sequence=sequence)
        assert len(latest) <= 60
    latest.advance(1000)
    assert not latest.take(publisher=1001, sequence=1000)
    assert latest.take(publisher=1001, sequence=1001)


def test_origins_are_apart() -> None:
    batch = [notification(1), notification(1, origin="connpoint-3.c"), notification(2)]
    payloads, _, receipts = connpoint().on_notifications("exitpoint-1", batch, 0)
    assert len(payloads["anna"]) == 3
    assert receipts == [Send("exitpoint-1", [Received(1, ORIGIN, [1, 2], []), Received(1, "connpoint-3.c", [1], [])])]


@pytest.mark.parametrize("ids", [["s-9"], ["s-9", "s-8"]])
def test_subscriptions_that_are_gone_are_counted_and_receipted(ids: list[str]) -> None:
    core = connpoint()
    payloads, _, receipts = core.on_notifications("exitpoint-1", [notification(1, (0, ids, b"{}"))], 0)
    assert payloads == {}
    assert receipts[0].messages[0].sequences == [1]
    assert core.unclaimed == len(ids)


def test_a_trace_ends_here_and_goes_back_with_the_receipt() -> None:
    core = connpoint()
    hops = [("exitpoint-1", 1, 2)]
    _, _, receipts = core.on_notifications("exitpoint-1", [notification(1, hops=hops), notification(2)], 7)
    traced = Received(1, ORIGIN, [1, 2], [(1, [("exitpoint-1", 1, 2), ("connpoint-1", 7, 999)])])
    assert receipts == [Send("exitpoint-1", [traced])]
    _, _, receipts = core.on_notifications("exitpoint-1", [notification(1, hops=hops)], 7)
    assert receipts == [Send("exitpoint-1", [Received(1, ORIGIN, [1], [])])]


def test_the_memory_of_origins_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "_ORIGINS_MAX", 3)
    core = connpoint()
    batch = [notification(1, origin=f"connpoint-2.{n}") for n in range(5)]
    core.on_notifications("exitpoint-1", [*batch, *batch[:1]], 0)
    assert len(core._latest) == 3
    core.on_notifications("exitpoint-1", batch[-1:], 0)
    assert core.repeated >= 1
