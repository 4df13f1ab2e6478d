"""Live connections and their outboxes: waiting, replaced, slow, away, gone."""

import asyncio
from typing import Any

from braid.config import Delivery
from services.connpoint.streams import LiveAttachment, Streams
from tests.service.waiting import TIMEOUT_S


class Cluster:
    """Streams with small bounds, and who was reported gone."""

    def __init__(self, **changes: Any) -> None:
        given: dict[str, Any] = {"outbox_notifications_max": 3, "linger_s": 60.0}
        self.gone: list[str] = []
        self.streams = Streams(0xA, Delivery(**given | changes), self.gone.append)
        self.started_s = asyncio.get_running_loop().time()

    def attach(self, subscriber: str = "anna", temporary: bool = False, event: str | None = None) -> LiveAttachment:
        return self.streams.attach(subscriber, temporary, event, self.started_s)

    def deliver(self, *payloads: bytes, to: str = "anna") -> None:
        self.streams.deliver({to: list(payloads)}, self.started_s)

    def tick(self, after_s: float) -> None:
        self.streams.on_tick(self.started_s + after_s)


async def take(attachment: LiveAttachment) -> list[bytes]:
    return [item.payload for item in await asyncio.wait_for(attachment.take(100), TIMEOUT_S)]


async def test_take_waits_until_there_is_something() -> None:
    cluster = Cluster()
    attachment = cluster.attach()
    taking = asyncio.create_task(take(attachment))
    await asyncio.sleep(0)
    assert not taking.done()
    cluster.deliver(b"1", b"2")
    assert await taking == [b"1", b"2"]


async def test_take_gives_at_most_what_is_asked_for_in_order() -> None:
    cluster = Cluster()
    attachment = cluster.attach()
    cluster.deliver(b"1", b"2", b"3")
    assert [item.number for item in await attachment.take(2)] == [1, 2]
    assert attachment.event_id(2) == "a.1-2"
    assert await take(attachment) == [b"3"]


async def test_each_subscriber_has_its_own_outbox() -> None:
    cluster = Cluster()
    anna, bert = cluster.attach("anna"), cluster.attach("bert")
    cluster.streams.deliver({"anna": [b"a"], "bert": [b"b"]}, 0.0)
    assert await take(bert) == [b"b"]
    assert await take(anna) == [b"a"]


async def test_a_newer_connection_replaces_the_older_one_and_goes_on() -> None:
    cluster = Cluster()
    older = cluster.attach()
    cluster.deliver(b"1")
    assert await take(older) == [b"1"]
    taking = asyncio.create_task(take(older))
    await asyncio.sleep(0)
    newer = cluster.attach()
    assert await taking == []
    assert older.closed is not None
    assert older.closed.reason == "replaced"
    older.detach()  # the end of the old connection is not the end of the new one
    cluster.deliver(b"2")
    assert await take(newer) == [b"2"]
    assert newer.closed is None


async def test_a_slow_subscriber_is_disconnected_and_told_what_it_lost() -> None:
    cluster = Cluster()
    attachment = cluster.attach()
    cluster.deliver(b"1", b"2", b"3", b"4", b"5")
    assert await take(attachment) == []
    assert attachment.closed is not None
    assert attachment.closed.reason == "slow"
    again = cluster.attach()
    assert again.gap == "2 notifications were dropped while nobody took them"
    assert await take(again) == [b"3", b"4", b"5"]


async def test_a_slow_subscriber_loses_the_oldest_when_the_policy_says_so() -> None:
    cluster = Cluster(slow_subscriber="drop-oldest")
    attachment = cluster.attach()
    cluster.deliver(b"1", b"2", b"3", b"4", b"5")
    assert (attachment.closed, attachment.lost(), attachment.lost()) == (None, 2, 0)
    assert await take(attachment) == [b"3", b"4", b"5"]


async def test_what_comes_while_it_is_away_waits() -> None:
    cluster = Cluster()
    cluster.attach().detach()
    cluster.deliver(b"1", b"2")
    cluster.tick(59.0)
    again = cluster.attach()
    assert again.gap == ""
    assert await take(again) == [b"1", b"2"]


async def test_an_event_id_brings_back_what_was_on_its_way() -> None:
    cluster = Cluster()
    attachment = cluster.attach()
    cluster.deliver(b"1", b"2", b"3")
    await take(attachment)
    attachment.detach()
    again = cluster.attach(event=attachment.event_id(1))
    assert again.gap == ""
    assert await take(again) == [b"2", b"3"]


async def test_a_temporary_subscriber_that_stays_away_is_gone() -> None:
    cluster = Cluster()
    attachment = cluster.attach(temporary=True)
    cluster.tick(100.0)
    assert cluster.gone == []
    attachment.detach()
    cluster.tick(59.0)
    assert cluster.gone == []
    cluster.tick(161.5)
    cluster.tick(163.0)
    assert cluster.gone == ["anna"]


async def test_a_named_subscriber_that_stays_away_falls_dormant_and_is_told() -> None:
    cluster = Cluster()
    cluster.attach().detach()
    cluster.deliver(b"1", b"2")
    cluster.tick(61.0)
    assert cluster.gone == []
    cluster.deliver(b"3")
    again = cluster.attach()
    assert again.gap == "3 notifications were dropped while nobody took them"
    cluster.deliver(b"4")
    assert await take(again) == [b"4"]


async def test_one_that_came_back_in_time_does_not_fall_dormant() -> None:
    cluster = Cluster()
    cluster.attach().detach()
    attachment = cluster.attach()
    cluster.tick(1000.0)
    cluster.deliver(b"1")
    assert await take(attachment) == [b"1"]


async def test_a_subscriber_nobody_has_seen_yet_is_dormant() -> None:
    cluster = Cluster()
    cluster.deliver(b"1")
    assert cluster.attach().gap == "1 notifications were dropped while nobody took them"


async def test_one_with_a_subscription_but_no_connection_yet_is_waited_for() -> None:
    cluster = Cluster()
    cluster.streams.expect("anna", False, cluster.started_s)
    cluster.deliver(b"1")
    attachment = cluster.attach()
    assert attachment.gap == ""
    assert await take(attachment) == [b"1"]


async def test_all_outboxes_together_are_bounded_and_the_largest_pays() -> None:
    cluster = Cluster(outbox_notifications_max=100, outbox_bytes_max=1 << 20, total_bytes_max=1 << 20)
    small, large = cluster.attach("small"), cluster.attach("large")
    cluster.deliver(b"x" * 300_000, to="small")
    cluster.deliver(b"x" * 900_000, to="large")
    cluster.tick(1.0)
    assert large.closed is not None
    assert large.closed.reason == "slow"
    assert small.closed is None
    assert len((await take(small))[0]) == 300_000
    assert cluster.attach("large").gap == "1 notifications were dropped while nobody took them"


async def test_what_was_sent_already_goes_first_when_memory_is_short() -> None:
    cluster = Cluster(outbox_notifications_max=100, outbox_bytes_max=1 << 20, total_bytes_max=1 << 20)
    taker, waiter = cluster.attach("taker"), cluster.attach("waiter")
    cluster.deliver(b"x" * 900_000, to="taker")
    await take(taker)
    cluster.deliver(b"x" * 900_000, to="waiter")
    cluster.tick(1.0)
    assert (taker.closed, waiter.closed) == (None, None)
    assert cluster.attach("taker", event=taker.event_id(0)).gap == "1 notifications after that event are gone"


async def test_a_temporary_subscriber_whose_outbox_was_let_go_is_gone_too_when_it_stays_away() -> None:
    cluster = Cluster(outbox_notifications_max=100, outbox_bytes_max=4 << 20, total_bytes_max=1 << 20)
    attachment = cluster.attach(temporary=True)
    cluster.deliver(b"x" * 2_000_000)
    cluster.tick(1.0)
    assert attachment.closed is not None
    cluster.tick(62.0)
    assert cluster.gone == ["anna"]


async def test_bounds_are_looked_at_once_a_second() -> None:
    cluster = Cluster(linger_s=0.0)
    cluster.tick(0.1)
    cluster.attach().detach()
    cluster.deliver(b"1")
    cluster.tick(1.0)
    assert cluster.attach().gap == ""
    cluster.attach().detach()
    cluster.tick(1.2)
    assert cluster.attach().gap == "1 notifications were dropped while nobody took them"


async def test_close_all_ends_every_connection() -> None:
    cluster = Cluster()
    anna, bert = cluster.attach("anna"), cluster.attach("bert")
    taking = asyncio.create_task(take(anna))
    await asyncio.sleep(0)
    cluster.streams.close_all("stopping", "the connection point is stopping")
    assert await taking == []
    assert await take(bert) == []
    assert [attachment.closed.reason for attachment in (anna, bert) if attachment.closed] == ["stopping", "stopping"]


async def test_after_forget_all_no_event_can_be_resumed_from() -> None:
    cluster = Cluster()
    attachment = cluster.attach()
    cluster.deliver(b"1")
    await take(attachment)
    cluster.streams.close_all("unavailable", "lost its place")
    cluster.streams.forget_all()
    again = cluster.attach(event=attachment.event_id(1))
    assert again.gap == "notifications after that event are gone: the event is not known here"
    cluster.deliver(b"2")
    assert await take(again) == [b"2"]
    assert again.event_id(1) != attachment.event_id(1)


async def test_a_subscriber_without_subscriptions_is_let_go_unless_it_is_connected() -> None:
    cluster = Cluster()
    attachment = cluster.attach()
    cluster.deliver(b"1")
    cluster.streams.let_go("anna")
    assert await take(attachment) == [b"1"]
    attachment.detach()
    cluster.streams.let_go("anna")
    again = cluster.attach(event=attachment.event_id(1))
    assert "not known here" in again.gap
