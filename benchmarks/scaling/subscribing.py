"""The process that makes new subscriptions at a constant rate, and writes down how long each acknowledgement took.

A subscription counts from the time it was due, also when the connection is full because others wait.
"""

import asyncio
import gc
import time
from multiprocessing.connection import Connection
from typing import Any

import msgspec
import uvloop
from websockets.asyncio.client import ClientConnection

from benchmarks.load import open_socket
from benchmarks.scaling.processes import Worker, when_ordered

CONNECTIONS = 16  # the door answers at most 64 at once on each; what is due beyond that waits in its socket
_PAUSE_S = 0.01

Wait = tuple[float, float]  # when it was due, in seconds since 1970; how long until it was acknowledged


class _Answer(msgspec.Struct, gc=False):
    op: str
    ref: int = -1


_decode = msgspec.json.Decoder(_Answer).decode


def subscribe(api: str, rate: float, orders: Connection, count: Any) -> None:
    """The whole process: from the order to begin to the order to hand over, new subscriptions all the time."""
    gc.disable()
    uvloop.run(_subscribe(api, rate, orders, count))


async def _subscribe(api: str, rate: float, orders: Connection, count: Any) -> None:
    waits: list[Wait] = []
    due_s: dict[int, float] = {}
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    sockets = [await open_socket(api, f"newcomer-{n}") for n in range(CONNECTIONS)]
    begun = asyncio.Event()
    when_ordered(orders, lambda: _set(loop, begun))
    await begun.wait()
    when_ordered(orders, lambda: _set(loop, stopping))
    tasks = [asyncio.create_task(_ask(socket, place, rate, due_s, stopping)) for place, socket in enumerate(sockets)]
    tasks += [asyncio.create_task(_acknowledge(socket, due_s, waits, count)) for socket in sockets]
    await stopping.wait()
    async with asyncio.timeout(60):
        while due_s:
            await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    orders.send(waits)


def _set(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    loop.call_soon_threadsafe(event.set)


async def _ask(
    socket: ClientConnection, place: int, rate: float, due_s: dict[int, float], stopping: asyncio.Event
) -> None:
    """Every `CONNECTIONS`th subscription goes over this one."""
    began_s, number = time.time(), place
    while not stopping.is_set():
        while (at_s := began_s + number / rate) <= time.time():
            due_s[number] = at_s
            wanted = f'{{"filter":"sensor = \'new{number}\' and value >= 0"}}'
            await socket.send(f'{{"op":"subscribe","ref":{number},"subscription":{wanted}}}')
            number += CONNECTIONS
        await asyncio.sleep(_PAUSE_S)


async def _acknowledge(socket: ClientConnection, due_s: dict[int, float], waits: list[Wait], count: Any) -> None:
    while True:
        answer = _decode(await socket.recv(decode=False))
        assert answer.op == "subscribed", answer
        at_s = due_s.pop(answer.ref)
        waits.append((at_s, time.time() - at_s))
        count.value += 1


class Newcomers(Worker):
    """The other end."""

    def __init__(self, api: str, rate: float) -> None:
        super().__init__(subscribe, api, rate)

    def begin(self) -> None:
        self.orders.send("begin")

    def waits(self) -> list[Wait]:
        self.orders.send("waits")
        answer: list[Wait] = self.receive()
        return answer
