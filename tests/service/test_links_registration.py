"""A slice answers and dials only while it is registered."""

import asyncio

from structlog.testing import capture_logs

from braid.codec import encode_frames, encode_hello
from tests.service.linked_slices import hello, linked, message, on_both_loops, reasons, running, stranger
from tests.service.waiting import until


@on_both_loops
async def test_a_slice_without_a_registration_has_no_links() -> None:
    async with (
        running("matcher-1") as matcher,
        running("exitpoint-1") as exitpoint,
        running("accesspoint-1") as accesspoint,
    ):
        await linked(accesspoint, matcher)
        await linked(matcher, exitpoint)
        with capture_logs() as logs:
            matcher.pool.stop_answering("the session is lost")
            await until(lambda: ("down", "accesspoint-1") in matcher.events)
            await until(lambda: ("down", "matcher-1") in exitpoint.events)
        assert set(reasons(logs, "link lost")) >= {"the session is lost"}
        events = len(matcher.events)
        await asyncio.sleep(0.12)  # accesspoint-1 dials again and again
        assert not matcher.pool.is_linked("exitpoint-1")
        assert len(matcher.events) == events
        matcher.pool.answer_again()
        await until(lambda: matcher.pool.is_linked("exitpoint-1"))
        await until(lambda: matcher.events[events:].count(("up", "accesspoint-1")) == 1)
        accesspoint.send(matcher, 1)
        matcher.send(exitpoint, 2)
        await until(lambda: matcher.received == [1] and exitpoint.received == [2])


@on_both_loops
async def test_what_comes_together_with_the_handshake_of_a_refused_link_is_not_delivered() -> None:
    async with running("matcher-1") as matcher:
        matcher.pool.stop_answering("the session is lost")
        async with stranger(matcher) as peer:
            peer.send(encode_hello(hello("accesspoint-1")) + encode_frames([message(1)], 1 << 20)[0])
            assert await peer.closed()
        assert (matcher.received, matcher.events) == ([], [])


@on_both_loops
async def test_closing_tells_the_owner_and_the_peers() -> None:
    async with running("exitpoint-1") as exitpoint:
        async with running("matcher-1") as matcher:
            await linked(matcher, exitpoint)
        await until(lambda: ("down", "matcher-1") in exitpoint.events)
        await until(lambda: ("down", "exitpoint-1") in matcher.events)
