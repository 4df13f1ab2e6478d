"""The driver: goes on where it was, and one cell that fails does not end the others."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from spark.errors import ExperimentError
from spark.experiments import driver
from spark.experiments.driver import Failed, Outcome, run_plan, weight_s
from spark.experiments.finished import failures_of, missing_cells
from spark.experiments.machine import RUNS, code_of, commit_of
from spark.experiments.plan import Cell, Plan
from spark.experiments.results import Results, Rows
from spark.experiments.running import run_of, unfinished

PLAN = Plan(name="small", configurations=["1-1-1", "1-2-1"], subscriptions=[10, 20])


class Watching:
    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []

    def begin(self, cell: Cell) -> None:
        self.begun.append(cell.name)

    def say(self, what: str) -> None: ...

    def end(self, cell: Cell, came_of_it: str) -> None:
        self.ended.append(f"{cell.name} {came_of_it}")


async def measured(cell: Cell, directory: Path, say: object) -> Rows:
    (directory / "logs").mkdir()
    (directory / "logs" / "matcher-1.log").write_text("it said why")
    (directory / "matcher-1").mkdir()
    if str(cell.layout) == "1-2-1" and cell.subscriptions == 10:
        raise RuntimeError("the cluster did not come up; its logs are in /there")
    return Rows({"seconds": [(1, 5, 5, 1.0)]}, {"sent": 5, "lost": 0, "summary": "5/s"})


async def test_finished_cells_are_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "measure", measured)
    results, watching = Results(tmp_path, "small", "abc"), Watching()
    failed = Failed("1-2-1_10_flood_1", "the cluster did not come up; its logs are in /there")
    assert await run_plan(PLAN, results, watching) == Outcome(3, 0, [failed])
    assert watching.ended == [f"{name} {'failed' if name == failed.cell else '5/s'}" for name in watching.begun]
    assert len(watching.begun) == 4
    again = Watching()
    assert await run_plan(PLAN, results, again) == Outcome(0, 3, [failed])
    assert again.begun == ["1-2-1_10_flood_1"]


async def test_of_a_cell_that_failed_the_reason_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def succeeds(cell: Cell, directory: Path, say: object) -> Rows:
        return Rows({"seconds": [(1, 5, 5, 1.0)]}, {"sent": 5, "lost": 0})

    monkeypatch.setattr(driver, "measure", measured)
    results = Results(tmp_path, "small", "abc")
    await run_plan(PLAN, results, Watching())
    assert missing_cells(results.directory) == ["1-2-1_10_flood_1"]
    known = [{"cell": "1-2-1_10_flood_1", "reason": "the cluster did not come up; its logs are in /there"}]
    assert failures_of(results.directory) == known
    monkeypatch.setattr(driver, "measure", succeeds)
    await run_plan(PLAN, results, Watching())
    assert missing_cells(results.directory) == []
    assert failures_of(results.directory) == known


async def test_of_a_cell_that_failed_the_logs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "measure", measured)
    results = Results(tmp_path, "small", "abc")
    await run_plan(PLAN, results, Watching())
    assert [path.name for path in (results.directory / "1-2-1_10_flood_1").rglob("*")] == ["logs", "matcher-1.log"]
    assert not (results.directory / "1-1-1_10_flood_1" / "logs").exists()


async def test_whatever_fails_is_told_with_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(cell: Cell, directory: Path, say: object) -> Rows:
        raise ConnectionResetError("by peer")

    monkeypatch.setattr(driver, "measure", fails)
    outcome = await run_plan(PLAN, Results(tmp_path, "small", "abc"), Watching())
    assert {failed.reason for failed in outcome.failed} == {"ConnectionResetError: by peer"}
    assert len(outcome.failed) == 4


async def test_a_workload_that_cannot_be_used_is_told_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(cell: Cell, directory: Path, say: object) -> Rows:
        raise ExperimentError("alarms: subscription 3 cannot be used")

    monkeypatch.setattr(driver, "measure", fails)
    outcome = await run_plan(PLAN, Results(tmp_path, "small", "abc"), Watching())
    assert {failed.reason for failed in outcome.failed} == {"alarms: subscription 3 cannot be used"}


async def test_an_interrupted_cell_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    async def goes_on(cell: Cell, directory: Path, say: object) -> Rows:
        (directory / "matcher-1").mkdir()
        begun.set()
        await asyncio.sleep(60)
        raise AssertionError

    monkeypatch.setattr(driver, "measure", goes_on)
    results = Results(tmp_path, "small", "abc")
    work = asyncio.create_task(run_plan(PLAN, results, Watching()))
    await begun.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert sorted(path.name for path in results.directory.iterdir()) == ["machine.json", "plan.json"]


async def test_another_run_is_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "measure", measured)
    await run_plan(PLAN, Results(tmp_path, "small", "abc"), Watching())
    assert (await run_plan(PLAN, Results(tmp_path, "small", "def"), Watching())).kept == 0


def test_the_newest_run_of_a_commit_goes_on_unless_another_is_wanted(tmp_path: Path) -> None:
    assert run_of(tmp_path, "abc", PLAN, again=False) == run_of(tmp_path, "abc", PLAN, again=True) == "abc"
    (tmp_path / "abc").mkdir()
    assert run_of(tmp_path, "abc", PLAN, again=False) == "abc"
    assert run_of(tmp_path, "abc", PLAN, again=True) == "abc.2"
    (tmp_path / "abc.2").mkdir()
    assert run_of(tmp_path, "abc", PLAN, again=False) == "abc.2"
    assert run_of(tmp_path, "abc", PLAN, again=True) == "abc.3"


def test_another_plan_of_the_same_name_has_a_run_of_its_own(tmp_path: Path) -> None:
    other = PLAN.model_copy(update={"seconds": 20})
    Results(tmp_path, "small", "abc").describe({"began": "now"}, PLAN)
    small = tmp_path / "small"
    assert run_of(small, "abc", PLAN, again=False) == "abc"
    assert run_of(small, "abc", other, again=False) == "abc.2"
    Results(tmp_path, "small", "abc.2").describe({"began": "now"}, other)
    assert run_of(small, "abc", PLAN, again=False) == "abc"
    assert run_of(small, "abc", other, again=False) == "abc.2"
    assert run_of(small, "abc", PLAN, again=True) == "abc.3"


async def test_runs_that_are_left_unfinished_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small, other = tmp_path / "small", PLAN.model_copy(update={"seconds": 20})
    assert list(unfinished(small, "def", "def", PLAN)) == []
    monkeypatch.setattr(driver, "measure", measured)
    await run_plan(PLAN, Results(tmp_path, "small", "abc"), Watching())
    otherwise = "abc has 3 of 4 cells and is left so: it was measured by other code or by another plan. {} begins anew"
    for run, commit, plan in (("def", "def", PLAN), ("abc.2", "abc", other)):
        assert list(unfinished(small, run, commit, plan)) == [otherwise.format(run)]
    again = "abc has 3 of 4 cells and is left so: --again was given. abc.2 begins anew"
    assert list(unfinished(small, "abc.2", "abc", PLAN)) == [again]
    assert list(unfinished(small, "abc", "abc", PLAN)) == []


@pytest.mark.parametrize(("changes_at", "good", "begun"), [(2, 0, 1), (3, 1, 1), (99, 3, 4)])
async def test_what_was_measured_while_the_code_changed_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes_at: int, good: int, begun: int
) -> None:
    """It is asked for once at the beginning, and before and after each cell."""
    looked, clusters = 0, 0

    def code() -> str:
        nonlocal looked
        looked += 1
        return "one" if looked <= changes_at else "another"

    async def counted(cell: Cell, directory: Path, say: object) -> Rows:
        nonlocal clusters
        clusters += 1
        return await measured(cell, directory, say)

    monkeypatch.setattr(driver, "measure", counted)
    results = Results(tmp_path, "small", "abc")
    outcome = await run_plan(PLAN, results, Watching(), code)
    assert (outcome.measured, clusters) == (good, begun)
    changed = [failed for failed in outcome.failed if "the code was changed since this run began" in failed.reason]
    assert len(changed) == (0 if changes_at == 99 else 4 - good)
    assert sum(map(results.is_finished, PLAN.cells())) == good


def test_more_subscriptions_weigh_more() -> None:
    few, _, many, _ = PLAN.cells()
    assert weight_s(few) < weight_s(many)


def test_what_is_not_committed_gives_another_name(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    assert commit_of(tmp_path / "nowhere").startswith("version-")
    git("init")
    for directory in ("braid", "docs"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "file").write_text("one")
    git("add", ".")
    git("commit", "-m", "one")
    clean, code = commit_of(tmp_path), code_of(tmp_path)
    assert len(clean) == 10
    (tmp_path / "docs" / "file").write_text("two")
    (tmp_path / "docs" / "more").write_text("two")
    assert (commit_of(tmp_path), code_of(tmp_path)) == (clean, code)  # a cell runs no document
    git("commit", "-am", "two")
    assert commit_of(tmp_path) != clean
    assert code_of(tmp_path) == code
    clean = commit_of(tmp_path)
    names, codes = {clean}, {code}
    for file, text in (("file", "two"), ("file", "three"), ("new", "four"), ("new", "five")):
        (tmp_path / "braid" / file).write_text(text)  # the last two Git does not know
        names.add(commit_of(tmp_path))
        codes.add(code_of(tmp_path))
    assert len(names) == len(codes) == 5
    assert all(name.startswith(f"{clean}-changed-") for name in names - {clean})


def test_all_packages_are_code_that_runs() -> None:
    tree = Path(__file__).parents[2]
    packages = {path.parent.name for path in tree.glob("*/__init__.py")}
    assert packages - {"tests"} <= set(RUNS)
    assert all((tree / name).exists() for name in RUNS)
