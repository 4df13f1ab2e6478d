"""Slices with links between them, over real TCP, and peers made by hand."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from braid import metrics
from braid.codec import HEARTBEAT, PROTOCOL, PROTOCOL_VERSION, Hello, encode_hello
from braid.config import Links
from braid.link import Link
from braid.links import LinkPool
from braid.messages import AnyMessage, Unsubscribe
from tests.service.waiting import TIMEOUT_S, until

# A machine that pauses for a second is neither silent nor too slow to shake hands; a test that needs silence says so.
LIMITS = Links(
    frame_bytes_max=1 << 20,
    handshake_s=20.0,
    heartbeat_s=0.04,
    silence_s=20.0,
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

    def link_with(self, peer: str) -> Link:
        (link,) = [link for link in self.pool._all if link.peer is not None and link.peer.name == peer]
        return link

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


async def hear_more(*links: Link) -> None:
    """Until each of them has heard something of its peer."""
    before = [link._heard_at for link in links]
    await until(lambda: all(link._heard_at > then for link, then in zip(links, before, strict=True)))


def fall_silent(link: Link) -> None:
    """As if the last thing heard of its peer were long ago."""
    link._heard_at -= 2 * LIMITS.silence_s


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
            async with asyncio.timeout(TIMEOUT_S):
                while await self.reader.read(1 << 16):
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
