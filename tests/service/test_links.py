"""Links over real TCP: order, reconnecting, bounds, and peers that are not what they should be."""

import asyncio
import inspect
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop
from structlog.testing import capture_logs

from braid import metrics
from braid.codec import HEARTBEAT, PROTOCOL, PROTOCOL_VERSION, Hello, encode_frames, encode_hello
from braid.config import Links
from braid.links import LinkPool
from braid.messages import AnyMessage, Unsubscribe
from tests.service.waiting import until

LIMITS = Links(
    frame_bytes_max=1 << 20,
    handshake_s=0.5,
    heartbeat_s=0.04,
    silence_s=0.6,
    backoff_s_min=0.01,
    backoff_s_max=0.05,
)


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Slices run on uvloop, tests of others on asyncio; the two differ in when they call what.

    Much of this is waiting, so a quick run does it only on the loop of the slices.
    """

    def run_test(run: Callable[[Coroutine[Any, Any, None]], None], **arguments: Any) -> None:
        run(test(**arguments))

    signature = inspect.signature(test)
    run = inspect.Parameter("run", inspect.Parameter.KEYWORD_ONLY)
    on_asyncio = pytest.param(asyncio.run, id="asyncio", marks=pytest.mark.slow)
    loops = pytest.mark.parametrize("run", [on_asyncio, pytest.param(uvloop.run, id="uvloop")])
    vars(run_test).update(
        __name__=test.__name__,
        __doc__=test.__doc__,
        __signature__=signature.replace(parameters=[*signature.parameters.values(), run]),
        pytestmark=[*getattr(test, "pytestmark", []), loops.mark],
    )
    return run_test


def hello(name: str, **changes: Any) -> Hello:
    given: dict[str, Any] = {"protocol": PROTOCOL, "version": PROTOCOL_VERSION, "cluster": "test"}
    return Hello(**given | {"name": name, "layer": name.partition("-")[0], "incarnation": 1} | changes)


def message(number: int, size: int = 0) -> Unsubscribe:
    return Unsubscribe(1, number, "connpoint-1", "x" * size)


class Slice:
    """One slice's pool of links, and everything it was told."""

    def __init__(self, name: str, limits: Links = LIMITS, **options: Any) -> None:
        self.name = name
        self.pool = LinkPool(self, hello(name), limits, **options)
        self.port = 0
        self.events: list[tuple[str, str]] = []
        self.batches: list[list[int]] = []
        self.on_up: Callable[[Hello], None] = lambda _peer: None
        self.on_message: Callable[[int], None] = lambda _number: None

    def on_peer_up(self, peer: Hello) -> None:
        self.events.append(("up", peer.name))
        self.on_up(peer)

    def on_peer_down(self, peer: Hello) -> None:
        self.events.append(("down", peer.name))

    def on_messages(self, peer: Hello, messages: list[AnyMessage]) -> None:
        numbers = [m.ref for m in messages if isinstance(m, Unsubscribe)]
        self.batches.append(numbers)
        for number in numbers:
            self.on_message(number)

    @property
    def received(self) -> list[int]:
        return [number for batch in self.batches for number in batch]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def target(self, *others: "Slice") -> None:
        self.pool.retarget({other.name: other.address for other in others})

    def send(self, to: "Slice", *numbers: int, size: int = 0) -> None:
        self.pool.send(to.name, [message(number, size) for number in numbers])


@asynccontextmanager
async def running(name: str, limits: Links = LIMITS, port: int = 0, **options: Any) -> AsyncIterator[Slice]:
    slice = Slice(name, limits, **options)
    slice.port = await slice.pool.listen("127.0.0.1", port)
    try:
        yield slice
    finally:
        await slice.pool.close()
        await asyncio.sleep(0)


async def linked(upstream: Slice, downstream: Slice) -> None:
    upstream.target(downstream)
    await until(lambda: upstream.pool.is_linked(downstream.name) and ("up", upstream.name) in downstream.events)


class Stranger:
    """A peer made by hand: bytes go out exactly as given."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def closed(self) -> bool:
        """Reads on until the other end hangs up."""
        try:
            while await asyncio.wait_for(self.reader.read(1 << 16), 5):
                pass
        except ConnectionError:
            pass
        return True


@asynccontextmanager
async def stranger(to: Slice) -> AsyncIterator[Stranger]:
    reader, writer = await asyncio.open_connection("127.0.0.1", to.port)
    try:
        yield Stranger(reader, writer)
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


@asynccontextmanager
async def deaf_server(name: str) -> AsyncIterator[tuple[str, list[asyncio.StreamReader]]]:
    """A downstream slice that shakes hands and then reads only when the test does."""
    readers: list[asyncio.StreamReader] = []
    writers: list[asyncio.StreamWriter] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(encode_hello(hello(name)))
        readers.append(reader)
        writers.append(writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=1 << 12)
    beating = asyncio.create_task(_beat(writers))
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", readers
    finally:
        beating.cancel()
        for writer in writers:
            writer.transport.abort()
        server.close()
        await asyncio.sleep(0)


async def _beat(writers: list[asyncio.StreamWriter]) -> None:
    while True:
        await asyncio.sleep(0.05)
        for writer in writers:
            writer.write(HEARTBEAT)


def reasons(logs: list[Any], event: str) -> list[str]:
    return [entry["reason"] for entry in logs if entry["event"] == event]


def dropped(layer: str, reason: str) -> float:
    value: float = metrics.MESSAGES_DROPPED.labels(layer, reason)._value.get()
    return value


# Two slices that get on well


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
        for number in range(100):
            matcher.send(exitpoint, number)
        await until(lambda: len(exitpoint.received) == 100)
        assert exitpoint.batches == [list(range(100))]


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
        await asyncio.sleep(LIMITS.silence_s + 0.1)
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


# Links that break


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


# Peers that are not what they should be


FOREIGN = {
    "another cluster": (encode_hello(hello("exitpoint-9", cluster="other")), "the peer belongs to cluster 'other'"),
    "another version": (encode_hello(hello("exitpoint-9", version=99)), "the peer speaks version 99"),
    "another protocol": (encode_hello(hello("exitpoint-9", protocol="amqp")), "the peer speaks 'amqp'"),
    "HTTP": (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "a frame of 1195725856 bytes"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "a frame of 369295618 bytes"),
    "a heartbeat first": (HEARTBEAT, "no handshake"),
    "messages first": (encode_frames([message(1)], 1 << 20)[0], "no handshake"),
    "nothing": (b"", "no handshake in time"),
    "half a handshake": (encode_hello(hello("exitpoint-9"))[:20], "no handshake in time"),
}


@on_both_loops
@pytest.mark.parametrize("name", FOREIGN)
async def test_a_foreign_peer_is_refused_with_a_reason_and_others_go_on(name: str) -> None:
    data, reason = FOREIGN[name]
    async with running("connpoint-1") as connpoint, running("exitpoint-1") as exitpoint:
        await linked(exitpoint, connpoint)
        with capture_logs() as logs:
            async with stranger(connpoint) as peer:
                peer.send(data)
                assert await peer.closed()
                await until(lambda: reasons(logs, "link refused"))
        assert reasons(logs, "link refused")[0].startswith(reason)
        exitpoint.send(connpoint, 1)
        await until(lambda: connpoint.received == [1])
        assert connpoint.events == [("up", "exitpoint-1")]


SPOILT = {
    "too long a frame": (struct.pack(">I", (1 << 20) + 1), "a frame of 1048577 bytes; at most 1048576 are allowed"),
    "garbage": (struct.pack(">I", 3) + b"\xc1\xc1\xc1", "a frame that is not a list of messages"),
    "half a frame and silence": (struct.pack(">I", 100) + b"\x91", "nothing heard for"),
    "silence": (b"", "nothing heard for"),
}


@on_both_loops
@pytest.mark.parametrize("name", SPOILT)
async def test_a_link_that_spoils_is_closed_with_a_reason_and_others_go_on(name: str) -> None:
    data, reason = SPOILT[name]
    async with running("connpoint-1") as connpoint, running("exitpoint-1") as exitpoint:
        await linked(exitpoint, connpoint)
        with capture_logs() as logs:
            async with stranger(connpoint) as peer:
                peer.send(encode_hello(hello("exitpoint-9")) + encode_frames([message(7)], 1 << 20)[0])
                await until(lambda: connpoint.received == [7])
                peer.send(data)
                assert await peer.closed()
                await until(lambda: reasons(logs, "link lost"))
        assert reasons(logs, "link lost")[0].startswith(reason)
        exitpoint.send(connpoint, 8)
        await until(lambda: connpoint.received == [7, 8])
        assert connpoint.events == [("up", "exitpoint-1"), ("up", "exitpoint-9"), ("down", "exitpoint-9")]


@on_both_loops
async def test_garbage_right_behind_the_handshake() -> None:
    async with running("connpoint-1") as connpoint, stranger(connpoint) as peer:
        with capture_logs() as logs:
            peer.send(encode_hello(hello("exitpoint-9")) + struct.pack(">I", 1) + b"\xc1")
            assert await peer.closed()
            await until(lambda: reasons(logs, "link lost"))
        assert connpoint.received == []


# Peers that do not read


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
    await asyncio.sleep(LIMITS.silence_s + 0.1)  # a link that is not read is not silent
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
            size += len(await asyncio.wait_for(readers[0].read(1 << 20), 5))
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
        readers[0]._transport.abort()  # type: ignore[attr-defined]
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


# Without a registration


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
