"""What runs have measured, for whoever reads it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark.errors import ExperimentError
from spark.experiments.results import FINISHED, MACHINE, read_json


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
    return max((str(ledger.get("measured_at", "-")) for ledger in ledgers_of(run)), default="")


def ledgers_of(run: Path) -> list[dict[str, Any]]:
    return [read_json(cell / FINISHED) for cell in finished_cells(run)]


def machine_of(run: Path) -> dict[str, Any]:
    return read_json(run / MACHINE)


def finished_cells(run: Path) -> list[Path]:
    return sorted(found.parent for found in run.glob(f"*/{FINISHED}"))


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
            raise ExperimentError(
                f"{path} cannot be read ({error}). Run the plan again: only that cell is measured anew"
            ) from None
        files.append(str(path))
    return files
