"""The process that receives, with a stand-in for the cluster: what it counts, and what is said when it has died."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from benchmarks import running_cluster, stillness
from benchmarks.arrivals import UNWANTED, Ledger
from benchmarks.load import MissingError, Receives
from benchmarks.receiver import Receiver

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]  # a process of its own


BEHIND_S = 0.3


class Door:
    """Acknowledges all subscriptions, then gives notifications with these marks, and a little later those behind."""

    def __init__(self, subscriptions: int, marks: Sequence[int], behind: Sequence[int]) -> None:
        self.marks = marks
        self._behind = behind
        self._subscriptions = subscriptions
        self.api = ""
        self.closes = asyncio.Event()

    async def serve(self, socket: ServerConnection) -> None:
        for _ in range(self._subscriptions):
            await socket.recv()
            await socket.send('{"op":"subscribed"}')
        await self._notify(socket, self.marks)
        if self._behind:
            await asyncio.sleep(BEHIND_S)
            await self._notify(socket, self._behind)
        await self.closes.wait()
        await socket.close(1012, "restarting")

    async def _notify(self, socket: ServerConnection, marks: Sequence[int]) -> None:
        came = [{"publication": {"attributes": {"at": time.time(), "value": mark}}} for mark in marks]
        await socket.send(json.dumps({"op": "notify", "notifications": came}))


@asynccontextmanager
async def opened(subscriptions: int, *marks: int, behind: Sequence[int] = ()) -> AsyncIterator[Door]:
    door = Door(subscriptions, marks, behind)
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


async def test_what_comes_twice_or_unwanted_has_no_latency() -> None:
    async with opened(2, 0, 0, UNWANTED, 1, 1) as door:
        with Receiver(door.api, 2) as receiver:
            await receiver.load()
            await receiver.wait_for(2, 20.0)
            assert len((await receiver.received()).latencies_s) == 2


async def test_the_ledger_has_what_comes_behind_the_last_that_is_waited_for() -> None:
    async with opened(2, 0, 1, behind=[1, UNWANTED]) as door:
        with Receiver(door.api, 2) as receiver:
            await receiver.load()
            await receiver.wait_for(2, 20.0)
            await receiver.until_still()
            assert (await receiver.received()).ledger == Ledger(2, 1, 0, 1)


async def test_a_cluster_that_repeats_late_is_not_right(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def open_publishers(*_: Any) -> AsyncIterator[list[Any]]:
        yield []

    async def flood(_publishers: Any, receiver: Receives, *_: Any, **_options: Any) -> tuple[float, int]:
        await receiver.wait_for(2, 20.0)
        return 2.0, 2

    monkeypatch.setattr(running_cluster, "open_publishers", open_publishers)
    monkeypatch.setattr(running_cluster, "flood", flood)
    async with opened(2, 0, 1, behind=[1]) as door:
        wanted = running_cluster.Wanted(door.api, 2, 0.1, None, 1, 1)
        measured = await running_cluster.measure(wanted, lambda _: None, lambda _: None)
    assert (measured.lost, measured.twice, measured.is_right) == (0, 1, False)


async def test_what_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(Receiver):
        @property
        def count(self) -> int:
            return time.monotonic_ns()

    monkeypatch.setattr(stillness, "_STILL_MAX_S", 0.2)
    began_s = time.monotonic()
    await asyncio.wait_for(Endless("http://nowhere", 1).until_still(), 20.0)
    assert time.monotonic() - began_s >= 0.2


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
