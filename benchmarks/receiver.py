"""The process that receives: it subscribes to sensors or what is given, counts what comes and how long it took."""

import asyncio
import gc
import threading
import time
from array import array
from collections.abc import Callable, Iterable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import uvloop
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from benchmarks.arrivals import Arrivals, Ledger
from benchmarks.load import MissingError, open_socket
from benchmarks.scaling.processes import Worker
from benchmarks.stillness import until_still

_SUBSCRIBES_UNDER_WAY = 64  # the door reads no more of one connection
_TELL_EVERY = 1000  # subscriptions
_LOOKS_S = 0.001
_LIVES_S = 0.5  # so often it is looked whether the process is still there


class _Mark(msgspec.Struct, gc=False):
    at: float
    value: int


class _OfSensor(msgspec.Struct, gc=False):
    mark: _Mark = msgspec.field(name="attributes")


class _OfWorkload(msgspec.Struct, gc=False):
    mark: _Mark = msgspec.field(name="data")


_Publication = TypeVar("_Publication", _OfSensor, _OfWorkload)


class _Notification(msgspec.Struct, Generic[_Publication], gc=False):
    publication: _Publication


class _Frame(msgspec.Struct, Generic[_Publication], gc=False):
    op: str
    notifications: list[_Notification[_Publication]] = []
    problem: dict[str, Any] = {}


_decode = msgspec.json.Decoder(_Frame[_OfSensor]).decode
_decode_of_workload = msgspec.json.Decoder(_Frame[_OfWorkload]).decode


class Latencies(NamedTuple):
    p50: float
    p99: float
    max: float


class Wanted(NamedTuple):
    api: str
    subscriptions: int
    family: str
    subscriber: str
    given: Iterable[str] | None


class Received(NamedTuple):
    latencies_s: "array[float]"  # of what `arrived` counts, since this was asked last
    ledger: Ledger  # of everything


class Receiver(Worker):
    """The other end. Without a subscriber, its subscriptions go with it; `family` is that of the publishers."""

    def __init__(
        self,
        api: str,
        subscriptions: int,
        *,
        family: str = "s",
        subscriber: str = "receiver",
        given: Iterable[str] | None = None,
    ) -> None:
        """`given` are as many subscriptions as JSON instead of those to sensors; publications then have their marks in
        `data`. It is handed to another process, so it should know where they are rather than hold them.
        """
        self._arrived = get_context("spawn").Value("q", 0, lock=False)
        super().__init__(_receive, Wanted(api, subscriptions, family, subscriber, given), self._arrived)
        self._subscriptions = subscriptions

    @property
    def arrived(self) -> int:
        """What must arrive and has, each once, as the ledger counts it; `count` has all that came."""
        arrived: int = self._arrived.value
        return arrived

    async def load(self, on_loaded: Callable[[int], None] = lambda _count: None) -> None:
        """Until all subscriptions are there; `on_loaded` is told now and then how many are."""
        loaded = 0
        while loaded < self._subscriptions:
            loaded = await asyncio.to_thread(self.receive)
            on_loaded(loaded)

    async def wait_for(self, count: int, timeout_s: float) -> None:
        """Until so many have arrived. Raises `MissingError` when fewer have by then, `RuntimeError` when none will."""
        looked_s = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                while self.arrived < count:
                    await asyncio.sleep(_LOOKS_S)
                    if time.monotonic() >= looked_s + _LIVES_S:
                        self.check()
                        looked_s = time.monotonic()
        except TimeoutError:
            missing = count - self.arrived
            raise MissingError(f"{missing} publications have not come within {timeout_s:g} s") from None

    async def until_still(self) -> None:
        await until_still(lambda: self.count)

    async def received(self) -> Received:
        """Raises `RuntimeError` with the reason for which the process has failed, where it has."""
        self.order("received")
        answer: Received = await asyncio.to_thread(self.receive)
        return answer

    async def latencies_ms(self) -> Latencies:
        """In short, when nothing comes any more: who asks for the ledger behind this finds in it what came late."""
        await self.until_still()
        sample = sorted((await self.received()).latencies_s) or [0.0]
        places = (len(sample) // 2, int(len(sample) * 0.99), -1)
        return Latencies(*(round(1000 * sample[place], 2) for place in places))


def _receive(wanted: Wanted, arrived: Any, orders: Connection, count: Any) -> None:
    gc.disable()
    try:
        uvloop.run(_run(wanted, arrived, orders, count))
    except ConnectionClosed as closed:
        raise RuntimeError(f"the connection of the subscriber was closed: {closed}") from None


async def _run(wanted: Wanted, arrived: Any, orders: Connection, count: Any) -> None:
    latencies, arrivals = array("d"), Arrivals()

    async def hand_over() -> Received:
        nonlocal latencies
        sample, latencies = latencies, array("d")
        return Received(sample, arrivals.ledger)

    async with open_socket(wanted.api, wanted.subscriber) as socket:
        await _subscribe(socket, wanted, orders.send)
        _answer(orders, asyncio.get_running_loop(), hand_over)
        decode: Callable[[bytes], _Frame[Any]] = _decode if wanted.given is None else _decode_of_workload
        while True:
            frame = decode(await socket.recv(decode=False))
            now = time.time()
            came = [notification.publication.mark for notification in frame.notifications]
            count.value += len(came)
            for place in reversed(arrivals.take([mark.value for mark in came])):
                del came[place]  # how long a retry took is no latency of a delivery
            latencies.extend([now - mark.at for mark in came])
            arrived.value = arrivals.received


def _answer(orders: Connection, loop: asyncio.AbstractEventLoop, hand_over: Callable[[], Any]) -> None:
    """On a thread of its own: what is handed over is larger than a pipe, and the loop goes on receiving."""

    def answer() -> None:
        while True:
            orders.recv()
            orders.send(asyncio.run_coroutine_threadsafe(hand_over(), loop).result())

    threading.Thread(target=answer, daemon=True).start()


async def _subscribe(socket: ClientConnection, wanted: Wanted, tell: Callable[[int], None]) -> None:
    subscriptions, answered = wanted.subscriptions, 0

    async def take_answer() -> None:
        nonlocal answered
        answer = _decode(await socket.recv(decode=False))
        if answer.op != "subscribed":
            raise RuntimeError(f"a subscription was refused: {answer.problem.get('detail', answer.problem)}")
        answered += 1
        if answered % _TELL_EVERY == 0 and answered < subscriptions:
            tell(answered)

    sensors = (f'{{"filter":"sensor = \'{wanted.family}{number}\' and value >= 0"}}' for number in range(subscriptions))
    for number, given in zip(range(subscriptions), wanted.given or sensors, strict=True):
        await socket.send(f'{{"op":"subscribe","ref":{number},"subscription":{given}}}')
        if number - answered >= _SUBSCRIBES_UNDER_WAY:
            await take_answer()
    while answered < subscriptions:
        await take_answer()
    tell(answered)
