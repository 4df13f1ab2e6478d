"""Links that break: dialled again, replaced, and what is held meanwhile."""

import asyncio

import pytest
from structlog.testing import capture_logs

from braid import links
from braid.codec import encode_frames, encode_hello
from tests.service.linked_slices import (
    LIMITS,
    dropped,
    hello,
    linked,
    message,
    on_both_loops,
    reasons,
    running,
    stranger,
)
from tests.service.waiting import until


@on_both_loops
async def test_a_peer_that_was_started_again_is_linked_again_and_gets_what_was_held_in_order() -> None:
    async with running("matcher-1", held_messages_max=100) as matcher:
        async with running("exitpoint-1") as first:
            await linked(matcher, first)
            matcher.send(first, 0)
            await until(lambda: first.received == [0])
        await until(lambda: not matcher.pool.is_linked("exitpoint-1"))
        for number in range(1, 50):
            matcher.send(first, number)
        async with running("exitpoint-1", port=first.port) as second:
            matcher.on_up = lambda _peer: matcher.send(second, 50)
            await until(lambda: len(second.received) == 50)
            matcher.send(second, 51)
            await until(lambda: len(second.received) == 51)
            assert second.received == list(range(1, 52))
            assert matcher.events == [("up", "exitpoint-1"), ("down", "exitpoint-1"), ("up", "exitpoint-1")]


@on_both_loops
async def test_a_peer_at_another_address_is_linked_there() -> None:
    async with running("matcher-1", held_messages_max=10) as matcher, running("exitpoint-1") as first:
        await linked(matcher, first)
        async with running("exitpoint-1") as second:
            await linked(matcher, second)
            await until(lambda: ("down", "matcher-1") in first.events)
            matcher.send(second, 1)
            await until(lambda: second.received == [1])
            assert first.received == []


@on_both_loops
async def test_beyond_its_bound_what_is_held_is_dropped_and_counted() -> None:
    async with running("holder-1", held_messages_max=3) as holder, running("exitpoint-1") as exitpoint:
        await exitpoint.pool.close()
        holder.target(exitpoint)
        before = dropped("holder", "not linked")
        for number in range(3):
            holder.send(exitpoint, number)
        holder.send(exitpoint, 3, 4)
        assert dropped("holder", "not linked") - before == 2
        async with running("exitpoint-1", port=exitpoint.port) as again:
            await until(lambda: again.received == [0, 1, 2])


@on_both_loops
async def test_what_is_held_fits_into_the_buffer_of_the_link_that_comes() -> None:
    limits = LIMITS.model_copy(update={"buffer_bytes_max": 1 << 16})
    async with running("holder-1", limits, held_messages_max=1000) as holder, running("exitpoint-1") as exitpoint:
        await exitpoint.pool.close()
        holder.target(exitpoint)
        for number in range(10):
            holder.send(exitpoint, number, size=10_000)
        async with running("exitpoint-1", port=exitpoint.port) as again:
            await until(lambda: again.received == [0, 1, 2, 3, 4, 5])
            await asyncio.sleep(0.05)
            assert holder.events == [("up", "exitpoint-1")]


@on_both_loops
async def test_nothing_is_held_for_a_slice_that_is_no_target() -> None:
    async with running("holder-1", held_messages_max=10) as holder, running("exitpoint-1") as exitpoint:
        before = dropped("holder", "not linked")
        holder.send(exitpoint, 1)
        assert dropped("holder", "not linked") - before == 1


@on_both_loops
async def test_what_is_sent_before_it_is_known_where_a_slice_is_waits_for_that() -> None:
    """As when a configuration is heard of before the registration of who has a part in it."""
    async with running("connpoint-1", held_messages_max=10) as connpoint, running("accesspoint-2") as new:
        connpoint.pool.retarget({}, awaited=[new.name])
        connpoint.send(new, 1)
        connpoint.pool.retarget({}, awaited=[new.name])
        connpoint.send(new, 2)
        assert not connpoint.pool.is_linked(new.name)
        await linked(connpoint, new)
        connpoint.send(new, 3)
        await until(lambda: new.received == [1, 2, 3])


@on_both_loops
async def test_what_waits_for_a_slice_that_does_not_register_is_dropped_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever registers then is another process than the one that was meant."""
    monkeypatch.setattr(links, "AWAITED_S_MAX", 0.05)
    async with running("connpoint-1", held_messages_max=10) as connpoint, running("accesspoint-2") as late:
        before = dropped("connpoint", "not linked")
        connpoint.pool.retarget({}, awaited=[late.name])
        connpoint.send(late, 1)
        connpoint.send(late, 2)
        await until(lambda: dropped("connpoint", "not linked") - before == 2)
        connpoint.pool.retarget({}, awaited=[late.name])
        connpoint.send(late, 3)
        assert dropped("connpoint", "not linked") - before == 3
        await linked(connpoint, late)
        connpoint.send(late, 4)
        await until(lambda: late.received == [4])
        await asyncio.sleep(0.1)  # nobody gives up who is linked
        assert connpoint.pool.is_linked(late.name)


@on_both_loops
async def test_nothing_is_held_for_a_slice_whose_registration_is_gone() -> None:
    """Whoever comes in its place gets everything again, by the retry loop."""
    async with running("connpoint-1", held_messages_max=10) as connpoint, running("accesspoint-1") as first:
        await linked(connpoint, first)
        connpoint.pool.retarget({}, awaited=[first.name])
        await until(lambda: ("down", "connpoint-1") in first.events)
        before = dropped("connpoint", "not linked")
        connpoint.pool.retarget({}, awaited=[first.name])
        connpoint.send(first, 1)
        assert dropped("connpoint", "not linked") - before == 1
        connpoint.pool.retarget({})  # it has no part any more; then it has one again
        connpoint.pool.retarget({}, awaited=[first.name])
        connpoint.send(first, 2)
        await linked(connpoint, first)
        await until(lambda: first.received == [2])


@on_both_loops
async def test_what_waits_for_a_slice_that_is_no_longer_awaited_is_forgotten() -> None:
    async with running("connpoint-1", held_messages_max=10) as connpoint, running("accesspoint-2") as new:
        connpoint.pool.retarget({}, awaited=[new.name])
        connpoint.send(new, 1)
        connpoint.pool.retarget({})
        await linked(connpoint, new)
        connpoint.send(new, 2)
        await until(lambda: new.received == [2])


@on_both_loops
async def test_dials_that_fail_leave_nothing_behind() -> None:
    async with running("matcher-1") as matcher, running("exitpoint-1") as exitpoint:
        await exitpoint.pool.close()
        matcher.target(exitpoint)
        await asyncio.sleep(0.15)
        assert len(matcher.pool._all) <= 1
        matcher.target()
        await asyncio.sleep(0.01)
        assert matcher.pool._all == set()


@on_both_loops
async def test_a_newer_link_of_the_same_slice_replaces_the_older_one() -> None:
    """As after a break that only one end noticed: the peer is there all the time."""
    async with running("connpoint-1") as connpoint, stranger(connpoint) as older, stranger(connpoint) as newer:
        older.send(encode_hello(hello("exitpoint-1")))
        await until(lambda: connpoint.events)
        newer.send(encode_hello(hello("exitpoint-1")))
        assert await older.closed()
        newer.send(encode_frames([message(1)], 1 << 20)[0])
        await until(lambda: connpoint.received == [1])
        assert connpoint.events[-1] == ("up", "exitpoint-1")
        assert ("down", "exitpoint-1") not in connpoint.events
        newer.writer.close()
        await until(lambda: connpoint.events[-1] == ("down", "exitpoint-1"))


@on_both_loops
async def test_a_slice_that_is_no_longer_a_target_is_let_go() -> None:
    async with running("matcher-1") as matcher, running("exitpoint-1") as exitpoint:
        await linked(matcher, exitpoint)
        matcher.target()
        await until(lambda: ("down", "matcher-1") in exitpoint.events)
        await until(lambda: ("down", "exitpoint-1") in matcher.events)
        await asyncio.sleep(0.05)
        assert matcher.events == [("up", "exitpoint-1"), ("down", "exitpoint-1")]


@on_both_loops
async def test_another_slice_at_the_address_is_refused() -> None:
    async with running("matcher-1") as matcher, running("exitpoint-2") as other:
        with capture_logs() as logs:
            matcher.pool.retarget({"exitpoint-1": other.address})
            await until(lambda: reasons(logs, "link lost"))
        assert reasons(logs, "link lost")[0] == "expected another slice at this address than exitpoint-2"
        assert not matcher.pool.is_linked("exitpoint-1")
        assert matcher.events == []
