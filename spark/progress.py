"""How far Spark is, on the terminal."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

_LOOK_EVERY_S = 0.3


@contextmanager
def shown_progress(spark: "SparkSession", what: str) -> Iterator[None]:
    """A bar with the time left for the stage that runs; nothing when nobody looks."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    times = (TextColumn("left"), TimeRemainingColumn(), TextColumn("elapsed"), TimeElapsedColumn())
    over = threading.Event()
    with Progress(*columns, *times, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def follow() -> None:
            tracker = spark.sparkContext.statusTracker()
            while not over.wait(_LOOK_EVERY_S):
                done, total = tasks_of(tracker)
                bar.update(task, completed=done, total=total or None)

        follower = threading.Thread(target=follow, name="braid-progress", daemon=True)
        follower.start()
        try:
            yield
        finally:
            over.set()
            follower.join()


def tasks_of(tracker: "StatusTracker") -> tuple[int, int]:
    """Of the stages that run: how many tasks are done, of how many."""
    stages = [info for id in tracker.getActiveStageIds() if (info := tracker.getStageInfo(id)) is not None]
    return sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
