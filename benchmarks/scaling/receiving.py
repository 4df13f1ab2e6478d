"""The process that receives: it holds the subscriptions that publications match, and writes down what arrives.

Every publication matches exactly one subscription, and all of them belong to this one subscriber. So what each
publisher sent must arrive here completely, once and in order, which is all that the ledger checks.
"""

import asyncio
import gc
import time
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import msgspec
import uvloop
from websockets.asyncio.client import ClientConnection

from benchmarks.load import open_socket
from benchmarks.scaling.processes import Worker, when_ordered

_UNDER_WAY_MAX = 64  # subscribes; the door reads no more of one connection


class _Attributes(msgspec.Struct, gc=False):
    at: float
    publisher: int
    number: int


class _Publication(msgspec.Struct, gc=False):
    attributes: _Attributes


class _Notification(msgspec.Struct, gc=False):
    publication: _Publication
    subscriptions: list[str]


class _Frame(msgspec.Struct, gc=False):
    op: str
    notifications: list[_Notification] = []
    problem: dict[str, Any] = {}


_decode = msgspec.json.Decoder(_Frame).decode


@dataclass
class Received:
    """Times in seconds since 1970, one of each for every publication, when it came first."""

    arrived_s: "array[float]" = field(default_factory=lambda: array("d"))
    sent_s: "array[float]" = field(default_factory=lambda: array("d"))
    counts: dict[int, int] = field(default_factory=dict)  # publisher -> different publications
    twice: int = 0
    out_of_order: int = 0


class Ledger:
    def __init__(self) -> None:
        self.received = Received()
        self._seen: dict[int, set[int]] = {}
        self._last: dict[int, int] = {}

    def take(self, notifications: list[_Notification], now_s: float) -> None:
        received = self.received
        for notification in notifications:
            attributes = notification.publication.attributes
            publisher, number = attributes.publisher, attributes.number
            seen = self._seen.setdefault(publisher, set())
            if number in seen or len(notification.subscriptions) != 1:
                received.twice += 1
                continue  # it is no delivery: it would count as throughput, and end a silence
            seen.add(number)
            received.arrived_s.append(now_s)
            received.sent_s.append(attributes.at)
            if number < self._last.get(publisher, -1):
                received.out_of_order += 1
            self._last[publisher] = number
            received.counts[publisher] = len(seen)


def receive(api: str, subscriptions: int, came: Any, orders: Connection, count: Any) -> None:
    """The whole process: loads, says so, receives, and hands the ledger over when asked."""
    gc.disable()
    uvloop.run(_receive(api, subscriptions, came, orders, count))


async def _receive(api: str, subscriptions: int, came: Any, orders: Connection, count: Any) -> None:
    ledger = Ledger()
    when_ordered(orders, lambda: orders.send(ledger.received))
    async with open_socket(api, "receiver") as socket, _loading(socket, subscriptions) as acknowledge:
        loaded = 0
        while True:
            frame = _decode(await socket.recv(decode=False))
            now_s = time.time()
            if frame.op == "notify":
                ledger.take(frame.notifications, now_s)
                came.value += len(frame.notifications)
                count.value = sum(ledger.received.counts.values())  # of what must arrive, each once
                continue
            assert frame.op == "subscribed", frame
            acknowledge()
            loaded += 1
            if loaded % 1000 == 0 or loaded == subscriptions:
                orders.send(loaded)


@asynccontextmanager
async def _loading(socket: ClientConnection, subscriptions: int) -> AsyncIterator[Any]:
    slots = asyncio.Semaphore(_UNDER_WAY_MAX)

    async def load() -> None:
        for number in range(subscriptions):
            await slots.acquire()
            wanted = f'{{"filter":"sensor = \'s{number}\' and value >= 0"}}'
            await socket.send(f'{{"op":"subscribe","ref":{number},"subscription":{wanted}}}')

    task = asyncio.create_task(load())
    try:
        yield slots.release
    finally:
        task.cancel()


class Receiver(Worker):
    """The other end."""

    def __init__(self, api: str, subscriptions: int) -> None:
        self._came = get_context("spawn").Value("q", 0, lock=False)
        super().__init__(receive, api, subscriptions, self._came)

    @property
    def came(self) -> int:
        """All of it, also what came twice."""
        came: int = self._came.value
        return came

    def received(self) -> Received:
        self.order("received")
        answer: Received = self.receive()
        return answer
