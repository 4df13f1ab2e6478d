"""Load over WebSocket: one connection that subscribes and receives, one that publishes."""

import asyncio
import time
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect

_encoder = msgspec.json.Encoder()


class _Attributes(msgspec.Struct, gc=False):
    at: float


class _Publication(msgspec.Struct, gc=False):
    attributes: _Attributes


class _Notification(msgspec.Struct, gc=False):
    publication: _Publication


class _Frame(msgspec.Struct, gc=False):
    op: str
    notifications: list[_Notification] = []
    ids: list[str] = []
    problem: dict[str, Any] = {}


_decode = msgspec.json.Decoder(_Frame).decode


class Receiver:
    """Subscribes to every sensor, counts what comes and how long it took."""

    def __init__(self) -> None:
        self.received = 0
        self.latencies_s: list[float] = []
        self.keep_latencies = False
        self._arrived = asyncio.Event()

    async def subscribe(self, socket: ClientConnection, subscriptions: int) -> None:
        for number in range(subscriptions):
            wanted = {"filter": f"sensor = 's{number}' and value >= 0"}
            await socket.send(_encoder.encode({"op": "subscribe", "ref": number, "subscription": wanted}), text=True)
            if number % 100 == 99 or number == subscriptions - 1:
                for _ in range(number % 100 + 1):
                    answer = _decode(await socket.recv(decode=False))
                    assert answer.op == "subscribed", answer

    async def receive(self, socket: ClientConnection) -> None:
        while True:
            frame = _decode(await socket.recv(decode=False))
            now = time.time()
            self.received += len(frame.notifications)
            if self.keep_latencies:
                self.latencies_s += [now - n.publication.attributes.at for n in frame.notifications]
            self._arrived.set()

    async def wait_for(self, count: int, timeout_s: float) -> None:
        async with asyncio.timeout(timeout_s):
            while self.received < count:
                self._arrived.clear()
                await self._arrived.wait()


def frame_of(first: int, count: int, subscriptions: int) -> bytes:
    """Written as text: the generator shares the machine with what it measures, so it must cost little."""
    rest = f'","value":41.5,"at":{time.time()}}}}}'
    publications = ",".join(
        [f'{{"attributes":{{"sensor":"s{n % subscriptions}{rest}' for n in range(first, first + count)]
    )
    return f'{{"op":"publish","ref":{first},"publications":[{publications}]}}'.encode()


async def flood(
    sockets: list[ClientConnection], receiver: Receiver, seconds: float, batch: int, subscriptions: int
) -> float:
    """Publishes as fast as acknowledgements come (eight batches under way on each); notifications per second."""
    started = time.perf_counter()
    sent = sum(await asyncio.gather(*(_flood(socket, started + seconds, batch, subscriptions) for socket in sockets)))
    await receiver.wait_for(sent, 60)
    return sent / (time.perf_counter() - started)


async def _flood(socket: ClientConnection, end: float, batch: int, subscriptions: int) -> int:
    under_way = sent = 0
    while time.perf_counter() < end:
        while under_way < 8:
            await socket.send(frame_of(sent, batch, subscriptions), text=True)
            sent += batch
            under_way += 1
        answer = _decode(await socket.recv(decode=False))
        assert answer.op == "published", answer
        under_way -= 1
    for _ in range(under_way):
        await socket.recv(decode=False)
    return sent


async def paced(socket: ClientConnection, rate: float, seconds: float, subscriptions: int) -> int:
    """Publishes at a constant rate in batches of five milliseconds; how many."""
    started = time.perf_counter()
    sent = 0
    acknowledgements = asyncio.create_task(_drain(socket))
    while (elapsed := time.perf_counter() - started) < seconds:
        due = int(elapsed * rate) - sent
        if due > 0:
            await socket.send(frame_of(sent, due, subscriptions), text=True)
            sent += due
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.5)
    acknowledgements.cancel()
    return sent


async def _drain(socket: ClientConnection) -> None:
    while True:
        await socket.recv(decode=False)


def open_socket(api: str, subscriber: str = "") -> Any:
    url = api.replace("http://", "ws://") + "/v1/ws" + (f"?subscriber={subscriber}" if subscriber else "")
    return connect(url, compression=None, max_size=None, proxy=None, max_queue=64)
