"""A cell that loses publications is measured, and its ledger says so."""

import asyncio
import os
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

LOST = 3


class Socket:
    """Acknowledges everything."""

    async def send(self, _frame: bytes, *, text: bool) -> None: ...

    async def recv(self, *, decode: bool) -> bytes:
        await asyncio.sleep(0.001)
        return b'{"op":"published"}'


class Losing(Receiver):
    """Gets all that was sent but the first few."""

    publishers: Sequence[Publisher] = ()

    @property
    def arrived(self) -> int:
        return max(0, sum(publisher.wanted for publisher in self.publishers) - LOST)

    count = arrived

    @property
    def pid(self) -> int:
        return os.getpid()

    def __enter__(self) -> "Losing":
        return self

    def __exit__(self, *_error: object) -> None: ...

    async def load(self, *_: Any) -> None: ...

    async def received(self) -> Received:
        return Received(array("d", [0.001]), Ledger(self.arrived, 0, 0))


@pytest.mark.parametrize("rate", [0.0, 2_000.0])
async def test_what_does_not_come_is_in_the_ledger(monkeypatch: pytest.MonkeyPatch, rate: float) -> None:
    @asynccontextmanager
    async def publishers_of(_api: str, frames: Sequence[Frames]) -> AsyncIterator[list[Publisher]]:
        Losing.publishers = [Publisher(Socket(), each) for each in frames]  # type: ignore[arg-type]  # what it needs
        yield list(Losing.publishers)

    monkeypatch.setattr(measuring, "Receiver", Losing)
    monkeypatch.setattr(measuring, "publishers_of", publishers_of)
    monkeypatch.setattr(load, "_ARRIVED_S", 0.1)
    cell = Cell(layout=layout_of("1-1-1"), subscriptions=10, rate=rate, seconds=1, warm_up_s=0.1)
    cluster: Any = SimpleNamespace(api=["http://nowhere"], slice_pids=dict)
    measured = await measuring._measure_steady(cell, await measuring._load_of(cell, print), cluster, print)
    ledger = measured.ledger
    assert ledger["sent"] == ledger["wanted"] > 100
    assert (ledger["lost"], ledger["received"]) == (LOST, ledger["wanted"] - LOST)
    assert ledger["summary"].endswith(f", {LOST} lost")


async def test_others_are_told_what_has_not_come() -> None:
    with pytest.raises(MissingError, match="7 publications have not come within 0 s"):
        await Receiver("http://nowhere", 1).wait_for(7, 0.0)
