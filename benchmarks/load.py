"""Load over WebSocket: connections that publish, as fast as is acknowledged or at a constant rate."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol

import msgspec
from websockets.asyncio.client import ClientConnection, connect

from benchmarks.frames import Frames, SensorFrames

PUBLISHES_UNDER_WAY = 8  # on each connection
FRAME_MAX = 200  # publications
_PAUSE_S = 0.005
_ARRIVED_S = 60.0  # after the last was sent


class _Answer(msgspec.Struct, gc=False):
    op: str
    problem: dict[str, Any] = {}


_decode = msgspec.json.Decoder(_Answer).decode


class MissingError(RuntimeError):
    """Some of what must arrive has not come in time."""


class Receives(Protocol):
    """Whoever counts what comes of all that was published, each once."""

    async def wait_for(self, count: int, timeout_s: float) -> None:
        """Raises `MissingError` when fewer have come by then, unless whoever counts takes that for an answer."""


class Publisher:
    """One connection, and what it publishes."""

    def __init__(self, socket: ClientConnection, frames: Frames) -> None:
        self._socket = socket
        self._frames = frames
        self.wanted = 0  # of what was sent so far: what must arrive
        self.under_way = 0  # frames that are not acknowledged

    async def send(self, count: int) -> None:
        frame, wanted = self._frames.take(count)
        self.wanted += wanted
        self.under_way += 1
        await self._socket.send(frame, text=True)

    async def take_answer(self) -> None:
        answer = _decode(await self._socket.recv(decode=False))
        if answer.op != "published":
            raise RuntimeError(f"a publication was refused: {answer.problem.get('detail', answer.problem)}")
        self.under_way -= 1


@contextlib.asynccontextmanager
async def open_publishers(
    api: str, count: int, subscriptions: int, family: str = "s"
) -> AsyncIterator[list[Publisher]]:
    """Of readings of sensors; `family` is what the names of all of them begin with."""
    async with publishers_of(api, [SensorFrames(place, subscriptions, family) for place in range(count)]) as opened:
        yield opened


@contextlib.asynccontextmanager
async def publishers_of(api: str, frames: Sequence[Frames]) -> AsyncIterator[list[Publisher]]:
    """A connection for each."""
    async with contextlib.AsyncExitStack() as stack:
        sockets = [await stack.enter_async_context(open_socket(api)) for _ in frames]
        yield [Publisher(socket, each) for socket, each in zip(sockets, frames, strict=True)]


def _ignore(_count: int) -> None:
    """Nobody wants to know."""


async def flood(
    publishers: Sequence[Publisher],
    receiver: Receives,
    seconds: float,
    batch: int,
    *,
    on_published: Callable[[int], None] = _ignore,
) -> tuple[float, int]:
    """Publishes as fast as acknowledgements come; publications per second, until what must arrive has, and how many.

    `on_published` is told of each acknowledgement. Raises `RuntimeError` where one does not come.
    """
    started = time.perf_counter()
    floods = [_flood(publisher, started + seconds, batch, on_published) for publisher in publishers]
    async with _acknowledged(publishers, seconds + _ARRIVED_S):
        sent = sum(await asyncio.gather(*floods))
    await receiver.wait_for(_wanted(publishers), _ARRIVED_S)
    return sent / (time.perf_counter() - started), sent


async def _flood(publisher: Publisher, end: float, batch: int, on_published: Callable[[int], None]) -> int:
    under_way = sent = 0
    while time.perf_counter() < end:
        while under_way < PUBLISHES_UNDER_WAY:
            await publisher.send(batch)
            sent += batch
            under_way += 1
        await publisher.take_answer()
        on_published(batch)
        under_way -= 1
    for _ in range(under_way):
        await publisher.take_answer()
        on_published(batch)
    return sent


async def paced(
    publishers: Sequence[Publisher],
    receiver: Receives,
    rate: float,
    seconds: float,
    *,
    on_published: Callable[[int], None] = _ignore,
) -> int:
    """Publishes at a constant rate, each connection a batch every five milliseconds, one after the other.

    Fewer where they are not taken as fast. Returns how many, when all that must arrive has. Raises `RuntimeError` where
    an acknowledgement does not come.
    """
    share = rate / len(publishers)
    async with _acknowledged(publishers, seconds + _ARRIVED_S):
        sent = await asyncio.gather(
            *(
                _paced(publisher, share, seconds, place * _PAUSE_S / len(publishers), on_published)
                for place, publisher in enumerate(publishers)
            )
        )
    await receiver.wait_for(_wanted(publishers), _ARRIVED_S)
    return sum(sent)


@contextlib.asynccontextmanager
async def _acknowledged(publishers: Sequence[Publisher], seconds: float) -> AsyncIterator[None]:
    """Within so many seconds: whoever waited for ever would keep everything behind him from being measured."""
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            yield
    except TimeoutError:
        if not deadline.expired():
            raise
        frames = sum(publisher.under_way for publisher in publishers)
        raise RuntimeError(f"{frames} frames of publications were not acknowledged within {seconds:g} s") from None


def _wanted(publishers: Sequence[Publisher]) -> int:
    return sum(publisher.wanted for publisher in publishers)


async def _paced(
    publisher: Publisher,
    rate: float,
    seconds: float,
    offset_s: float,
    on_published: Callable[[int], None],
) -> int:
    await asyncio.sleep(offset_s)
    sent = frames = answered = 0

    async def take_answers() -> None:
        nonlocal answered
        while True:
            await publisher.take_answer()
            answered += 1

    answers = asyncio.create_task(take_answers())
    try:
        started = time.perf_counter()
        while (elapsed := time.perf_counter() - started) < seconds and not answers.done():
            due = min(int(elapsed * rate) - sent, FRAME_MAX)
            if due > 0 and frames - answered < PUBLISHES_UNDER_WAY:
                await publisher.send(due)
                on_published(due)
                sent, frames = sent + due, frames + 1
            await asyncio.sleep(_PAUSE_S)
        while answered < frames and not answers.done():
            await asyncio.sleep(_PAUSE_S)
    finally:
        answers.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await answers  # raises what was refused
    return sent


def open_socket(api: str, subscriber: str = "") -> Any:
    """What a connection without a subscriber subscribes to goes with it."""
    url = api.replace("http", "ws", 1) + "/v1/ws" + (f"?subscriber={subscriber}" if subscriber else "")
    return connect(url, compression=None, max_size=None, proxy=None, max_queue=64)
