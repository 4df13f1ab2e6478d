"""`braid experiment run`: a plan from its beginning, or from where it was interrupted, to its end."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spark.errors import ExperimentError
from spark.experiments.driver import Outcome, Watcher, run_plan
from spark.experiments.finished import cells_of, runs_of
from spark.experiments.machine import commit_of
from spark.experiments.plan import Plan, read_plan
from spark.experiments.results import Results, is_of_plan
from spark.experiments.showing import Shown
from spark.experiments.workloads import check_workload
from spark.requests import Run

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_experiment(request: Run) -> dict[str, Any]:
    plan = read_plan(request.plan)
    check_workload(plan)
    everything = request.out / plan.name
    commit = commit_of()
    run = run_of(everything, commit, plan, again=request.again)
    notes = list(unfinished(everything, run, commit, plan)) if not (everything / run).exists() else []
    results = Results(request.out, plan.name, run)
    with results.locked(), Shown(plan, results) as shown:
        for note in notes:
            shown.note(note)
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


def run_of(everything: Path, commit: str, plan: Plan, *, again: bool) -> str:
    """The newest run of a commit and of what the plan says, which goes on; or the next one."""
    number = 0
    while (everything / _named(commit, number + 1)).exists():
        number += 1
    if not again:
        for known in range(number, 0, -1):
            if is_of_plan(everything / _named(commit, known), plan):
                return _named(commit, known)
    return _named(commit, number + 1)


def unfinished(everything: Path, run: str, commit: str, plan: Plan) -> Iterator[str]:
    """What to say of other runs when this one begins: whoever wants to go on with one may not know that he does not."""
    try:
        others = runs_of(everything)
    except ExperimentError:
        return
    for other in others:
        finished, wanted = cells_of(other)
        if other.name != run and finished < wanted:
            is_same = _is_of(commit, other.name) and is_of_plan(other, plan)  # and would go on without --again
            why = "--again was given" if is_same else "it was measured by other code or by another plan"
            yield f"{other.name} has {finished} of {wanted} cells and is left so: {why}. {run} begins anew"


def _is_of(commit: str, run: str) -> bool:
    before, _, number = run.rpartition(".")
    return run == commit or (before == commit and number.isdecimal())


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
