"""Windows of processes become what is shown and kept: slices, layers, latencies, anchors. Every function takes a
DataFrame and gives one.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from spark.analysis.latency import latency_percentiles
from spark.streaming.windows import COUNTS, SLICE, WINDOW

LAYER = [*WINDOW, "layer"]
ANCHORS = 10  # of each layer and window
PERCENTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}


def slices(windows: DataFrame) -> DataFrame:
    """One row for each slice, whichever of its processes ran. `work` is what its layer is there for."""
    return (
        windows.groupBy(*SLICE)
        .agg(
            f.sum("samples").alias("samples"),
            f.sum("missing").alias("missing"),
            f.countDistinct("incarnation").alias("processes"),
            f.max("epoch").alias("epoch"),
            f.bool_or("takes_part").alias("takes_part"),
            *[f.sum(name).alias(name) for name in COUNTS],
            f.sum("cpu_s").alias("cpu_s"),
            f.max("rss_bytes").alias("rss_bytes_max"),
            f.flatten(f.collect_list("queues")).alias("queues"),
        )
        .select(
            *SLICE,
            *("samples", "missing", "processes", "epoch", "takes_part", *COUNTS),
            f.coalesce("publications", "notifications", f.lit(0)).alias("work"),
            "cpu_s",
            (f.col("cpu_s") / _seconds()).alias("cores"),
            "rss_bytes_max",
            _largest("queues").alias("queues_max"),
        )
    )


def layers(slices: DataFrame) -> DataFrame:
    """One row for each layer: what its slices did together, and how unevenly. Who does not take part does not count for
    that: a slice that waits to be taken in has no work.
    """
    per_second = [(f.col(name) / _seconds()).alias(f"{name}_s") for name in COUNTS]
    return (
        slices.groupBy(*LAYER)
        .agg(
            f.count_if("takes_part").alias("slices"),
            f.sum("samples").alias("samples"),
            f.sum("missing").alias("missing"),
            f.max("epoch").alias("epoch"),
            *[f.sum(name).alias(name) for name in COUNTS],
            f.sum("cores").alias("cores"),
            _imbalance("work"),
            _imbalance("cpu_s", "imbalance_cpu"),
        )
        .select(
            *LAYER,
            *("slices", "samples", "missing", "epoch", *COUNTS),
            *per_second,
            *("cores", "imbalance", "imbalance_cpu"),
        )
    )


def latencies(windows: DataFrame) -> DataFrame:
    """One row for each layer and part of the way: how many were measured, and percentiles of their histograms."""
    part = [*LAYER, "part"]
    measured = f.sum("count").over(Window.partitionBy(*part)).alias("measured")
    buckets = (
        windows.select(*LAYER, f.inline("latencies"))
        .select(*part, f.inline("buckets"))
        .select(*part, measured, (f.col("upper_us") / 1000).alias("upper_ms"), "count")
    )
    found = latency_percentiles(buckets, list(PERCENTILES.values()), [*part, "measured"])
    wide = [
        f.max(f.when(f.col("percentile") == percentile, f.col("latency_ms"))).alias(name)
        for name, percentile in PERCENTILES.items()
    ]
    return found.groupBy(*part, "measured").agg(*wide).select(*part, "measured", *PERCENTILES)


def anchors(windows: DataFrame, most: int = ANCHORS) -> DataFrame:
    """The hottest of each layer: at access points by visits that they caused, at matchers by matches under them."""
    missed = f.sum("anchors_missed").over(Window.partitionBy(*LAYER)).alias("missed")
    each = windows.select(*LAYER, missed, "anchors").select(*LAYER, "missed", f.inline("anchors"))
    hits = each.groupBy(*LAYER, "missed", "anchor").agg(f.sum("count").alias("hits"))
    hottest = Window.partitionBy(*LAYER).orderBy(f.desc("hits"), "anchor")
    return (
        hits.withColumn("rank", f.row_number().over(hottest))
        .where(f.col("rank") <= most)
        .select(*LAYER, "rank", "anchor", "hits", "missed")
    )


def _seconds() -> Column:
    return f.unix_seconds("window_end") - f.unix_seconds("window_begin")


def _imbalance(load: str, name: str = "imbalance") -> Column:
    """The most loaded slice against the mean of all: 1 when all have the same, their number when one has all of it."""
    own = f.when(f.col("takes_part"), f.col(load).cast("double"))
    return (f.max(own) / f.nullif(f.avg(own), f.lit(0.0))).alias(name)


def _largest(entries: str) -> Column:
    """Of each name the largest value: one map out of the entries of many."""
    names = f.array_sort(f.array_distinct(f.transform(entries, lambda entry: entry["key"])))

    def largest(name: Column) -> Column:
        own = f.filter(entries, lambda entry: entry["key"] == name)
        return f.array_max(f.transform(own, lambda entry: entry["value"]))

    return f.map_from_arrays(names, f.transform(names, largest))
