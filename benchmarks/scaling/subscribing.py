"""The process that makes new subscriptions at a constant rate, and writes down how long each acknowledgement took.

A subscription counts from the time it was due, also when the connection is full because others wait: what the door
would not read is not sent yet, or pings would wait behind it until the connection is taken for dead. They add up, as
those of a cluster that grows do, but only to a bound: beyond it each takes the place of the oldest of its connection.
"""

import asyncio
import gc
import time
from collections import deque
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import msgspec
import uvloop
from websockets.asyncio.client import ClientConnection

from benchmarks.load import open_socket
from benchmarks.scaling.processes import Worker, when_ordered

CONNECTIONS = 16
_UNDER_WAY_MAX = 64  # on each; the door reads no more of one connection
_PAUSE_S = 0.01
_UNKNOWN = 404

Wait = tuple[float, float]  # when it was due, in seconds since 1970; how long until it was acknowledged


class Subscribed(NamedTuple):
    waits: list[Wait]
    refused: int  # whether these are there or not is not known
    at_end: int  # acknowledged and not ended again
    unsure: int  # acknowledged, but an attempt to end them was refused: not known either
    due: int = 0  # by the rate; fewer were asked for where the cluster did not keep up


class _Problem(msgspec.Struct, frozen=True, gc=False):
    status: int = 0


class _Answer(msgspec.Struct, gc=False):
    op: str
    ref: int = -1
    id: str = ""
    problem: _Problem = _Problem()


_decode = msgspec.json.Decoder(_Answer).decode


def subscribe(api: str, rate: float, kept_max: int, orders: Connection, count: Any) -> None:
    """The whole process: from the order to begin to the order to hand over, new subscriptions all the time."""
    gc.disable()
    uvloop.run(_subscribe(api, rate, kept_max, orders, count))


async def _subscribe(api: str, rate: float, kept_max: int, orders: Connection, count: Any) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    sockets = [await open_socket(api, f"newcomer-{n}") for n in range(CONNECTIONS)]
    begun = asyncio.Event()
    when_ordered(orders, lambda: _set(loop, begun))
    await begun.wait()
    when_ordered(orders, lambda: _set(loop, stopping))
    share = max(1, kept_max // CONNECTIONS)
    newcomers = [_Newcomer(socket, place, share) for place, socket in enumerate(sockets)]
    tasks = [asyncio.create_task(newcomer.ask(rate, stopping)) for newcomer in newcomers]
    tasks += [asyncio.create_task(newcomer.take_answers(count)) for newcomer in newcomers]
    began_s = time.time()
    await stopping.wait()
    due = int((time.time() - began_s) * rate)
    async with asyncio.timeout(60):
        while any(newcomer.is_waiting for newcomer in newcomers):
            await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    waits = [wait for newcomer in newcomers for wait in newcomer.waits]
    refused, unsure = sum(each.refused for each in newcomers), sum(len(each.unsure) for each in newcomers)
    at_end = sum(len(each.kept) for each in newcomers) - unsure
    orders.send(Subscribed(waits, refused, at_end, unsure, due))


def _set(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    loop.call_soon_threadsafe(event.set)


class _Newcomer:
    """One connection. Every `CONNECTIONS`th subscription goes over it."""

    def __init__(self, socket: ClientConnection, place: int, kept_max: int) -> None:
        self._socket = socket
        self._place = place
        self._kept_max = kept_max
        self._due_s: dict[int, float] = {}
        self._ending: dict[int, str] = {}
        self.kept: deque[str] = deque()
        self.unsure: set[str] = set()  # of those kept
        self.waits: list[Wait] = []
        self.refused = 0

    @property
    def is_waiting(self) -> bool:
        return bool(self._due_s or self._ending)

    @property
    def _has_room(self) -> bool:
        return len(self._due_s) + len(self._ending) < _UNDER_WAY_MAX

    async def ask(self, rate: float, stopping: asyncio.Event) -> None:
        began_s, number = time.time(), self._place
        while not stopping.is_set():
            while self._has_room and (at_s := began_s + number / rate) <= time.time():
                self._due_s[number] = at_s
                wanted = f'{{"filter":"sensor = \'new{number}\' and value >= 0"}}'
                await self._socket.send(f'{{"op":"subscribe","ref":{number},"subscription":{wanted}}}')
                number += CONNECTIONS
            await asyncio.sleep(_PAUSE_S)

    async def take_answers(self, count: Any) -> None:
        """An unsubscribe has the number of the subscribe that made it necessary, below zero."""
        while True:
            answer = _decode(await self._socket.recv(decode=False))
            if answer.ref < 0:
                self._take_end(self._ending.pop(answer.ref), answer)
                continue
            at_s = self._due_s.pop(answer.ref)
            self.waits.append((at_s, time.time() - at_s))
            if answer.op != "subscribed":
                self.refused += 1
                continue
            count.value += 1
            self.kept.append(answer.id)
            if len(self.kept) > self._kept_max:
                ref = -1 - answer.ref
                self._ending[ref] = self.kept.popleft()
                await self._socket.send(f'{{"op":"unsubscribe","ref":{ref},"id":"{self._ending[ref]}"}}')

    def _take_end(self, id: str, answer: _Answer) -> None:
        """An end that was refused may have come all the same; one that is unknown then has."""
        if answer.op == "unsubscribed" or (answer.problem.status == _UNKNOWN and id in self.unsure):
            self.unsure.discard(id)
            return
        self.kept.appendleft(id)  # its turn comes again
        if answer.problem.status != _UNKNOWN:
            self.unsure.add(id)  # else it is missing, and is counted as such in the end


class Newcomers(Worker):
    """The other end."""

    def __init__(self, api: str, rate: float, kept_max: int) -> None:
        super().__init__(subscribe, api, rate, kept_max)

    def begin(self) -> None:
        self.orders.send("begin")

    def subscribed(self) -> Subscribed:
        self.orders.send("subscribed")
        answer: Subscribed = self.receive()
        return answer
