"""The driver: goes on where it was, and one cell that fails does not end the others."""

from pathlib import Path

import pytest

from spark.experiments import driver
from spark.experiments.driver import Failed, Outcome, run_plan, weight_s
from spark.experiments.plan import Cell, Plan
from spark.experiments.results import Results, Rows

PLAN = Plan(name="small", configurations=["1-1-1", "1-2-1"], subscriptions=[10, 20])


class Watching:
    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []

    def begin(self, cell: Cell, weight_s: float) -> None:
        self.begun.append(cell.name)

    def say(self, what: str) -> None: ...

    def end(self, cell: Cell, weight_s: float) -> None:
        self.ended.append(cell.name)


async def measured(_plan: Plan, cell: Cell, say: object) -> Rows:
    if str(cell.layout) == "1-2-1" and cell.subscriptions == 10:
        raise RuntimeError("the cluster did not come up; its logs are in /there")
    return Rows({"seconds": [(1, 5, 5)]}, {"sent": 5, "lost": 0})


async def test_finished_cells_are_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "measure", measured)
    results, watching = Results(tmp_path, "small", "abc"), Watching()
    failed = Failed("1-2-1_10_flood_1", "the cluster did not come up; its logs are in /there")
    assert await run_plan(PLAN, results, watching) == Outcome(3, 0, [failed])
    assert watching.begun == watching.ended
    assert len(watching.begun) == 4
    again = Watching()
    assert await run_plan(PLAN, results, again) == Outcome(0, 3, [failed])
    assert again.begun == ["1-2-1_10_flood_1"]


async def test_another_commit_is_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "measure", measured)
    await run_plan(PLAN, Results(tmp_path, "small", "abc"), Watching())
    assert (await run_plan(PLAN, Results(tmp_path, "small", "def"), Watching())).kept == 0


def test_more_subscriptions_weigh_more() -> None:
    few, _, many, _ = PLAN.cells()
    assert weight_s(PLAN, few) < weight_s(PLAN, many)


def test_the_commit_is_that_of_the_tree() -> None:
    assert driver.commit_of()
