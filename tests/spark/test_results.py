"""What was measured, on disk: a cell counts when all of it is there."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark.errors import ExperimentError
from spark.experiments.configurations import Layout
from spark.experiments.plan import Cell
from spark.experiments.results import TABLES, Results, Rows, files_of, finished_cells

CELL = Cell(Layout(1, 2, 1), 1000, 0.0, 1)
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


def test_without_any_cell_it_says_how_to_make_some(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="holds no finished cell; 'braid experiment run PLAN' makes some"):
        files_of(tmp_path, "seconds")
