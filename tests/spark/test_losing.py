"""A cell in which publications are lost or come twice is measured, and its ledger says so."""

import asyncio
import os
import time
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import load
from benchmarks.arrivals import Ledger
from benchmarks.frames import Frames
from benchmarks.load import MissingError, Publisher
from benchmarks.receiver import Received, Receiver
from spark.experiments import measuring
from spark.experiments.configurations import layout_of
from spark.experiments.plan import Cell
from spark.experiments.results import Rows

LOST = 3
BEHIND_S = 0.3


class Socket:
    """Acknowledges everything."""

    last_s = 0.0  # when something was sent to any of them

    async def send(self, _frame: bytes, *, text: bool) -> None:
        Socket.last_s = time.monotonic()

    async def recv(self, *, decode: bool) -> bytes:
        await asyncio.sleep(0.001)
        return b'{"op":"published"}'


class Standing(Receiver):
    """In for the process: gets all that was sent at once."""

    publishers: Sequence[Publisher] = ()

    @property
    def arrived(self) -> int:
        return sum(publisher.wanted for publisher in self.publishers)

    @property
    def count(self) -> int:
        return self.arrived

    @property
    def pid(self) -> int:
        return os.getpid()

    def __enter__(self) -> "Standing":
        return self

    def __exit__(self, *_error: object) -> None: ...

    async def load(self, *_: Any) -> None: ...

    async def received(self) -> Received:
        return Received(array("d", [0.001]), Ledger(self.arrived, self.count - self.arrived, 0))


class Losing(Standing):
    """But the first few."""

    @property
    def arrived(self) -> int:
        return max(0, super().arrived - LOST)


class Twice(Standing):
    """And once more at once."""

    @property
    def count(self) -> int:
        return 2 * self.arrived


class OnceMore(Standing):
    """And the last one again, a little later."""

    @property
    def count(self) -> int:
        return self.arrived + (time.monotonic() >= Socket.last_s + BEHIND_S)


async def measured(monkeypatch: pytest.MonkeyPatch, receiver: type[Standing], rate: float, warm_up_s: float) -> Rows:
    @asynccontextmanager
    async def publishers_of(_api: str, frames: Sequence[Frames]) -> AsyncIterator[list[Publisher]]:
        receiver.publishers = [Publisher(Socket(), each) for each in frames]  # type: ignore[arg-type]  # what it needs
        yield list(receiver.publishers)

    monkeypatch.setattr(measuring, "Receiver", receiver)
    monkeypatch.setattr(measuring, "publishers_of", publishers_of)
    cell = Cell(layout=layout_of("1-1-1"), subscriptions=10, rate=rate, seconds=1, warm_up_s=warm_up_s)
    cluster: Any = SimpleNamespace(api=["http://nowhere"], slice_pids=dict)
    return await measuring._measure_steady(cell, await measuring._load_of(cell, print), cluster, print)


@pytest.mark.parametrize("rate", [0.0, 2_000.0])
async def test_what_does_not_come_is_in_the_ledger(monkeypatch: pytest.MonkeyPatch, rate: float) -> None:
    monkeypatch.setattr(load, "_ARRIVED_S", 0.5)  # acknowledgements have it, too, on a machine that is busy
    ledger = (await measured(monkeypatch, Losing, rate, 0.1)).ledger
    assert ledger["sent"] == ledger["wanted"] > 100
    assert (ledger["lost"], ledger["received"]) == (LOST, ledger["wanted"] - LOST)
    assert ledger["summary"].endswith(f", {LOST} lost")


@pytest.mark.parametrize("rate", [0.0, 2_000.0])
async def test_what_comes_twice_behind_the_last_one_is_in_the_ledger(
    monkeypatch: pytest.MonkeyPatch, rate: float
) -> None:
    ledger = (await measured(monkeypatch, OnceMore, rate, 0.1)).ledger
    assert (ledger["lost"], ledger["twice"]) == (0, 1)


async def test_what_comes_twice_is_no_throughput(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = await measured(monkeypatch, Twice, 2_000.0, 0.0)
    came = rows.ledger["received"] + rows.ledger["twice"]
    assert came == 2 * rows.ledger["sent"]
    delivered = sum(count for _, _, count, _ in rows.tables["seconds"])
    assert delivered == pytest.approx(came / 2, rel=0.3)  # the last ones may come when the second is over


async def test_others_are_told_what_has_not_come() -> None:
    with pytest.raises(MissingError, match="7 publications have not come within 0 s"):
        await Receiver("http://nowhere", 1).wait_for(7, 0.0)
