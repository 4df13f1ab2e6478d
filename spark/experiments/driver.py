"""Goes through a plan, cell by cell. Finished cells are kept, so that whoever is interrupted goes on where he was."""

import asyncio
import os
import platform
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

import psutil

from braid.version import VERSION
from spark.experiments.measuring import measure
from spark.experiments.plan import Cell, Plan
from spark.experiments.results import Results

# Seconds, measured on two cores; they only weigh cells against one another in the time that is left.
_START_S, _LOADED_PER_S, _STEP_S = 8.0, 3_000, 8.0


class Failed(NamedTuple):
    cell: str
    reason: str


class Outcome(NamedTuple):
    measured: int
    kept: int  # were finished before
    failed: list[Failed]


class Watcher(Protocol):
    """Whoever shows how far it is."""

    def begin(self, cell: Cell, weight_s: float) -> None: ...
    def say(self, what: str) -> None: ...
    def end(self, cell: Cell, weight_s: float) -> None: ...


async def run_plan(plan: Plan, results: Results, watcher: Watcher) -> Outcome:
    """A cell that fails does not end the others, and is tried again by the next run."""
    results.describe(machine())
    measured, kept, failed = 0, 0, []
    for cell in plan.cells():
        if results.is_finished(cell):
            kept += 1
            continue
        watcher.begin(cell, weight_s(plan, cell))
        try:
            rows = await measure(plan, cell, watcher.say)
            await asyncio.to_thread(results.write, cell, rows)
            measured += 1
        except (RuntimeError, TimeoutError, AssertionError, OSError) as error:
            failed.append(Failed(cell.name, str(error) or type(error).__name__))
        watcher.end(cell, weight_s(plan, cell))
    return Outcome(measured, kept, failed)


def weight_s(plan: Plan, cell: Cell) -> float:
    traffic_s = plan.warm_up_s + plan.seconds
    if cell.scaling is not None:
        steps = len(cell.scaling.steps)
        traffic_s = (steps + 1) * cell.scaling.calm_s + steps * _STEP_S + 5
    return _START_S + cell.subscriptions / _LOADED_PER_S + traffic_s


def machine() -> dict[str, object]:
    return {
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "braid": VERSION,
        "began": datetime.now(UTC).isoformat(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def commit_of(run: Callable[..., "subprocess.CompletedProcess[str]"] = subprocess.run) -> str:
    """Of the tree this runs from, with `-changed` when something in it is not committed; else the version."""
    here = Path(__file__).parent
    try:
        commit = run(["git", "rev-parse", "--short=10", "HEAD"], cwd=here, capture_output=True, text=True, check=True)
        changes = run(
            ["git", "status", "--porcelain", "-uno"], cwd=here, capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return f"version-{VERSION}"
    return commit.stdout.strip() + ("-changed" if changes.strip() else "")
