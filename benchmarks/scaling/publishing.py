"""Publications at a constant rate over several connections, numbered so that a receiver can tell what is missing."""

import asyncio
import time
from contextlib import suppress

import msgspec
from websockets.asyncio.client import ClientConnection

from benchmarks.load import open_socket

CONNECTIONS = 4
_PAUSE_S = 0.01
_ANSWERED_S = 20.0  # for what is under way at the end
_REFUSED = (429, 503)  # not accepted, so nothing was promised


class _Problem(msgspec.Struct, frozen=True, gc=False):
    status: int = 0


class _Answer(msgspec.Struct, gc=False):
    op: str
    ref: int = -1
    problem: _Problem = _Problem()


_decode = msgspec.json.Decoder(_Answer).decode


class Publishers:
    """Each connection is a publisher of its own."""

    def __init__(self, rate: float, subscriptions: int) -> None:
        self._rate = rate / CONNECTIONS
        self._subscriptions = subscriptions
        self._stopping = False
        self._sockets: list[ClientConnection] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.sent = [0] * CONNECTIONS
        self.refused = 0
        self.longest_delay_s = 0.0  # of the generator itself: how late it published

    @property
    def promised(self) -> int:
        """What must arrive: all but what was refused."""
        return sum(self.sent) - self.refused

    async def start(self, api: str) -> None:
        for publisher in range(CONNECTIONS):
            socket = await open_socket(api)
            self._sockets.append(socket)
            self._tasks.append(asyncio.create_task(self._publish(socket, publisher)))

    async def stop(self) -> None:
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def close(self) -> None:
        """Also in the midst of it, when something else has failed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for socket in self._sockets:
            await socket.close()

    async def _publish(self, socket: ClientConnection, publisher: int) -> None:
        await asyncio.sleep(publisher * _PAUSE_S / CONNECTIONS)
        counts: dict[int, int] = {}  # publications of each frame that is not answered
        acknowledging = asyncio.create_task(self._acknowledge(socket, counts))
        began_s, turn_s = time.time(), time.time()
        while not self._stopping:
            now_s = time.time()
            self.longest_delay_s = max(self.longest_delay_s, now_s - turn_s - _PAUSE_S)
            first = self.sent[publisher]
            due = int((now_s - began_s) * self._rate) - first
            if due > 0:
                counts[first] = due
                await socket.send(self._frame(publisher, first, due, now_s), text=True)
                self.sent[publisher] += due
            turn_s = time.time()
            await asyncio.sleep(_PAUSE_S)
        # What is refused in the end was not promised either.
        with suppress(TimeoutError):
            async with asyncio.timeout(_ANSWERED_S):
                while counts and not acknowledging.done():
                    await asyncio.sleep(_PAUSE_S)
        acknowledging.cancel()
        with suppress(asyncio.CancelledError):
            await acknowledging
        # Not closed: what is under way is still to be acknowledged, and the receiver says when all of it is there.

    def _frame(self, publisher: int, first: int, count: int, now_s: float) -> bytes:
        rest = f'"value":41.5,"at":{now_s},"publisher":{publisher},"number":'
        numbers = range(first, first + count)
        sensors = [(number * CONNECTIONS + publisher) % self._subscriptions for number in numbers]
        publications = ",".join(
            f'{{"attributes":{{"sensor":"s{sensor}",{rest}{number}}}}}'
            for sensor, number in zip(sensors, numbers, strict=True)
        )
        return f'{{"op":"publish","ref":{first},"publications":[{publications}]}}'.encode()

    async def _acknowledge(self, socket: ClientConnection, counts: dict[int, int]) -> None:
        while True:
            answer = _decode(await socket.recv(decode=False))
            count = counts.pop(answer.ref)
            if answer.op != "published":
                assert answer.problem.status in _REFUSED, answer
                self.refused += count
