"""What was measured, on disk: a cell counts when all of it is there."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark.errors import ExperimentError
from spark.experiments.configurations import Layout
from spark.experiments.finished import files_of, finished_cells, runs_of
from spark.experiments.machine import machine
from spark.experiments.plan import Cell
from spark.experiments.results import TABLES, Results, Rows

CELL = Cell(layout=Layout(1, 2, 1), subscriptions=1000, seconds=2)
ROWS = Rows({"seconds": [(1, 10, 9), (2, 11, 12)]}, {"sent": 21, "lost": 0})


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
    }


def test_a_cell_that_was_interrupted_does_not_count(tmp_path: Path) -> None:
    results = Results(tmp_path, "quick", "abc")
    results.write(CELL, ROWS)
    (results.directory / CELL.name / "cell.json").unlink()
    assert not results.is_finished(CELL)
    assert finished_cells(results.directory) == []
    results.write(CELL, ROWS)
    assert results.is_finished(CELL)


def test_a_corrupt_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    results = Results(tmp_path, "quick", "abc")
    results.write(CELL, ROWS)
    (results.directory / CELL.name / "seconds.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ExperimentError, match=r"seconds\.parquet cannot be read .* only that cell is measured anew"):
        files_of(results.directory, "seconds")
    assert files_of(results.directory, "usage")
    assert not results.is_finished(CELL)


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
    results.describe(machine())
    results.write(CELL, ROWS)
    (results.directory / CELL.name / "cell.json").write_text('{"cell"')
    assert not results.is_finished(CELL)
    with pytest.raises(ExperimentError, match=r"cell\.json cannot be read .*Remove it and run the plan again"):
        runs_of(tmp_path / "quick")


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
    results.describe({"cores": 2, "processor": "old", "began": "then"})
    results.describe({"cores": 2, "processor": "old", "began": "now"}, "A title")
    assert '"began": "then"' in (results.directory / "machine.json").read_text()
    with pytest.raises(ExperimentError, match=r"was measured on another machine \(2 cores, old\): give another --out"):
        results.describe({"cores": 64, "processor": "new", "began": "now"})


def test_runs_are_known_in_the_order_in_which_they_measured(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="holds no results"):
        runs_of(tmp_path / "quick")
    for run, measured_at in (("b", "2026-01-01"), ("a", "2026-01-02"), ("c", "2025-12-31")):
        results = Results(tmp_path, "quick", run)
        results.describe(machine())
        results.write(CELL, ROWS._replace(ledger={"measured_at": measured_at}))
    Results(tmp_path, "quick", "nothing yet").describe(machine())
    assert [run.name for run in runs_of(tmp_path / "quick")] == ["c", "b", "a"]


def test_without_any_cell_it_says_how_to_make_some(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="holds no finished cell; 'braid experiment run PLAN' makes some"):
        files_of(tmp_path, "seconds")
