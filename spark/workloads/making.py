"""From what is asked for to the DataFrame that has it."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.errors import ExperimentError
from spark.requests import KINDS, SOURCES, SUBSCRIBED, SUBSCRIPTIONS, Workload
from spark.words import statistics
from spark.workloads import (
    fleets,
    posts,
    readings,
    recorded,
    recorded_words,
    topic_subscriptions,
    value_subscriptions,
    word_subscriptions,
    zone_subscriptions,
)
from spark.workloads.areas import Area

ROWS_OF_FILE = 500_000
_OUTLIERS = 0.001  # of recorded positions, on each side: instruments err

_GENERATED = {"readings": readings.generate, "posts": posts.generate, "fleets": fleets.generate}
_RECORDED = {"readings": recorded.air, "posts": recorded.tweets, "taxis": recorded.taxis, "flights": recorded.flights}


def check(request: Workload) -> None:
    """Everything that can be seen to be wrong before Spark starts."""
    if request.kind not in KINDS:
        raise ExperimentError(f"there is no workload '{request.kind}'; one of: {', '.join(KINDS)}")
    if request.rows < 1:
        raise ExperimentError("--rows must be at least 1")
    if request.kind == SUBSCRIPTIONS:
        if request.on not in SUBSCRIBED:
            raise ExperimentError(f"--on says what subscriptions are about; one of: {', '.join(SUBSCRIBED)}")
        if request.matches <= 0:
            raise ExperimentError("--matches must be greater than 0")
    elif request.on is not None:
        raise ExperimentError(f"--on is for subscriptions; {request.kind} are publications")
    about = request.on or request.kind
    if request.source is not None and (about != "fleets" or request.data is None):
        raise ExperimentError("--source chooses between recorded fleets, so it needs fleets and --data")
    if request.source is not None and request.source not in SOURCES:
        raise ExperimentError(f"there is no source '{request.source}'; one of: {', '.join(SOURCES)}")
    if request.data is not None and about == "topics":
        raise ExperimentError("--on topics is about generated posts; leave --data out")
    if request.data is not None and not request.data.is_dir():
        raise ExperimentError(f"{request.data} is no directory; --data names the one with the recorded data")


@contextmanager
def made(spark: SparkSession, request: Workload) -> Iterator[DataFrame]:
    """The rows that are asked for. They can be read until this is left."""
    if request.kind == SUBSCRIPTIONS:
        with _subscriptions(spark, request) as rows:
            yield rows
    elif request.data is None:
        yield _GENERATED[request.kind](numbers(spark, request), request.seed)
    else:
        yield _recorded(spark, request).limit(request.rows)


def numbers(spark: SparkSession, request: Workload) -> DataFrame:
    """One file for each partition; all cores have one, and no file is very large."""
    least = spark.sparkContext.defaultParallelism
    partitions = request.partitions or max(least, -(-request.rows // ROWS_OF_FILE))
    return spark.range(0, request.rows, 1, partitions).withColumnRenamed("id", "number")


@contextmanager
def _subscriptions(spark: SparkSession, request: Workload) -> Iterator[DataFrame]:
    rows, of = numbers(spark, request), (request.seed, request.rows, request.matches)
    match request.on:
        case "readings":
            yield value_subscriptions.generate(rows, *of)
        case "topics":
            yield topic_subscriptions.generate(rows, *of)
        case "fleets":
            area = fleets.CITY if request.data is None else area_of(_recorded(spark, request))
            yield zone_subscriptions.generate(rows, *of, area)
        case _ if request.data is None:
            yield word_subscriptions.generate(rows, *of)
        case _:
            with (
                statistics(_recorded(spark, request)) as found,
                recorded_words.generated(rows, *of, found) as subscribed,
            ):
                yield subscribed


def _recorded(spark: SparkSession, request: Workload) -> DataFrame:
    assert request.data is not None
    about = request.on or request.kind
    return _RECORDED[(request.source or SOURCES[0]) if about == "fleets" else about](spark, request.data)


def area_of(positions: DataFrame) -> Area:
    """Where nearly all positions are."""
    shares = F.lit([_OUTLIERS, 1 - _OUTLIERS])
    row = positions.select(F.percentile_approx("lat", shares), F.percentile_approx("lon", shares)).first()
    if row is None or row[0] is None:
        raise ExperimentError("the recorded file has no positions")
    (south, north), (west, east) = row
    return Area(south, west, north, east)
