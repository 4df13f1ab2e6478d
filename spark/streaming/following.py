"""`braid experiment follow`: samples as they come, windows as they are finished, until somebody stops it.

A window is finished when the newest sample is `--late` behind its end. It is written then, once: Spark notes in the
checkpoint which lines belong to a batch before it begins and that it is done after it was written, and a batch that was
begun and not done is done again from the same lines into the same directory.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark.errors import ExperimentError
from spark.requests import Follow
from spark.session import spark_session
from spark.streaming import sources, tables
from spark.streaming.durations import seconds_of
from spark.streaming.places import Places
from spark.streaming.samples import samples_of
from spark.streaming.screen import Finished, Screen
from spark.streaming.tally import Tally
from spark.streaming.windows import each_once, windows_of

EVERY_S = 5  # a batch; about as often as slices finish a file
_LOOK_EVERY_S = 1


def follow(request: Follow) -> dict[str, Any]:
    window_s = seconds_of(request.window, "--window")
    seconds_of(request.late, "--late")
    sources.check(request)
    places = Places(request)
    places.prepare()
    tally = Tally()
    with spark_session(request.master, sources.session_settings(request)) as spark, Screen(window_s) as screen:
        writing = Writing(places, screen.show)
        query = start(spark, request, writing)
        try:
            with stopped_by_signals():
                while not query.awaitTermination(_LOOK_EVERY_S):
                    tally.add([dict(report) for report in query.recentProgress])
        except KeyboardInterrupt:
            pass  # the ordinary end: the next run goes on with the batch that was under way
        except StreamingQueryException as error:
            raise ExperimentError(_explained(str(error), request)) from None
        finally:
            query.stop()
        tally.add([dict(report) for report in query.recentProgress])
    return {
        "made": "windows",
        "windows": writing.windows,
        **tally.counts(),
        "out": str(request.out),
        "checkpoint": str(request.checkpoint),
    }


def start(spark: SparkSession, request: Follow, write: Callable[[DataFrame, int], None]) -> StreamingQuery:
    """The whole stream. `write` is given the windows that a batch has finished."""
    samples = each_once(samples_of(sources.lines_of(spark, request)), _interval(request.late))
    writer = (
        windows_of(samples, _interval(request.window))
        .writeStream.outputMode("append")
        .option("checkpointLocation", str(request.checkpoint))
        .foreachBatch(write)
    )
    trigger = writer.trigger(availableNow=True) if request.once else writer.trigger(processingTime=f"{EVERY_S} seconds")
    return trigger.start()


class Writing:
    """Turns finished windows into tables, in the batches in which they come."""

    def __init__(self, places: Places, show: Callable[[Finished], None]) -> None:
        self._places = places
        self._show = show
        self.windows = 0  # finished in this run

    def __call__(self, windows: DataFrame, batch: int) -> None:
        """They are few: in one partition no table has to be shuffled, and each takes one short task."""
        windows = windows.coalesce(1).persist()
        try:
            if not windows.isEmpty():
                self._write(windows, batch)
        finally:
            windows.unpersist()

    def _write(self, windows: DataFrame, batch: int) -> None:
        by_slice = tables.slices(windows)
        made = {
            "slices": by_slice,
            "layers": tables.layers(by_slice),
            "latencies": tables.latencies(windows),
            "anchors": tables.anchors(windows),
        }
        for name, table in made.items():
            table.write.mode("overwrite").parquet(self._places.table(name, batch))
        finished = Finished(*(made[name].collect() for name in Finished._fields))
        self.windows += finished.windows
        self._show(finished)


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interval(given: str) -> str:
    """As Spark writes it."""
    return f"{seconds_of(given, 'an interval'):g} seconds"


def _explained(error: str, request: Follow) -> str:
    first = error.strip().splitlines()[0]
    if request.source == "kafka":
        return f"following {request.topic} at {request.bootstrap} ended: {first}"
    return f"following {request.directory} ended: {first}"
