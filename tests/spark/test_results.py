"""What was measured, on disk: a cell counts when all of it is there."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark.errors import ExperimentError
from spark.experiments import finished
from spark.experiments.finished import (
    cells_of,
    failures_of,
    files_of,
    finished_cells,
    ledgers_of,
    missing_cells,
    runs_of,
)
from spark.experiments.machine import machine
from spark.experiments.plan import Plan
from spark.experiments.results import TABLES, Results, Rows

QUICK = Plan(name="quick", title="A title", configurations=["1-2-1"], subscriptions=[1000], seconds=2)
(CELL,) = QUICK.cells()
ROWS = Rows({"seconds": [(1, 10, 9, 1.0), (2, 11, 12, 1.0)]}, {"sent": 21, "lost": 0})


def test_a_cell_is_written_with_its_columns(tmp_path: Path) -> None:
    results = Results(tmp_path, "quick", "abc")
    assert not results.is_finished(CELL)
    results.write(CELL, ROWS)
    assert results.is_finished(CELL)
    assert set(TABLES) == {path.stem for path in (tmp_path / "quick/abc" / CELL.name).glob("*.parquet")}
    (path,) = files_of(tmp_path / "quick/abc", "seconds")
    first = pq.read_table(path).to_pylist()[0]
    assert first == {
        "configuration": "1-2-1",
        "accesspoints": 1,
        "matchers": 2,
        "exitpoints": 1,
        "subscriptions": 1000,
        "rate": 0.0,
        "scaling": "",
        "repetition": 1,
        "second": 1,
        "published": 10,
        "delivered": 9,
        "lasted_s": 1.0,
    }


def test_a_cell_that_was_interrupted_does_not_count(tmp_path: Path) -> None:
    results = Results(tmp_path, "quick", "abc")
    results.write(CELL, ROWS)
    (results.directory / CELL.name / "cell.json").unlink()
    assert not results.is_finished(CELL)
    assert finished_cells(results.directory) == []
    results.write(CELL, ROWS)
    assert results.is_finished(CELL)


def test_a_corrupt_file_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finished, "commit_of", lambda: "abc")
    results = Results(tmp_path, "quick", "abc")
    results.describe(machine(), QUICK)
    results.write(CELL, ROWS)
    (results.directory / CELL.name / "seconds.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ExperimentError, match=r"seconds\.parquet cannot be read .* only that cell is measured anew"):
        files_of(results.directory, "seconds")
    assert files_of(results.directory, "usage")
    assert not results.is_finished(CELL)


@pytest.mark.parametrize(("commit", "newer"), [("def", "def"), ("abc", "abc.2"), ("ab", "ab")])
def test_what_would_not_help_is_not_advised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: str, newer: str
) -> None:
    monkeypatch.setattr(finished, "commit_of", lambda: commit)
    results = Results(tmp_path, "quick", "abc")
    results.describe(machine(), QUICK)
    results.write(CELL, ROWS)
    Results(tmp_path, "quick", newer).describe(machine(), QUICK)
    (results.directory / CELL.name / "seconds.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ExperimentError, match=r"begins another run, .* Remove .*1-2-1_1000_flood_1 to leave that cell"):
        files_of(results.directory, "seconds")


def test_a_file_that_is_damaged_in_its_middle_is_found(tmp_path: Path) -> None:
    results = Results(tmp_path, "quick", "abc")
    results.write(CELL, ROWS)
    path = results.directory / CELL.name / "seconds.parquet"
    whole = bytearray(path.read_bytes())
    whole[4:40] = bytes(36)  # the footer, which says where everything is, stays as it was
    path.write_bytes(whole)
    assert not results.is_finished(CELL)
    with pytest.raises(ExperimentError, match=r"seconds\.parquet cannot be read"):
        files_of(results.directory, "seconds")


def test_a_damaged_ledger_is_named(tmp_path: Path) -> None:
    results = Results(tmp_path, "quick", "abc")
    results.describe(machine(), QUICK)
    results.write(CELL, ROWS)
    (results.directory / CELL.name / "cell.json").write_text('{"cell"')
    assert not results.is_finished(CELL)
    with pytest.raises(ExperimentError, match=r"cell\.json cannot be read .*Remove .* to leave that cell out"):
        ledgers_of(results.directory)


def test_a_damaged_ledger_of_one_run_does_not_hide_the_others(tmp_path: Path) -> None:
    for run in ("a", "b"):
        results = Results(tmp_path, "quick", run)
        results.describe(machine(), QUICK)
        results.write(CELL, ROWS._replace(ledger={"measured_at": "2026-01-01"}))
    (tmp_path / "quick/a" / CELL.name / "cell.json").write_text('{"cell"')
    assert [run.name for run in runs_of(tmp_path / "quick")] == ["a", "b"]
    (tmp_path / "quick/a/plan.json").write_text("{")
    assert [run.name for run in runs_of(tmp_path / "quick")] == ["a", "b"]


def test_what_was_measured_stays_until_it_is_measured_anew(tmp_path: Path) -> None:
    results = Results(tmp_path, "quick", "abc")
    results.write(CELL, ROWS)
    longer = CELL.model_copy(update={"seconds": 20})
    for end in (results.give_up, results.forget):
        place = results.begin(longer)
        (place / "matcher-1").mkdir()
        assert results.is_finished(CELL)
        end(longer)
        assert results.is_finished(CELL)
        assert not (place / "matcher-1").exists()
    (results.begin(longer) / "logs").mkdir()
    results.write(longer, ROWS._replace(ledger={"sent": 5}))
    assert results.is_finished(longer)
    names = {path.name for path in (results.directory / CELL.name).iterdir()}
    assert names == {"cell.json", *(f"{table}.parquet" for table in TABLES)}


def test_a_run_is_of_one_plan(tmp_path: Path) -> None:
    results = Results(tmp_path, "quick", "abc")
    results.describe(machine(), QUICK)
    results.describe(machine(), QUICK.model_copy(update={"title": "Another title"}))
    other = QUICK.model_copy(update={"subscriptions": [1000, 2000], "seconds": 20})
    with pytest.raises(ExperimentError, match="was measured by another plan: give this one another name, or --out"):
        results.describe(machine(), other)


def test_only_cells_of_the_plan_are_read(tmp_path: Path) -> None:
    results = Results(tmp_path, "quick", "abc")
    results.describe(machine(), QUICK)
    results.write(CELL.model_copy(update={"subscriptions": 7}), ROWS)
    assert finished_cells(results.directory) == []
    assert cells_of(results.directory) == (0, 1)
    results.write(CELL, ROWS)
    assert [cell.name for cell in finished_cells(results.directory)] == [CELL.name]
    assert cells_of(results.directory) == (1, 1)


def test_what_a_plan_wants_and_has_not_is_known(tmp_path: Path) -> None:
    plan = QUICK.model_copy(update={"configurations": ["1-2-1", "1-1-1"]})
    results = Results(tmp_path, "quick", "abc")
    assert missing_cells(results.directory) == []  # nobody knows what is wanted
    results.describe(machine(), plan)
    assert missing_cells(results.directory) == ["1-2-1_1000_flood_1", "1-1-1_1000_flood_1"]
    results.write(CELL, ROWS)
    assert missing_cells(results.directory) == ["1-1-1_1000_flood_1"]


def test_a_failure_is_known_when_the_cell_was_measured_later(tmp_path: Path) -> None:
    results = Results(tmp_path, "quick", "abc")
    results.describe(machine(), QUICK)
    assert failures_of(results.directory) == []
    results.note_failure(CELL, "its cluster\ndid not come up")
    results.write(CELL, ROWS)
    with (results.directory / "failures.ndjson").open("a") as failures:
        failures.write('{"cell": "1-2-1_10')
    assert failures_of(results.directory) == [{"cell": CELL.name, "reason": "its cluster\ndid not come up"}]


def test_a_cell_that_the_plan_wants_otherwise_by_now_is_measured_anew(tmp_path: Path) -> None:
    results = Results(tmp_path, "quick", "abc")
    results.write(CELL, ROWS)
    longer = CELL.model_copy(update={"seconds": 20})
    assert longer.name == CELL.name
    assert not results.is_finished(longer)


def test_one_run_is_measured_by_one_process(tmp_path: Path) -> None:
    results = Results(tmp_path, "quick", "abc")
    with results.locked():
        with pytest.raises(ExperimentError, match="another 'braid experiment run' is measuring into"):
            with Results(tmp_path, "quick", "abc").locked():
                pass
    with results.locked():
        pass


def test_results_of_two_machines_are_not_mixed(tmp_path: Path) -> None:
    results = Results(tmp_path, "quick", "abc")
    results.describe({"cores": 2, "processor": "old", "began": "then"}, QUICK)
    results.describe({"cores": 2, "processor": "old", "began": "now"}, QUICK)
    assert '"began": "then"' in (results.directory / "machine.json").read_text()
    with pytest.raises(ExperimentError, match=r"was measured on another machine \(2 cores, old\): give another --out"):
        results.describe({"cores": 64, "processor": "new", "began": "now"}, QUICK)


def test_runs_are_known_in_the_order_in_which_they_measured(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="holds no results"):
        runs_of(tmp_path / "quick")
    for run, measured_at in (("b", "2026-01-01"), ("a", "2026-01-02"), ("c", "2025-12-31")):
        results = Results(tmp_path, "quick", run)
        results.describe(machine(), QUICK)
        results.write(CELL, ROWS._replace(ledger={"measured_at": measured_at}))
    Results(tmp_path, "quick", "nothing yet").describe(machine(), QUICK)
    assert [run.name for run in runs_of(tmp_path / "quick")] == ["c", "b", "a"]


def test_without_any_cell_it_says_how_to_make_some(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="holds no finished cell; 'braid experiment run PLAN' makes some"):
        files_of(tmp_path, "seconds")
