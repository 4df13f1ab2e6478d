"""Publishers wait for all that must arrive. Those that nobody answers give up, and say what was not acknowledged."""

import asyncio
from typing import Any

import pytest

from benchmarks import load
from benchmarks.frames import SensorFrames
from benchmarks.load import PUBLISHES_UNDER_WAY, Publisher, flood, paced

ANSWERED = 3


class Stuck:
    """Acknowledges a few frames, then nothing."""

    def __init__(self) -> None:
        self._answered = 0

    async def send(self, _frame: bytes, *, text: bool) -> None: ...

    async def recv(self, *, decode: bool) -> bytes:
        self._answered += 1
        if self._answered > ANSWERED:
            await asyncio.Event().wait()
        return b'{"op":"published"}'


class Nobody:
    async def wait_for(self, count: int, timeout_s: float) -> None:
        raise AssertionError("nothing is waited for that was not acknowledged")


class Answering(Stuck):
    async def recv(self, *, decode: bool) -> bytes:
        await asyncio.sleep(0.001)
        return b'{"op":"published"}'


class Asked:
    """Has been asked to wait for so many."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    async def wait_for(self, count: int, timeout_s: float) -> None:
        self.counts.append(count)


async def test_what_a_warm_up_still_owes_is_waited_for_too() -> None:
    """What comes of it late is not taken for what was published since."""
    socket: Any = Answering()
    publishers, asked = [Publisher(socket, SensorFrames(0, 10))], Asked()
    _, first = await flood(publishers, asked, 0.05, 5)
    second = await paced(publishers, asked, 1_000, 0.05)
    assert second > 0
    assert asked.counts == [first, first + second] == [first, publishers[0].wanted]


@pytest.fixture
def publishers(monkeypatch: pytest.MonkeyPatch) -> list[Publisher]:
    monkeypatch.setattr(load, "_ARRIVED_S", 0.3)
    sockets: list[Any] = [Stuck(), Stuck()]
    return [Publisher(socket, SensorFrames(place, 10)) for place, socket in enumerate(sockets)]


@pytest.mark.timeout(20)
async def test_a_flood_that_is_not_acknowledged_ends(publishers: list[Publisher]) -> None:
    frames = 2 * PUBLISHES_UNDER_WAY
    with pytest.raises(RuntimeError, match=f"^{frames} frames of publications were not acknowledged within 0.4 s$"):
        await flood(publishers, Nobody(), 0.1, 5)


@pytest.mark.timeout(20)
async def test_a_constant_rate_that_is_not_acknowledged_ends(publishers: list[Publisher]) -> None:
    frames = 2 * PUBLISHES_UNDER_WAY
    with pytest.raises(RuntimeError, match=f"^{frames} frames of publications were not acknowledged within 0.8 s$"):
        await paced(publishers, Nobody(), 4_000, 0.5)
