"""A cell that scales: what was seen of it becomes rows of its steps."""

from array import array
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scaling.measured import Observed, Scaled
from benchmarks.scaling.receiving import Received
from benchmarks.scaling.subscribing import Subscribed
from spark.experiments import scaling_cell
from spark.experiments.configurations import Layout
from spark.experiments.plan import Cell, Scaling

SCALING = Scaling(configuration="1-1-1", steps=["matcher=3", "matcher=1", "matcher=3"], subscriptions=10)
CELL = Cell(layout=Layout(1, 1, 1), subscriptions=10, rate=100.0, scaling=SCALING)


def scaled(name: str, asked_s: float) -> Scaled:
    return Scaled(name, asked_s, "done", "", {"copying": 0.5, "moving": 0.5}, 1.0, 7, 0.0, {})


async def test_a_step_that_occurs_twice_has_two_time_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(*_: Any) -> Observed:
        arrived = array("d", [100 + place / 100 for place in range(1600)])
        steps = [scaled("matcher 1 → 3", 103.0), scaled("matcher 3 → 1", 107.0), scaled("matcher 1 → 3", 111.0)]
        received = Received(arrived, arrived, {0: len(arrived)})
        return Observed(10, 100.0, 116.0, received, Subscribed([], 0, 0, 0), steps, len(arrived), 0.0, 1.0, 10)

    monkeypatch.setattr(scaling_cell, "run", run)
    rows = await scaling_cell.measure_scaling(CELL, SCALING, tmp_path, tmp_path / "log", lambda _said: None)
    assert rows.ledger["summary"] == "matcher 1 → 3 1.0 s, matcher 3 → 1 1.0 s, matcher 1 → 3 (2) 1.0 s"
    names = ["matcher 1 → 3", "matcher 3 → 1", "matcher 1 → 3 (2)"]
    bins = list(rows.tables["bins"])
    assert list(dict.fromkeys(row[0] for row in bins)) == names
    for name in names:
        times = [row[1] for row in bins if row[0] == name]
        assert times == sorted(set(times))
        assert -3.01 < times[0] < -2.9
    assert [row[:2] for row in rows.tables["phases"]] == [
        (name, part) for name in names for part in ("copying", "moving")
    ]
    assert {row[0] for row in rows.tables["latencies"]} == {"before", "after", *names}
