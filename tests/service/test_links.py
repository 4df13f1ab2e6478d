"""Two slices that get on well, linked over real TCP: what is sent arrives, in order."""

import asyncio

import pytest
from structlog.testing import capture_logs

from braid.link import DELIVERED_MAX
from tests.service.linked_slices import dropped, hear_more, linked, message, on_both_loops, running
from tests.service.waiting import until


@on_both_loops
async def test_both_sides_learn_who_the_other_is() -> None:
    async with running("matcher-1") as matcher, running("exitpoint-1") as exitpoint:
        matcher.target(exitpoint)
        assert not matcher.pool.is_linked("exitpoint-1")
        await linked(matcher, exitpoint)
        assert matcher.events == [("up", "exitpoint-1")]
        assert exitpoint.events == [("up", "matcher-1")]
        assert not exitpoint.pool.is_linked("matcher-1")  # accepted, not dialled


@on_both_loops
async def test_messages_arrive_in_order_both_ways() -> None:
    async with running("matcher-1") as matcher, running("exitpoint-1") as exitpoint:
        await linked(matcher, exitpoint)
        for number in range(2000):
            matcher.send(exitpoint, number, size=100)
            exitpoint.send(matcher, number)
            if number % 100 == 0:
                await asyncio.sleep(0)
        await until(lambda: len(exitpoint.received) == 2000 and len(matcher.received) == 2000)
        assert exitpoint.received == matcher.received == list(range(2000))


@on_both_loops
async def test_whatever_is_ready_in_one_turn_is_one_write() -> None:
    async with running("matcher-1") as matcher, running("exitpoint-1") as exitpoint:
        await linked(matcher, exitpoint)
        for number in range(DELIVERED_MAX):
            matcher.send(exitpoint, number)
        await until(lambda: len(exitpoint.received) == DELIVERED_MAX)
        assert exitpoint.batches == [list(range(DELIVERED_MAX))]


@on_both_loops
async def test_everybody_has_a_turn_while_very_many_messages_are_delivered() -> None:
    """One read brings thousands. They arrive in order, and nobody waits for all of them."""
    async with running("matcher-1") as matcher, running("exitpoint-1") as exitpoint:
        await linked(matcher, exitpoint)
        matcher.send(exitpoint, *range(5000))
        await until(lambda: len(exitpoint.received) == 5000)
        assert exitpoint.received == list(range(5000))
        assert max(map(len, exitpoint.batches)) <= DELIVERED_MAX
        matcher.send(exitpoint, 5000)
        await until(lambda: len(exitpoint.received) == 5001)  # it is read again


@on_both_loops
async def test_what_waits_for_its_turn_is_lost_with_the_link() -> None:
    async with running("matcher-1") as matcher, running("exitpoint-1") as exitpoint:
        await linked(matcher, exitpoint)
        link = exitpoint.link_with("matcher-1")
        exitpoint.on_message = lambda _number: link.close("because")
        matcher.send(exitpoint, *range(5000))
        await until(lambda: ("down", "matcher-1") in exitpoint.events)
        assert exitpoint.received == list(range(DELIVERED_MAX))


@on_both_loops
async def test_what_was_sent_arrives_although_the_link_is_let_go() -> None:
    """An acknowledgement, say: whoever waits for it would wait for ever."""
    async with running("matcher-1") as matcher, running("exitpoint-1") as exitpoint:
        await linked(matcher, exitpoint)
        matcher.send(exitpoint, *range(3000), size=1000)
        matcher.pool.retarget({})
        await until(lambda: ("down", "matcher-1") in exitpoint.events)
        assert exitpoint.received == list(range(3000))


@on_both_loops
async def test_it_arrives_also_while_the_peer_goes_on_speaking() -> None:
    """To what comes for a socket that is closed, the system answers with a reset, and forgets what it was to send."""
    async with running("matcher-1") as matcher, running("exitpoint-1") as exitpoint:
        await linked(matcher, exitpoint)
        exitpoint.on_message = lambda number: exitpoint.send(matcher, number)
        matcher.send(exitpoint, *range(3000), size=1000)
        matcher.pool.retarget({})
        await until(lambda: ("down", "matcher-1") in exitpoint.events)
        assert exitpoint.received == list(range(3000))
        await until(lambda: not matcher.pool._all)


@on_both_loops
async def test_a_batch_longer_than_a_frame_arrives_whole() -> None:
    async with running("matcher-1") as matcher, running("exitpoint-1") as exitpoint:
        await linked(matcher, exitpoint)
        matcher.send(exitpoint, *range(40), size=100_000)
        await until(lambda: len(exitpoint.received) == 40)
        assert exitpoint.received == list(range(40))


@on_both_loops
async def test_idle_links_live_on_heartbeats() -> None:
    async with running("matcher-1") as matcher, running("exitpoint-1") as exitpoint:
        await linked(matcher, exitpoint)
        for _ in range(3):
            await hear_more(matcher.link_with("exitpoint-1"), exitpoint.link_with("matcher-1"))
        assert matcher.events == [("up", "exitpoint-1")]


@on_both_loops
async def test_a_message_longer_than_a_frame_arrives_in_its_place() -> None:
    async with running("matcher-1") as matcher, running("exitpoint-1") as exitpoint:
        await linked(matcher, exitpoint)
        matcher.pool.send("exitpoint-1", [message(1), message(2, 2 << 20), message(3)])
        matcher.send(exitpoint, 4)
        await until(lambda: len(exitpoint.received) == 4)
        assert exitpoint.received == [1, 2, 3, 4]


@on_both_loops
async def test_a_message_that_is_too_long_is_dropped_and_the_others_arrive() -> None:
    async with running("oversize-1") as sender, running("exitpoint-1") as exitpoint:
        await linked(sender, exitpoint)
        before = dropped("oversize", "too long")
        with capture_logs() as logs, pytest.MonkeyPatch.context() as patch:
            patch.setattr("braid.codec.MESSAGE_BYTES_MAX", 1 << 20)
            sender.pool.send("exitpoint-1", [message(1), message(2, 2 << 20), message(3)])
        sender.send(exitpoint, 4)
        await until(lambda: len(exitpoint.received) == 3)
        assert exitpoint.received == [1, 3, 4]
        assert [entry["log_level"] for entry in logs] == ["error"]
        assert dropped("oversize", "too long") - before == 1


@on_both_loops
async def test_a_handler_that_fails_costs_its_messages_and_not_the_link() -> None:
    async with running("matcher-1") as matcher, running("failing-1") as failing:
        await linked(matcher, failing)
        before = dropped("failing", "handler failed")

        def fail(number: int) -> None:
            if number == 1:
                raise RuntimeError("our own mistake")

        failing.on_message = fail
        with capture_logs() as logs:
            matcher.send(failing, 1)
            await until(lambda: failing.received == [1])
        matcher.send(failing, 2)
        await until(lambda: failing.received == [1, 2])
        assert "messages could not be handled" in [entry["event"] for entry in logs]
        assert dropped("failing", "handler failed") - before == 1
        assert failing.events == [("up", "matcher-1")]
