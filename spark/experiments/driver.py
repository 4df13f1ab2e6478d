"""Goes through a plan, cell by cell. Finished cells are kept, so that whoever is interrupted goes on where he was."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from spark.errors import ExperimentError
from spark.experiments.machine import code_of, machine
from spark.experiments.measuring import measure
from spark.experiments.plan import Cell, Plan
from spark.experiments.results import Results, Rows

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

    def begin(self, cell: Cell) -> None: ...
    def say(self, what: str) -> None: ...
    def end(self, cell: Cell, came_of_it: str) -> None: ...


async def run_plan(plan: Plan, results: Results, watcher: Watcher, code: Callable[[], str] = code_of) -> Outcome:
    """A cell that fails does not end the others, and is tried again by the next run.

    `code` says what a cell would run now. Cells start processes from files, so it may change under a run.
    """
    results.describe(machine(), plan)
    began_with = code()

    async def check_code() -> None:
        if await asyncio.to_thread(code) != began_with:
            raise RuntimeError(
                f"the code was changed since this run began, so it is not what {results.directory.name} names: go back "
                "to it, or let the plan begin another run"
            )

    measured, kept, failed = 0, 0, []
    for cell in plan.cells():
        if results.is_finished(cell):
            kept += 1
            continue
        watcher.begin(cell)
        try:
            await check_code()
            rows = await _measured(cell, results, watcher)
            await check_code()
            await asyncio.to_thread(results.write, cell, rows)
        except Exception as error:  # whatever it was, the next cell has a cluster of its own
            results.give_up(cell)
            failed.append(Failed(cell.name, _reason(error)))
            results.note_failure(cell, failed[-1].reason)
            watcher.end(cell, "failed")
        else:
            measured += 1
            watcher.end(cell, str(rows.ledger.get("summary", "")))
    return Outcome(measured, kept, failed)


async def _measured(cell: Cell, results: Results, watcher: Watcher) -> Rows:
    began = time.monotonic()
    try:
        rows = await measure(cell, results.begin(cell), watcher.say)
    except asyncio.CancelledError:
        results.forget(cell)
        raise
    times = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "took_s": round(time.monotonic() - began, 1),
    }
    return rows._replace(ledger={**rows.ledger, **times})


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, RuntimeError | ExperimentError) else f"{type(error).__name__}: {error}"


def weight_s(cell: Cell) -> float:
    traffic_s = cell.warm_up_s + cell.seconds
    if cell.scaling is not None:
        steps = len(cell.scaling.steps)
        traffic_s = (steps + 1) * cell.scaling.calm_s + steps * _STEP_S + 5
    return _START_S + cell.subscriptions / _LOADED_PER_S + traffic_s
