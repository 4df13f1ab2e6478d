"""Peers that do not read: given up at the bound, and before that upstream is not read."""

import asyncio

from structlog.testing import capture_logs

from braid import metrics
from tests.service.linked_slices import (
    LIMITS,
    Slice,
    deaf_server,
    fall_silent,
    linked,
    message,
    on_both_loops,
    reasons,
    running,
)
from tests.service.waiting import TIMEOUT_S, until


@on_both_loops
async def test_a_peer_that_does_not_read_is_given_up_at_the_bound() -> None:
    limits = LIMITS.model_copy(update={"buffer_bytes_max": 1 << 20})
    async with running("matcher-1", limits) as matcher, deaf_server("exitpoint-1") as (address, _):
        matcher.pool.retarget({"exitpoint-1": address})
        await until(lambda: matcher.pool.is_linked("exitpoint-1"))
        with capture_logs() as logs:
            for number in range(1000):
                matcher.pool.send("exitpoint-1", [message(number, 100_000)])
                await asyncio.sleep(0)
                if reasons(logs, "link lost"):
                    break
        assert "the peer does not read" in reasons(logs, "link lost")[0]
        await until(lambda: len(matcher.events) >= 3)  # and it is tried again
        assert matcher.events[:3] == [("up", "exitpoint-1"), ("down", "exitpoint-1"), ("up", "exitpoint-1")]


ROOMY = LIMITS.model_copy(update={"buffer_bytes_max": 32 << 20})
CONGESTED_EARLY = LIMITS.model_copy(update={"buffer_bytes_max": 4 << 20})  # so at 1 MiB upstream is not read


async def congest(matcher: Slice, accesspoint: Slice) -> int:
    """Sends to the deaf exit point until the matcher no longer reads from upstream; the number sent."""
    backpressure = metrics.BACKPRESSURE.labels("matcher")._value
    before, sent = backpressure.get(), 0
    while backpressure.get() == before:
        matcher.pool.send("exitpoint-1", [message(sent, 50_000)])
        sent += 1
        await asyncio.sleep(0)
    accesspoint.send(matcher, 1)
    fall_silent(matcher.link_with("accesspoint-1"))
    await asyncio.sleep(3 * LIMITS.heartbeat_s)  # a link that is not read is not silent
    assert matcher.received == []
    assert ("down", "accesspoint-1") not in matcher.events
    return sent


@on_both_loops
async def test_while_downstream_is_full_upstream_is_not_read() -> None:
    async with (
        running("matcher-1", CONGESTED_EARLY, pause_upstream=True) as matcher,
        running("accesspoint-1") as accesspoint,
        deaf_server("exitpoint-1") as (address, readers),
    ):
        await linked(accesspoint, matcher)
        matcher.pool.retarget({"exitpoint-1": address})
        await until(lambda: matcher.pool.is_linked("exitpoint-1"))
        sent = await congest(matcher, accesspoint)
        size = 0
        while size < sent * 50_000:
            size += len(await asyncio.wait_for(readers[0].read(1 << 20), TIMEOUT_S))
        await until(lambda: matcher.received == [1])
        assert matcher.pool.is_linked("exitpoint-1")


@on_both_loops
async def test_a_new_upstream_link_is_not_read_either() -> None:
    async with (
        running("matcher-1", CONGESTED_EARLY, pause_upstream=True) as matcher,
        running("accesspoint-1") as accesspoint,
        running("accesspoint-2") as another,
        deaf_server("exitpoint-1") as (address, readers),
    ):
        await linked(accesspoint, matcher)
        matcher.pool.retarget({"exitpoint-1": address})
        await until(lambda: matcher.pool.is_linked("exitpoint-1"))
        await congest(matcher, accesspoint)
        await linked(another, matcher)
        another.send(matcher, 2)
        await asyncio.sleep(0.05)
        assert matcher.received == []
        readers[0]._transport.abort()  # type: ignore[attr-defined]  # of a stream
        await until(lambda: sorted(matcher.received) == [1, 2])


@on_both_loops
async def test_upstream_is_read_again_when_the_full_link_is_no_longer_needed() -> None:
    """The slice that did not read was replaced by one at another address."""
    async with (
        running("matcher-1", CONGESTED_EARLY, pause_upstream=True) as matcher,
        running("accesspoint-1") as accesspoint,
        running("exitpoint-1") as replacement,
        deaf_server("exitpoint-1") as (address, _),
    ):
        await linked(accesspoint, matcher)
        matcher.pool.retarget({"exitpoint-1": address})
        await until(lambda: matcher.pool.is_linked("exitpoint-1"))
        await congest(matcher, accesspoint)
        matcher.target(replacement)
        await until(lambda: matcher.received == [1])


@on_both_loops
async def test_two_that_send_to_each_other_read_each_other_also_when_both_links_are_full() -> None:
    async with (
        running("matcher-1", ROOMY, pause_upstream=True) as first,
        running("matcher-2", ROOMY, pause_upstream=True) as second,
    ):
        await linked(first, second)
        await linked(second, first)
        for numbers in (range(200), range(200, 300)):
            # What the kernel does not take, and behind it more than a quarter of the bound.
            for number in numbers:
                first.send(second, number, size=100_000)
                second.send(first, number, size=100_000)
            await asyncio.sleep(0)
        await until(lambda: len(first.received) == len(second.received) == 300)


@on_both_loops
async def test_a_peer_that_becomes_a_target_while_downstream_is_full_is_read_again() -> None:
    async with (
        running("matcher-1", CONGESTED_EARLY, pause_upstream=True) as matcher,
        running("accesspoint-1") as accesspoint,
        running("matcher-2") as another,
        deaf_server("exitpoint-1") as (address, _),
    ):
        await linked(accesspoint, matcher)
        await linked(another, matcher)
        matcher.pool.retarget({"exitpoint-1": address})
        await until(lambda: matcher.pool.is_linked("exitpoint-1"))
        await congest(matcher, accesspoint)
        another.send(matcher, 2)
        await asyncio.sleep(0.05)
        assert matcher.received == []
        matcher.pool.retarget({"exitpoint-1": address, "matcher-2": another.address})
        await until(lambda: matcher.received == [2])
