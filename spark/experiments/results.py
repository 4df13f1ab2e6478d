"""Where measurements lie, and which of them are finished.

    DIRECTORY/<plan>/<run>/machine.json
    DIRECTORY/<plan>/<run>/plan.json               what is to be measured, which does not change in a run
    DIRECTORY/<plan>/<run>/failures.ndjson         cells that failed, also those that were measured later
    DIRECTORY/<plan>/<run>/<cell>/<table>.parquet
    DIRECTORY/<plan>/<run>/<cell>/cell.json        written last: without it the cell is not finished

A run has the name of its commit, and a number behind it when it is not the first of that commit. What a cell has
measured is there until it was measured anew. Tables are small and
written whole, each with the columns of its cell before its own, so that all files of one table can be read as one.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from spark.errors import ExperimentError
from spark.experiments.plan import Cell, Plan

FINISHED = "cell.json"
MACHINE = "machine.json"
PLAN = "plan.json"
FAILURES = "failures.ndjson"
_LOCK = "lock"
LOGS = "logs"  # of a cell that failed
_CELL = [
    ("configuration", pa.string()),
    ("accesspoints", pa.int32()),
    ("matchers", pa.int32()),
    ("exitpoints", pa.int32()),
    ("subscriptions", pa.int64()),
    ("rate", pa.float64()),
    ("scaling", pa.string()),  # its steps; empty where nothing scales
    ("repetition", pa.int32()),
]
TABLES: dict[str, list[tuple[str, Any]]] = {
    # Every second of a measurement, and how long it really lasted: whoever was kept from looking makes one long one.
    "seconds": [
        ("second", pa.int32()),
        ("published", pa.int64()),
        ("delivered", pa.int64()),
        ("lasted_s", pa.float64()),
    ],
    # How many deliveries took at most so long, and longer than the bound before; of one part of the measurement.
    "latencies": [("part", pa.string()), ("upper_ms", pa.float64()), ("count", pa.int64())],
    # Every second of a slice: processor time it used in it, and memory at its end. What is no slice has a layer of its
    # own: `load` is whatever publishes and receives, `machine` all processes together, `stolen` what the host gave to
    # other machines.
    "usage": [
        ("second", pa.int32()),
        ("slice", pa.string()),
        ("layer", pa.string()),
        ("cpu_s", pa.float64()),
        ("rss_bytes", pa.int64()),
        ("lasted_s", pa.float64()),
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

_MEASURED = (FINISHED, *(f"{table}.parquet" for table in TABLES))
_NEW = ".parquet.new"


class Rows(NamedTuple):
    """What was measured in one cell: rows of each table, and the ledger."""

    tables: Mapping[str, Iterable[tuple[Any, ...]]]
    ledger: dict[str, Any]


class Results:
    def __init__(self, directory: Path, plan: str, run: str) -> None:
        self.directory = directory / plan / run

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Raises `ExperimentError` when somebody else writes here. A lock does not outlive its process."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            lock = (self.directory / _LOCK).open("ab")
        except OSError as error:
            raise ExperimentError(f"cannot write to {self.directory}: {error.strerror}") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ExperimentError(
                    f"another 'braid experiment run' is measuring into {self.directory}; wait for it, or give --out"
                ) from None
            yield

    def is_finished(self, cell: Cell) -> bool:
        """Measured as the plan says now, and all of it can be read."""
        ledger = _whole(self.directory / cell.name)
        return ledger is not None and ledger.get("as") == cell.model_dump(mode="json")

    def begin(self, cell: Cell) -> Path:
        """The directory of the cell: the cluster works in it. What was measured there before stays until `write`."""
        place = self.directory / cell.name
        self._clear(place)
        place.mkdir(parents=True, exist_ok=True)
        return place

    def forget(self, cell: Cell) -> None:
        """What was begun; not what was measured before."""
        place = self.directory / cell.name
        self._clear(place)
        if place.exists() and not any(place.iterdir()):
            place.rmdir()

    def give_up(self, cell: Cell) -> None:
        """What the cluster logged is kept, its data not."""
        self._clear(self.directory / cell.name, LOGS)

    def note_failure(self, cell: Cell, reason: str) -> None:
        """It is kept when the cell is measured later: a report of what went well would say nothing of what did not."""
        with (self.directory / FAILURES).open("a", encoding="utf-8") as failures:
            failures.write(json.dumps({"cell": cell.name, "reason": reason}) + "\n")

    def _clear(self, place: Path, *kept: str) -> None:
        """Without what was measured, if that is whole."""
        if _whole(place) is not None:
            kept = (*kept, *_MEASURED)
        for path in place.glob("*"):
            if path.name not in kept:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def write(self, cell: Cell, rows: Rows) -> None:
        """All of it, or the cell does not count. What was there is replaced when all of the new is written."""
        place = self.begin(cell)
        known = (str(cell.layout), *cell.layout, cell.subscriptions, cell.rate, cell.steps, cell.repetition)
        for table, columns in TABLES.items():
            schema = pa.schema([*_CELL, *columns])
            records = [dict(zip(schema.names, (*known, *row), strict=True)) for row in rows.tables.get(table, ())]
            pq.write_table(pa.Table.from_pylist(records, schema), place / f"{table}{_NEW}")
        (place / FINISHED).unlink(missing_ok=True)
        for table in TABLES:
            os.replace(place / f"{table}{_NEW}", place / f"{table}.parquet")
        _write_json(place / FINISHED, {"cell": cell.name, "as": cell.model_dump(mode="json"), **rows.ledger})

    def describe(self, machine: dict[str, Any], plan: Plan) -> None:
        """Raises `ExperimentError` when there are results of another machine, or of another plan."""
        if not is_of_plan(self.directory, plan):
            raise ExperimentError(
                f"{self.directory} was measured by another plan: give this one another name, or --out"
            )
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / MACHINE
        known = read_json(path) if path.exists() else machine
        for what in ("processor", "cores"):
            if known.get(what) != machine.get(what):
                raise ExperimentError(
                    f"{self.directory} was measured on another machine ({known.get('cores')} cores, "
                    f"{known.get('processor')}): give another --out"
                )
        _write_json(path, {**known, **machine, "began": known.get("began", machine["began"]), "title": plan.title})
        cells = [cell.name for cell in plan.cells()]
        _write_json(self.directory / PLAN, {"plan": _content(plan), "cells": cells})


def is_of_plan(run: Path, plan: Plan) -> bool:
    """What it says is to be measured is what this plan says; or it has measured nothing yet."""
    if not (run / PLAN).exists():
        return not any(run.glob(f"*/{FINISHED}"))
    try:
        known = json.loads((run / PLAN).read_text())
    except (OSError, ValueError):
        return False
    return isinstance(known, dict) and known.get("plan") == _content(plan)


def _content(plan: Plan) -> dict[str, Any]:
    return plan.model_dump(mode="json", exclude={"title"})


def _whole(place: Path) -> dict[str, Any] | None:
    """The ledger of a cell of which everything can be read."""
    try:
        ledger = json.loads((place / FINISHED).read_text())
        for table in TABLES:
            pq.read_table(place / f"{table}.parquet")
    except (OSError, ValueError, pa.ArrowException):
        return None
    return ledger if isinstance(ledger, dict) else None


def _write_json(path: Path, value: dict[str, Any]) -> None:
    """Whole or not at all."""
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.write_text(json.dumps(value, indent=2))
    os.replace(unfinished, path)


def read_json(path: Path) -> dict[str, Any]:
    """Raises `ExperimentError`."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ExperimentError(f"{path} cannot be read ({error})") from None
    if not isinstance(value, dict):
        raise ExperimentError(f"{path} is damaged")
    return value
