"""Deliveries to a subscription that is being given its past: exact payloads, and every notification is receipted."""

import pytest

from braid.messages import Kept, Match, Notifications, Received, Send
from services.connpoint.catching_up import TooMuchHeldError
from services.connpoint.delivery import DeliveryCore
from services.connpoint.remembered import REMEMBERED_S_MAX
from tests.core.kept_cases import ORIGIN, kept

NOW_S = 100.0


def connpoint(held_max: int = 10) -> DeliveryCore:
    core = DeliveryCore("connpoint-1", lambda: 999, held_max)
    core.subscribers.update({"s-1": "anna", "s-2": "anna", "s-3": "bert"})
    return core


def notify(
    core: DeliveryCore, sequence: int, *matches: Match, watermark: int = 0
) -> tuple[dict[str, list[bytes]], list[Send]]:
    message = Notifications(1, ORIGIN, sequence, watermark, 8, list(matches) or [(0, ["s-1"], b"%d.0" % sequence)])
    payloads, _, receipts = core.on_notifications("exitpoint-1", [message], 0)
    return payloads, receipts


def give_past(core: DeliveryCore, id: str, past: list[Kept], now_s: float) -> list[bytes]:
    return [payload for part in core.give_past(id, past, lambda: now_s) for payload in part.contents]


def payload(content: bytes, *ids: str) -> bytes:
    return b'{"subscriptions":["%b"],"publication":%b}' % ('","'.join(ids or ("s-1",)).encode(), content)


def test_what_is_held_is_receipted_and_delivered_behind_the_past() -> None:
    core = connpoint()
    core.catching_up.begin("s-1", core.subscribers["s-1"])
    assert notify(core, 7) == ({}, [Send("exitpoint-1", [Received(1, ORIGIN, [7], [])])])
    past = [kept(6), kept(5, 2)]
    assert give_past(core, "s-1", past, NOW_S) == [payload(b"5.2"), payload(b"6.0"), payload(b"7.0")]
    assert notify(core, 8)[0] == {"anna": [payload(b"8.0")]}


def test_other_subscriptions_of_the_same_publication_are_delivered_at_once() -> None:
    core = connpoint()
    core.catching_up.begin("s-1", core.subscribers["s-1"])
    payloads, _ = notify(core, 7, (0, ["s-1", "s-3", "s-2"], b"{}"), (1, ["s-1"], b"{}"), (4, ["s-3"], b"[]"))
    assert payloads == {"anna": [payload(b"{}", "s-2")], "bert": [payload(b"{}", "s-3"), payload(b"[]", "s-3")]}
    assert give_past(core, "s-1", [], NOW_S) == [payload(b"{}"), payload(b"{}")]
    assert core.unclaimed == 0


def test_what_was_given_with_the_past_is_not_delivered_again() -> None:
    core = connpoint()
    core.catching_up.begin("s-1", core.subscribers["s-1"])
    give_past(core, "s-1", [kept(7, 1), kept(7)], NOW_S)
    payloads, receipts = notify(core, 7, (0, ["s-1", "s-2"], b"7.0"), (1, ["s-1"], b"7.1"), (2, ["s-1"], b"7.2"))
    assert payloads == {"anna": [payload(b"7.0", "s-2"), payload(b"7.2")]}
    assert receipts == [Send("exitpoint-1", [Received(1, ORIGIN, [7], [])])]
    assert core.catching_up.is_idle


def test_what_the_watermark_has_passed_is_forgotten_with_time() -> None:
    core = connpoint()
    core.catching_up.begin("s-1", core.subscribers["s-1"])
    give_past(core, "s-1", [kept(7), kept(8), kept(9, origin="connpoint-9.z")], NOW_S)
    core.on_tick(NOW_S)
    assert core.catching_up.remembered == 3  # of these origins nothing was heard yet
    notify(core, 10, (0, ["s-2"], b"{}"), watermark=7)
    core.on_tick(NOW_S)
    assert core.catching_up.remembered == 2
    core.on_tick(NOW_S + REMEMBERED_S_MAX + 1)
    assert core.catching_up.is_idle


def test_a_repeated_notification_is_not_held_again() -> None:
    core = connpoint()
    core.catching_up.begin("s-1", core.subscribers["s-1"])
    notify(core, 7)
    notify(core, 7)
    assert give_past(core, "s-1", [], NOW_S) == [payload(b"7.0")]


def test_too_much_meanwhile_is_said() -> None:
    core = connpoint(held_max=2)
    core.catching_up.begin("s-1", core.subscribers["s-1"])
    for sequence in range(1, 4):
        notify(core, sequence)
    with pytest.raises(TooMuchHeldError):
        give_past(core, "s-1", [], NOW_S)
