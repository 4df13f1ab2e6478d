"""What runs have measured, for whoever reads it."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark.errors import ExperimentError
from spark.experiments.machine import commit_of
from spark.experiments.results import FAILURES, FINISHED, MACHINE, PLAN, read_json


def runs_of(plan: Path) -> list[Path]:
    """The runs of a plan that have a finished cell, the one that measured last at the end. Raises `ExperimentError`."""
    runs = {path.parent: _last_measured(path.parent) for path in plan.glob(f"*/{MACHINE}")}
    found = sorted((run for run, measured_at in runs.items() if measured_at), key=lambda run: (runs[run], run.name))
    if not found:
        raise ExperimentError(
            f"{plan} holds no results: name the directory of one plan, as 'braid experiment run' has said it"
        )
    return found


def _last_measured(run: Path) -> str:
    """A ledger that cannot be read says nothing of when; whoever needs that run is told of it."""
    return max((str(_if_readable(cell / FINISHED).get("measured_at", "-")) for cell in finished_cells(run)), default="")


def ledgers_of(run: Path) -> list[dict[str, Any]]:
    """Raises `ExperimentError`."""
    ledgers = []
    for cell in finished_cells(run):
        try:
            ledgers.append(read_json(cell / FINISHED))
        except ExperimentError as error:
            raise ExperimentError(f"{error}. {_advice(cell)}") from None
    return ledgers


def machine_of(run: Path) -> dict[str, Any]:
    """Raises `ExperimentError`."""
    try:
        return read_json(run / MACHINE)
    except ExperimentError as error:
        raise ExperimentError(f"{error}. Remove {run} to leave that run out") from None


def finished_cells(run: Path) -> list[Path]:
    """Of those that the plan of the run wants; a run whose plan is not known wants all."""
    wanted = _wanted(run)
    cells = sorted(found.parent for found in run.glob(f"*/{FINISHED}"))
    return [cell for cell in cells if wanted is None or cell.name in wanted]


def cells_of(run: Path) -> tuple[int, int]:
    """How many are finished, and how many there are to be."""
    finished, wanted = len(finished_cells(run)), _wanted(run)
    return finished, finished if wanted is None else len(wanted)


def missing_cells(run: Path) -> list[str]:
    """That the plan wants and that are not finished, in its order."""
    finished = {cell.name for cell in finished_cells(run)}
    return [name for name in _wanted(run) or () if name not in finished]


def failures_of(run: Path) -> list[dict[str, Any]]:
    """`cell` and `reason`, in the order in which they failed. A line that was cut off says nothing."""
    try:
        lines = (run / FAILURES).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            failure = json.loads(line)
            if isinstance(failure, dict) and {"cell", "reason"} <= failure.keys():
                found.append(failure)
    return found


def files_of(run: Path, table: str) -> list[str]:
    """Of all finished cells, each looked at. Raises `ExperimentError`."""
    cells = finished_cells(run)
    if not cells:
        raise ExperimentError(f"{run} holds no finished cell; 'braid experiment run PLAN' makes some")
    files = []
    for cell in cells:
        path = cell / f"{table}.parquet"
        try:
            pq.read_table(path)
        except (OSError, pa.ArrowException) as error:
            raise ExperimentError(f"{path} cannot be read ({error}). {_advice(cell)}") from None
        files.append(str(path))
    return files


def _wanted(run: Path) -> list[str] | None:
    cells = _if_readable(run / PLAN).get("cells")
    return cells if isinstance(cells, list) else None


def _if_readable(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _advice(cell: Path) -> str:
    """What to do about a cell that is damaged."""
    if _goes_on(cell.parent):
        return "Run the plan again: only that cell is measured anew"
    return (
        f"Running the plan again begins another run, because this one is of other code or not the newest. Remove "
        f"{cell} to leave that cell out"
    )


def _goes_on(run: Path) -> bool:
    """Whether running its plan again goes on with it: it is the newest that this code has measured by that plan."""
    commit = commit_of()
    plan = _if_readable(run / PLAN).get("plan")
    numbers = {
        other: int(number.removeprefix(".") or 1)
        for other in run.parent.glob(f"{commit}*")
        if (number := other.name.removeprefix(commit)) == "" or number.removeprefix(".").isdecimal()
        if _if_readable(other / PLAN).get("plan") == plan
    }
    return plan is not None and run in numbers and numbers[run] == max(numbers.values())
