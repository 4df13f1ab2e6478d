"""A cell of an experiment that publishes a stored workload, in a real cluster: the ledger has what should arrive."""

from pathlib import Path

import pytest

from spark.experiments.configurations import Layout
from spark.experiments.measuring import measure
from spark.experiments.plan import Cell, Workload
from tests.spark.stored_workloads import OF_FOUR, stored

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

RATE = 400


@pytest.mark.parametrize("routing", [None, "anchored"])
async def test_what_some_subscription_matches_arrives_once_and_nothing_else(
    tmp_path: Path, routing: str | None
) -> None:
    said: list[str] = []
    cell = cell_of(stored(tmp_path), rate=RATE, routing=routing)
    rows = await measure(cell, tmp_path / "cell", said.append)
    ledger = rows.ledger
    # Each of the four connections goes through all five, of which three are wanted, and may end anywhere among them.
    assert abs(ledger["wanted"] - 3 / 5 * ledger["sent"]) < 4 * 2
    assert ledger["wanted"] > RATE / 4
    assert ledger["received"] == ledger["wanted"]
    assert [ledger[what] for what in ("lost", "twice", "out_of_order", "unwanted")] == [0, 0, 0, 0]
    assert ledger["matches_per_publication"] == sum(OF_FOUR) / len(OF_FOUR)
    assert sum(count for _, _, count in rows.tables["latencies"]) > 0
    assert ("routing broadcast → anchored" in said) == (routing is not None)


def cell_of(workload: Workload, *, rate: float, routing: str | None) -> Cell:
    return Cell.model_validate(
        {
            "layout": Layout(1, 2, 1),
            "subscriptions": len(OF_FOUR) - 1,
            "rate": rate,
            "seconds": 1,
            "warm_up_s": 0.2,
            "routing": routing,
            "workload": workload,
        }
    )
