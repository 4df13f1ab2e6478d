"""`braid experiment follow`: samples as they come, windows as they are finished, until somebody stops it.

A window is finished when the newest sample is `--late` behind its end. It is written then, once: Spark notes in the
checkpoint which lines belong to a batch before it begins and that it is done after it was written, and a batch that was
begun and not done is done again from the same lines into the same directory.
"""

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError
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
_LOOK_EVERY_S = 1.0
_WRITING_S_MAX = 30.0
_PAUSED_S_MAX = 2.0


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
        with told_to_stop() as stop:
            while query.isActive and not stop.wait(_LOOK_EVERY_S):
                tally.add(_reports(query))
            failure = query.exception()
            if stop.is_set():
                end(query, writing, tally)
            elif failure is not None:
                raise ExperimentError(_explained(str(failure), request))
            else:
                tally.add(_reports(query))
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


def end(query: StreamingQuery, writing: "Writing", tally: Tally) -> None:
    """Between two batches, if that is soon; what is under way otherwise is done again by the next run.

    Batches that have ended since somebody looked are counted.

    Whoever stops this process may have stopped that of Java at the same time, and py4j would tell at length that it is
    gone.
    """
    logging.disable(logging.CRITICAL)
    with contextlib.suppress(Py4JError, OSError), writing.paused():
        query.stop()
        tally.add(_reports(query))


def _reports(query: StreamingQuery) -> list[dict[str, Any]]:
    return [dict(report) for report in query.recentProgress]


class Writing:
    """Turns finished windows into tables, in the batches in which they come."""

    def __init__(self, places: Places, show: Callable[[Finished], None]) -> None:
        self._places = places
        self._show = show
        self._turn = threading.Lock()  # Spark calls from a thread of its own
        self.windows = 0  # finished in this run

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No batch is being written meanwhile, unless one takes very long."""
        is_ours = self._turn.acquire(timeout=_WRITING_S_MAX)
        try:
            yield
        finally:
            if is_ours:
                self._turn.release()

    def __call__(self, windows: DataFrame, batch: int) -> None:
        """They are few: in one partition no table has to be shuffled, and each takes one short task."""
        if not self._turn.acquire(timeout=_PAUSED_S_MAX):
            raise RuntimeError("the follower is stopping")  # Spark waits for this call, so it must not wait for Spark
        windows = windows.coalesce(1).persist()
        try:
            if not windows.isEmpty():
                self._write(windows, batch)
        finally:
            windows.unpersist()
            self._turn.release()

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
def told_to_stop() -> Iterator[threading.Event]:
    """Set by Ctrl-C and SIGTERM, which are the ordinary end."""
    stop = threading.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda _number, _frame: stop.set()) for number in signals]
    try:
        yield stop
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


def _interval(given: str) -> str:
    """As Spark writes it."""
    return f"{seconds_of(given, 'an interval'):g} seconds"


def _explained(error: str, request: Follow) -> str:
    first = error.strip().splitlines()[0]
    if request.source == "kafka":
        return f"following {request.topic} at {request.bootstrap} ended: {first}"
    return f"following {request.directory} ended: {first}"
