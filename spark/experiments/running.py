"""`braid experiment run`: a plan from its beginning, or from where it was interrupted, to its end, with a bar."""

import asyncio
import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from spark.errors import ExperimentError
from spark.experiments.driver import Outcome, commit_of, run_plan, weight_s
from spark.experiments.plan import Cell, Plan, read_plan
from spark.experiments.results import Results
from spark.requests import Run


def run_experiment(request: Run) -> dict[str, Any]:
    plan = read_plan(request.plan)
    results = Results(request.out, plan.name, commit_of())
    try:
        with Shown(plan, results) as shown:
            outcome = asyncio.run(run_plan(plan, results, shown))
    except KeyboardInterrupt:
        raise ExperimentError(
            f"interrupted; finished cells are kept in {results.directory}. The same command goes on with the others"
        ) from None
    if outcome.failed:
        raise ExperimentError(_failures(outcome, results))
    return {
        "made": "measurements",
        "plan": plan.name,
        "commit": results.directory.name,
        "cells": outcome.measured,
        "kept": outcome.kept,
        "out": str(results.directory.parent),
    }


def _failures(outcome: Outcome, results: Results) -> str:
    lines = [f"  {failed.cell}: {failed.reason}" for failed in outcome.failed]
    kept = f"{outcome.measured + outcome.kept} finished cells are kept in {results.directory}"
    return "\n".join([f"{len(lines)} cells failed; {kept}; the same command tries these again:", *lines])


class Shown:
    """A bar on a terminal, a line for each cell elsewhere."""

    def __init__(self, plan: Plan, results: Results) -> None:
        cells = list(plan.cells())
        self._total_s = sum(weight_s(plan, cell) for cell in cells if not results.is_finished(cell))
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("elapsed"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not sys.stderr.isatty(),
            speed_estimate_period=3600,  # cells differ, so all of them tell how fast it goes
        )
        self._task = self._bar.add_task("", total=self._total_s)
        self._cell = ""

    def __enter__(self) -> "Shown":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, cell: Cell, weight_s: float) -> None:
        self._cell = cell.name
        if self._bar.disable:
            self._console.print(cell.name, highlight=False)
        self.say("")

    def say(self, what: str) -> None:
        self._bar.update(self._task, description=f"{self._cell}: {what}" if what else self._cell)

    def end(self, cell: Cell, weight_s: float) -> None:
        self._bar.advance(self._task, weight_s)
