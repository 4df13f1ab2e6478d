"""The process that receives, with a stand-in for the cluster: what it counts, and what is said when it has died."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.server import ServerConnection, serve

from benchmarks.arrivals import UNWANTED, Ledger
from benchmarks.load import MissingError
from benchmarks.receiver import Receiver

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]  # a process of its own


class Door:
    """Acknowledges all subscriptions, then gives notifications with these marks."""

    def __init__(self, subscriptions: int, marks: Sequence[int]) -> None:
        self.marks = marks
        self._subscriptions = subscriptions
        self.api = ""
        self.closes = asyncio.Event()

    async def serve(self, socket: ServerConnection) -> None:
        for _ in range(self._subscriptions):
            await socket.recv()
            await socket.send('{"op":"subscribed"}')
        came = [{"publication": {"attributes": {"at": time.time(), "value": mark}}} for mark in self.marks]
        await socket.send(json.dumps({"op": "notify", "notifications": came}))
        await self.closes.wait()
        await socket.close(1012, "restarting")


@asynccontextmanager
async def opened(subscriptions: int, *marks: int) -> AsyncIterator[Door]:
    door = Door(subscriptions, marks)
    async with serve(door.serve, "127.0.0.1", 0) as server:
        door.api = f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
        try:
            yield door
        finally:
            door.closes.set()


async def test_what_comes_twice_or_unwanted_is_not_waited_for() -> None:
    async with opened(2, 0, 0, 1, UNWANTED) as door:
        with Receiver(door.api, 2) as receiver:
            await receiver.load()
            await receiver.wait_for(2, 20.0)
            assert (receiver.count, receiver.arrived) == (4, 2)
            with pytest.raises(MissingError, match="1 publications have not come within"):
                await receiver.wait_for(3, 0.1)
            assert (await receiver.received()).ledger == Ledger(2, 1, 0, 1)


async def test_one_that_has_died_is_not_waited_for_and_says_why() -> None:
    why = "the connection of the subscriber was closed: received 1012 .*restarting"
    async with opened(2, 0) as door:
        with Receiver(door.api, 2) as receiver:
            await receiver.load()
            await receiver.wait_for(1, 20.0)
            door.closes.set()
            with pytest.raises(RuntimeError, match=why) as raised:
                await receiver.wait_for(2, 30.0)
            assert not isinstance(raised.value, MissingError)


async def test_one_that_has_died_gives_the_reason_instead_of_what_it_received() -> None:
    async with opened(2, 0) as door:
        with Receiver(door.api, 2) as receiver:
            await receiver.load()
            door.closes.set()
            await asyncio.to_thread(receiver._process.join, 20.0)
            with pytest.raises(RuntimeError, match="the connection of the subscriber was closed"):
                await receiver.received()
