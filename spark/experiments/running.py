"""`braid experiment run`: a plan from its beginning, or from where it was interrupted, to its end."""

import asyncio
import signal
from pathlib import Path
from typing import Any

from spark.errors import ExperimentError
from spark.experiments.driver import Outcome, Watcher, run_plan
from spark.experiments.machine import commit_of
from spark.experiments.plan import Plan, read_plan
from spark.experiments.results import Results
from spark.experiments.showing import Shown
from spark.requests import Run

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_experiment(request: Run) -> dict[str, Any]:
    plan = read_plan(request.plan)
    results = Results(request.out, plan.name, run_of(request.out / plan.name, commit_of(), again=request.again))
    with results.locked(), Shown(plan, results) as shown:
        outcome = asyncio.run(_until_interrupted(plan, results, shown))
    if outcome is None:
        raise ExperimentError(
            f"interrupted; finished cells are kept in {results.directory}. The same command"
            f"{' without --again' if request.again else ''} goes on with the others"
        )
    if outcome.failed:
        raise ExperimentError(_failures(outcome, results))
    return {
        "made": "measurements",
        "plan": plan.name,
        "run": results.directory.name,
        "cells": outcome.measured,
        "kept": outcome.kept,
        "out": str(results.directory),
        "next": f"braid experiment report {results.directory.parent}",
    }


def run_of(plan: Path, commit: str, *, again: bool) -> str:
    """The newest run of a commit, which goes on; or the next one."""
    number = 1
    while (plan / _named(commit, number + 1)).exists():
        number += 1
    if again and (plan / _named(commit, number)).exists():
        number += 1
    return _named(commit, number)


def _named(commit: str, number: int) -> str:
    return commit if number == 1 else f"{commit}.{number}"


async def _until_interrupted(plan: Plan, results: Results, watcher: Watcher) -> Outcome | None:
    """None when a signal ended it. Whatever a cell has started is stopped first."""
    loop = asyncio.get_running_loop()
    work = asyncio.create_task(run_plan(plan, results, watcher))
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup asks to go on without a terminal
            loop.add_signal_handler(number, work.cancel)
    try:
        return await work
    except asyncio.CancelledError:
        return None


def _failures(outcome: Outcome, results: Results) -> str:
    lines = [f"  {failed.cell}: {failed.reason}" for failed in outcome.failed]
    kept = f"{outcome.measured + outcome.kept} finished cells are kept in {results.directory}"
    return "\n".join([f"{len(lines)} cells failed; {kept}; the same command tries these again:", *lines])
