"""Where measurements lie, and which of them are finished.

    DIRECTORY/<plan>/<commit>/machine.json
    DIRECTORY/<plan>/<commit>/<cell>/<table>.parquet
    DIRECTORY/<plan>/<commit>/<cell>/cell.json        written last: without it the cell is not finished

Tables are small and written whole, each with the columns of its cell before its own, so that all files of one table can
be read as one.
"""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from spark.errors import ExperimentError
from spark.experiments.plan import Cell

_FINISHED = "cell.json"
_CELL = [
    ("configuration", pa.string()),
    ("accesspoints", pa.int32()),
    ("matchers", pa.int32()),
    ("exitpoints", pa.int32()),
    ("subscriptions", pa.int64()),
    ("rate", pa.float64()),
    ("repetition", pa.int32()),
]
TABLES: dict[str, list[tuple[str, Any]]] = {
    # Every second of a measurement.
    "seconds": [("second", pa.int32()), ("published", pa.int64()), ("delivered", pa.int64())],
    # How many deliveries took at most so long, and longer than the bound before; of one part of the measurement.
    "latencies": [("part", pa.string()), ("upper_ms", pa.float64()), ("count", pa.int64())],
    # Every second of a slice: processor time it used in it, and memory at its end.
    "usage": [
        ("second", pa.int32()),
        ("slice", pa.string()),
        ("layer", pa.string()),
        ("cpu_s", pa.float64()),
        ("rss_bytes", pa.int64()),
    ],
    # Of a live scaling: deliveries in bins of `width_s`, and when phases began and ended, in seconds since it began.
    "bins": [("step", pa.string()), ("at_s", pa.float64()), ("width_s", pa.float64()), ("delivered", pa.int64())],
    "phases": [
        ("step", pa.string()),
        ("phase", pa.string()),
        ("begin_s", pa.float64()),
        ("end_s", pa.float64()),
        ("moved", pa.int64()),
    ],
}


class Rows(NamedTuple):
    """What was measured in one cell: rows of each table, and the ledger."""

    tables: Mapping[str, Iterable[tuple[Any, ...]]]
    ledger: dict[str, Any]


class Results:
    def __init__(self, directory: Path, plan: str, commit: str) -> None:
        self.directory = directory / plan / commit

    def is_finished(self, cell: Cell) -> bool:
        return (self.directory / cell.name / _FINISHED).is_file()

    def write(self, cell: Cell, rows: Rows) -> None:
        """All of it, or the cell does not count."""
        place = self.directory / cell.name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        known = (str(cell.layout), *cell.layout, cell.subscriptions, cell.rate, cell.repetition)
        for table, columns in TABLES.items():
            schema = pa.schema([*_CELL, *columns])
            records = [dict(zip(schema.names, (*known, *row), strict=True)) for row in rows.tables.get(table, ())]
            pq.write_table(pa.Table.from_pylist(records, schema), place / f"{table}.parquet")
        unfinished = place / f"{_FINISHED}.new"
        unfinished.write_text(json.dumps({"cell": cell.name, **rows.ledger}, indent=2))
        os.replace(unfinished, place / _FINISHED)

    def describe(self, machine: dict[str, Any]) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "machine.json").write_text(json.dumps(machine, indent=2))


def finished_cells(directory: Path) -> list[Path]:
    """Of one plan and commit."""
    return sorted(found.parent for found in directory.glob(f"*/{_FINISHED}"))


def files_of(directory: Path, table: str) -> list[str]:
    """Of all finished cells, each looked at. Raises `ExperimentError`."""
    cells = finished_cells(directory)
    if not cells:
        raise ExperimentError(f"{directory} holds no finished cell; 'braid experiment run PLAN' makes some")
    files = []
    for cell in cells:
        path = cell / f"{table}.parquet"
        try:
            pq.read_metadata(path)
        except (OSError, pa.ArrowException) as error:
            raise ExperimentError(
                f"{path} cannot be read ({error}). "
                f"Remove {cell} and run the plan again: only that cell is measured anew"
            ) from None
        files.append(str(path))
    return files
