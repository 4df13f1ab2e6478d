"""Lines of JSON become rows: one for each sample that a slice took (docs/telemetry.md)."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from braid.telemetry.sample import VERSION

IDENTITY = ["cluster", "slice", "incarnation", "number"]  # the same sample, however often it comes
READ = "read"  # the name under which Spark reports how many lines were read

SCHEMA = """
    v INT, cluster STRING, slice STRING, layer STRING, incarnation BIGINT, number BIGINT, epoch BIGINT,
    takes_part BOOLEAN, time_ms BIGINT, seconds DOUBLE, counts MAP<STRING, BIGINT>,
    latencies ARRAY<STRUCT<part: STRING, buckets: ARRAY<STRUCT<upper_us: BIGINT, count: BIGINT>>>>,
    queues MAP<STRING, BIGINT>, anchors ARRAY<STRUCT<anchor: STRING, count: BIGINT>>, anchors_missed BIGINT,
    cpu_s DOUBLE, rss_bytes BIGINT
"""


def samples_of(lines: DataFrame) -> DataFrame:
    """The samples among the lines (`value`). What is none, or of another version, is counted and left out.

    `time` is the middle of what a sample tells of, so that it counts in the window in which most of that happened.
    """
    read = lines.select(f.from_json("value", SCHEMA).alias("sample")).select("sample.*")
    counted = read.observe(READ, f.count("*").alias("lines"), f.count_if(~_is_sample()).alias("unreadable"))
    middle_ms = f.col("time_ms") - (500 * f.col("seconds")).cast("bigint")
    return counted.where(_is_sample()).select(
        f.timestamp_millis(middle_ms).alias("time"),
        *IDENTITY,
        *("layer", "epoch", "takes_part", "seconds", "counts", "latencies", "queues"),
        *("anchors", "anchors_missed", "cpu_s", "rss_bytes"),
    )


def _is_sample() -> Column:
    needed = [f.col(name).isNotNull() for name in (*IDENTITY, "layer", "time_ms", "seconds")]
    is_known = f.coalesce(f.col("v") == VERSION, f.lit(False))
    for column in needed:
        is_known = is_known & column
    return is_known
