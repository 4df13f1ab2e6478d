"""Publishers and subscribers over real WebSockets; each keeps what it sent or received."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

SENSORS = 4
SLOTS = 50
LOST = (ConnectionClosed, InvalidHandshake, OSError)  # a connection point that has just started refuses with 503

Address = Callable[[], str]  # asked at each connection: a connection point that was started again may be elsewhere


@contextlib.asynccontextmanager
async def socket(api: str, **query: str) -> AsyncIterator[ClientConnection]:
    text = "&".join(f"{key}={value}" for key, value in query.items())
    url = f"{api.replace('http://', 'ws://')}/v1/ws?{text}"
    async with connect(url, compression=None, max_size=None, proxy=None) as connection:
        yield connection


class Subscriber:
    """One connection with one subscription; keeps the ids it was notified of, in order.

    Only one that `may_break` opens a lost connection again. Then it must be told of a gap, and from there on nothing
    may be missing.
    """

    def __init__(self, name: str, sensor: int, *, may_break: bool = False) -> None:
        self.name = name
        self.sensor = sensor
        self.may_break = may_break
        self.received: list[str] = []  # over the connection that is open
        self.earlier: list[list[str]] = []  # over those before
        self.complete_since_s = 0.0
        self.subscribed = asyncio.Event()
        self._event = ""

    async def run(self, address: Address) -> None:
        while True:
            try:
                async with socket(address(), subscriber=self.name, last_event_id=self._event) as connection:
                    await self._receive(connection)
            except LOST:
                if not self.may_break:
                    raise
                await asyncio.sleep(0.1)

    async def _receive(self, connection: ClientConnection) -> None:
        if not self.subscribed.is_set():
            wanted = {"filter": f"sensor = {self.sensor}"}
            await connection.send(json.dumps({"op": "subscribe", "ref": 1, "subscription": wanted}))
        async for text in connection:
            frame = json.loads(text)
            if frame["op"] == "subscribed":
                self._event = frame["event"]
                self.subscribed.set()
                continue
            if frame["op"] == "gap" and self.may_break:
                self.earlier.append(self.received)
                self.received = []
                self.complete_since_s = time.monotonic()
                continue
            assert frame["op"] == "notify", frame
            self._event = frame["event"]
            self.received += [n["publication"]["id"] for n in frame["notifications"]]


class Publisher:
    """One connection; knows which of its publications were acknowledged. A lost connection is opened again.

    Only one that `may_be_refused` goes on after a 503, with a new connection.
    """

    def __init__(self, name: str, *, may_be_refused: bool = False) -> None:
        self.name = name
        self.may_be_refused = may_be_refused
        self.acknowledged: dict[str, int] = {}  # id -> sensor
        self.began_s: dict[str, float] = {}  # id -> when it was sent
        self.unanswered: set[str] = set()
        self.connections = 0
        self.longest_wait_s = 0.0  # for an acknowledgement
        self._number = 0

    async def run(self, address: Address, stop: asyncio.Event, pause_s: float) -> None:
        while not stop.is_set():
            try:
                async with socket(address()) as connection:
                    self.connections += 1
                    await self._publish(connection, stop, pause_s)
            except LOST:
                await asyncio.sleep(0.1)

    async def _publish(self, connection: ClientConnection, stop: asyncio.Event, pause_s: float) -> None:
        while not stop.is_set():
            sensor, slot = self._number % SENSORS, self._number % SLOTS
            # The connection is part of the name: order is promised per connection.
            ids = [f"{self.name}.{self.connections}-{self._number + n:06d}" for n in range(5)]
            self._number += len(ids)
            attributes = {"sensor": sensor, "slot": slot}
            publications: list[dict[str, Any]] = [{"id": id, "attributes": attributes} for id in ids]
            began_s = time.monotonic()
            self.unanswered.update(ids)
            await connection.send(json.dumps({"op": "publish", "ref": 1, "publications": publications}))
            answer = json.loads(await connection.recv())
            if self.may_be_refused and answer["op"] == "error" and answer["problem"]["status"] == 503:
                raise ConnectionRefusedError(answer["problem"]["detail"])
            assert answer["op"] == "published", answer
            assert answer["ids"] == ids
            self.unanswered.difference_update(ids)
            self.acknowledged.update(dict.fromkeys(ids, sensor))
            self.began_s.update(dict.fromkeys(ids, began_s))
            self.longest_wait_s = max(self.longest_wait_s, time.monotonic() - began_s)
            await asyncio.sleep(pause_s)

    def of_sensor(self, sensor: int, since_s: float) -> list[str]:
        """Acknowledged, and sent after this time."""
        return [id for id, of in self.acknowledged.items() if of == sensor and self.began_s[id] >= since_s]

    def of_slot(self, slot: int, since_s: float) -> list[str]:
        """The same; the number in the id says which slot its batch had."""
        return [
            id
            for id, began_s in self.began_s.items()
            if began_s >= since_s and int(id.rpartition("-")[2]) // 5 * 5 % SLOTS == slot
        ]
