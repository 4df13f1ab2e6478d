"""Samples become windows: what each process did in each of them. The same in a stream and in a table."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from spark.streaming.samples import IDENTITY

WINDOW = ["cluster", "window_begin", "window_end"]
SLICE = [*WINDOW, "layer", "slice"]
COUNTS = ("messages", "batches", "publications", "notifications")


def each_once(samples: DataFrame, late: str) -> DataFrame:
    """Of a stream: repeated samples are left out, and what comes later than `late` behind the newest one.

    What a process took in one second has one time, so a repetition is either recognised or too late itself.
    """
    return samples.withWatermark("time", late).dropDuplicatesWithinWatermark(IDENTITY)


def windows_of(samples: DataFrame, window: str) -> DataFrame:
    """One row for each window and process. Histograms and anchors stay lists: they are merged with those of others."""
    counts = [f.sum(f.try_element_at("counts", f.lit(name))).alias(name) for name in COUNTS]
    grouped = samples.groupBy(f.window("time", window), "cluster", "layer", "slice", "incarnation").agg(
        f.count("*").alias("samples"),
        (f.max("number") - f.min("number") + 1 - f.count("*")).alias("missing"),
        f.max("epoch").alias("epoch"),
        f.bool_or("takes_part").alias("takes_part"),
        *counts,
        f.sum("cpu_s").alias("cpu_s"),
        f.max("rss_bytes").alias("rss_bytes"),
        _all_of("queues", f.map_entries("queues")),
        _all_of("latencies", f.col("latencies")),
        _all_of("anchors", f.col("anchors")),
        f.sum("anchors_missed").alias("anchors_missed"),
    )
    return grouped.select(
        "cluster",
        f.col("window.start").alias("window_begin"),
        f.col("window.end").alias("window_end"),
        *("layer", "slice", "incarnation", "samples", "missing", "epoch", "takes_part", *COUNTS, "cpu_s", "rss_bytes"),
        *("queues", "latencies", "anchors", "anchors_missed"),
    )


def _all_of(name: str, lists: Column) -> Column:
    return f.flatten(f.collect_list(lists)).alias(name)
