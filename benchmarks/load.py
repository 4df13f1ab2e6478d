"""Load over WebSocket: a process that subscribes and receives, and connections that publish.

The generator shares two cores with what it measures, so it does as little as it can: frames are written as text, and
of a notification only the time it was sent is read.
"""

import asyncio
import contextlib
import gc
import multiprocessing
import time
from array import array
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import msgspec
import uvloop
from websockets.asyncio.client import ClientConnection, connect

PUBLISHES_UNDER_WAY = 8  # on each connection
_SUBSCRIBES_UNDER_WAY = 64  # the door reads no more of one connection
_TELL_EVERY = 1000  # subscriptions
_PAUSE_S = 0.005


class _Attributes(msgspec.Struct, gc=False):
    at: float


class _Publication(msgspec.Struct, gc=False):
    attributes: _Attributes


class _Notification(msgspec.Struct, gc=False):
    publication: _Publication


class _Frame(msgspec.Struct, gc=False):
    op: str
    notifications: list[_Notification] = []
    problem: dict[str, Any] = {}


_decode = msgspec.json.Decoder(_Frame).decode


class Latencies(NamedTuple):
    p50: float
    p99: float
    max: float


class Receiver:
    """The other process: subscribes to every sensor, counts what comes and how long it took."""

    def __init__(self, received: Any, orders: Connection) -> None:
        self._received = received
        self._orders = orders

    async def wait_for(self, count: int, timeout_s: float) -> None:
        async with asyncio.timeout(timeout_s):
            while self._received.value < count:
                await asyncio.sleep(0.001)

    @property
    def received(self) -> int:
        count: int = self._received.value
        return count

    def latencies_s(self) -> "array[float]":
        """Of everything received since this was asked last."""
        self._orders.send("latencies")
        latencies: array[float] = self._orders.recv()
        return latencies

    def latencies_ms(self) -> Latencies:
        """The same in short."""
        sample = sorted(self.latencies_s()) or [0.0]
        places = (len(sample) // 2, int(len(sample) * 0.99), -1)
        return Latencies(*(round(1000 * sample[place], 2) for place in places))


def _ignore(_count: int) -> None:
    """Nobody wants to know."""


@contextlib.contextmanager
def receiver_process(api: str, subscriptions: int, on_loaded: Callable[[int], None] = _ignore) -> Iterator[Receiver]:
    """`on_loaded` is told now and then how many subscriptions there are."""
    context = multiprocessing.get_context("spawn")
    received = context.Value("q", 0, lock=False)
    here, there = context.Pipe()
    process = context.Process(target=_receive, args=(api, subscriptions, received, there), daemon=True)
    process.start()
    try:
        loaded = 0
        while loaded < subscriptions:
            loaded = here.recv()
            on_loaded(loaded)
        yield Receiver(received, here)
    finally:
        process.terminate()
        process.join()


def _receive(api: str, subscriptions: int, received: Any, orders: Connection) -> None:
    gc.disable()

    async def run() -> None:
        latencies = array("d")

        def answer() -> None:
            nonlocal latencies
            orders.recv()
            sample, latencies = latencies, array("d")
            orders.send(sample)

        async with open_socket(api, "receiver") as socket:
            await _subscribe(socket, subscriptions, orders.send)
            asyncio.get_running_loop().add_reader(orders.fileno(), answer)
            while True:
                frame = _decode(await socket.recv(decode=False))
                now = time.time()
                latencies.extend([now - n.publication.attributes.at for n in frame.notifications])
                received.value += len(frame.notifications)

    uvloop.run(run())


async def _subscribe(socket: ClientConnection, subscriptions: int, tell: Callable[[int], None]) -> None:
    answered = 0

    async def take_answer() -> None:
        nonlocal answered
        answer = _decode(await socket.recv(decode=False))
        assert answer.op == "subscribed", answer
        answered += 1
        if answered % _TELL_EVERY == 0 and answered < subscriptions:
            tell(answered)

    for number in range(subscriptions):
        wanted = f'{{"filter":"sensor = \'s{number}\' and value >= 0"}}'
        await socket.send(f'{{"op":"subscribe","ref":{number},"subscription":{wanted}}}')
        if number - answered >= _SUBSCRIBES_UNDER_WAY:
            await take_answer()
    while answered < subscriptions:
        await take_answer()
    tell(answered)


def frame_of(first: int, count: int, subscriptions: int) -> bytes:
    rest = f'","value":41.5,"at":{time.time()}}}}}'
    numbers = range(first, first + count)
    publications = ",".join([f'{{"attributes":{{"sensor":"s{n % subscriptions}{rest}' for n in numbers])
    return f'{{"op":"publish","ref":{first},"publications":[{publications}]}}'.encode()


async def flood(
    sockets: list[ClientConnection],
    receiver: Receiver,
    seconds: float,
    batch: int,
    subscriptions: int,
    *,
    on_published: Callable[[int], None] = _ignore,
) -> tuple[float, int]:
    """Publishes as fast as acknowledgements come; publications per second that arrived, and how many did.

    `on_published` is told of each acknowledgement.
    """
    before = receiver.received
    started = time.perf_counter()
    floods = [_flood(socket, started + seconds, batch, subscriptions, on_published) for socket in sockets]
    sent = sum(await asyncio.gather(*floods))
    await receiver.wait_for(before + sent, 60)
    return sent / (time.perf_counter() - started), sent


async def _flood(
    socket: ClientConnection, end: float, batch: int, subscriptions: int, on_published: Callable[[int], None]
) -> int:
    under_way = sent = 0
    while time.perf_counter() < end:
        while under_way < PUBLISHES_UNDER_WAY:
            await socket.send(frame_of(sent, batch, subscriptions), text=True)
            sent += batch
            under_way += 1
        answer = _decode(await socket.recv(decode=False))
        assert answer.op == "published", answer
        on_published(batch)
        under_way -= 1
    for _ in range(under_way):
        await socket.recv(decode=False)
    return sent


async def paced(
    sockets: list[ClientConnection],
    receiver: Receiver,
    rate: float,
    seconds: float,
    subscriptions: int,
    *,
    on_published: Callable[[int], None] = _ignore,
) -> int:
    """Publishes at a constant rate, each connection a batch every five milliseconds, one after the other.

    Returns how many, when all of them have arrived.
    """
    before = receiver.received
    share = rate / len(sockets)
    sent = await asyncio.gather(
        *(
            _paced(socket, share, seconds, place * _PAUSE_S / len(sockets), subscriptions, on_published=on_published)
            for place, socket in enumerate(sockets)
        )
    )
    await receiver.wait_for(before + sum(sent), 30)
    return sum(sent)


async def _paced(
    socket: ClientConnection,
    rate: float,
    seconds: float,
    offset_s: float,
    subscriptions: int,
    *,
    on_published: Callable[[int], None],
) -> int:
    await asyncio.sleep(offset_s)
    acknowledgements = asyncio.create_task(_drain(socket))
    started = time.perf_counter()
    sent = 0
    while (elapsed := time.perf_counter() - started) < seconds:
        due = int(elapsed * rate) - sent
        if due > 0:
            await socket.send(frame_of(sent, due, subscriptions), text=True)
            on_published(due)
            sent += due
        await asyncio.sleep(_PAUSE_S)
    acknowledgements.cancel()
    return sent


async def _drain(socket: ClientConnection) -> None:
    while True:
        await socket.recv(decode=False)


def open_socket(api: str, subscriber: str = "") -> Any:
    url = api.replace("http://", "ws://") + "/v1/ws" + (f"?subscriber={subscriber}" if subscriber else "")
    return connect(url, compression=None, max_size=None, proxy=None, max_queue=64)
