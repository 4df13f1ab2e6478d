"""Lines of JSON become rows: one for each sample that a slice took (docs/telemetry.md)."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from braid.telemetry.sample import VERSION
from braid.topology import LAYERS

IDENTITY = ["cluster", "slice", "incarnation", "number"]  # the same sample, however often it comes
READ = "read"  # the name under which Spark reports how many lines were read

SCHEMA = """
    v INT, cluster STRING, slice STRING, layer STRING, incarnation BIGINT, number BIGINT, epoch BIGINT,
    takes_part BOOLEAN, time_ms BIGINT, seconds DOUBLE, counts MAP<STRING, BIGINT>,
    latencies ARRAY<STRUCT<part: STRING, buckets: ARRAY<STRUCT<upper_us: BIGINT, count: BIGINT>>>>,
    queues MAP<STRING, BIGINT>, anchors ARRAY<STRUCT<anchor: STRING, count: BIGINT>>, anchors_missed BIGINT,
    cpu_s DOUBLE, rss_bytes BIGINT
"""


# A sample beyond these would end the stream, again and again: Spark has no such time, or nobody can add it up.
_TIME_MS = (946_684_800_000, 4_102_444_800_000)  # the years 2000 to 2099
_SECONDS_MAX = 86_400.0
_CPU_S_MAX = 1e9
_COUNT_MAX = 10**12  # more than ten million a second for a day; nine million of them can be added up


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


def _given_counts() -> list[Column]:
    """Of all that is added up; null where it is not given, which adds nothing."""
    return [
        f.forall(f.map_values("counts"), _counts),
        f.forall("latencies", lambda part: f.forall(part["buckets"], lambda bucket: _counts(bucket["count"]))),
        f.forall("anchors", lambda hit: _counts(hit["count"])),
        _counts(f.col("anchors_missed")),
    ]


def _counts(number: Column) -> Column:
    return number.between(0, _COUNT_MAX)


def _is_sample() -> Column:
    """What compares with nothing is null, which is no sample; NaN is larger than any number."""
    needed = [f.col(name).isNotNull() for name in IDENTITY]
    needed += [
        f.col("layer").isin(*LAYERS),
        f.col("time_ms").between(*_TIME_MS),
        f.col("seconds").between(0.0, _SECONDS_MAX),
        f.col("cpu_s").between(0.0, _CPU_S_MAX),
        _counts(f.col("number")),
        *(f.coalesce(given, f.lit(True)) for given in _given_counts()),
    ]
    is_known = f.col("v") == VERSION
    for column in needed:
        is_known = is_known & column
    return f.coalesce(is_known, f.lit(False))
