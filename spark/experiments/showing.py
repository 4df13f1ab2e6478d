"""How far a plan is: a bar with the time left on a terminal, a line for each cell everywhere."""

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar
from rich.text import Text

from spark.experiments.driver import weight_s
from spark.experiments.pace import Pace
from spark.experiments.plan import Cell, Plan
from spark.experiments.results import Results


class Shown:
    def __init__(self, plan: Plan, results: Results) -> None:
        self._waiting = [cell for cell in plan.cells() if not results.is_finished(cell)]
        self._pace = Pace(sum(map(weight_s, self._waiting)))
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            _Done(self._pace),
            TaskProgressColumn(),
            TextColumn("left"),
            _Left(self._pace),
            TextColumn("elapsed"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("", total=1.0)
        self._begun = 0

    def __enter__(self) -> "Shown":
        self._bar.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def note(self, text: str) -> None:
        self._console.print(text, markup=False)

    def begin(self, cell: Cell) -> None:
        self._begun += 1
        self._pace.begin(weight_s(cell), time.monotonic())
        self._bar.update(self._task, description=self._place(cell))

    def say(self, what: str) -> None:
        cell = self._waiting[self._begun - 1]
        self._bar.update(self._task, description=f"{self._place(cell)}: {what}")

    def end(self, cell: Cell, came_of_it: str) -> None:
        self._pace.end(time.monotonic())
        left = "" if self._begun == len(self._waiting) else f", {_clock(self._pace.left_s(time.monotonic()))} left"
        self._console.print(f"{self._place(cell)}: {came_of_it}{left}", markup=False)

    def _place(self, cell: Cell) -> str:
        return f"{self._begun}/{len(self._waiting)} {cell.name}"


class _Left(ProgressColumn):
    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def render(self, task: Task) -> Text:
        return Text(_clock(self._pace.left_s(time.monotonic())), style="progress.remaining")


class _Done(BarColumn):
    """Looks at the clock whenever it is drawn, so that it moves within a cell, too."""

    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def render(self, task: Task) -> ProgressBar:
        task.completed = self._pace.done(time.monotonic())
        return super().render(task)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
