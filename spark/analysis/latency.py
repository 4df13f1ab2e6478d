"""Percentiles of latencies, from histograms: rows of an upper bound and how many were at most that late."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from spark.analysis.throughput import CELL

PART = [*CELL, "part"]
PERCENTILES = (0.5, 0.9, 0.99, 0.999)


def latency_percentiles(
    histograms: DataFrame, percentiles: Sequence[float] = PERCENTILES, part: Sequence[str] = PART
) -> DataFrame:
    """One row for each cell, part of it and percentile: the smallest bound below which at least so many lie."""
    in_order = Window.partitionBy(*part).orderBy("upper_ms")
    whole = Window.partitionBy(*part)
    counted = (
        histograms.groupBy(*part, "upper_ms")
        .agg(f.sum("count").alias("count"))
        .withColumn("up_to", f.sum("count").over(in_order))
        .withColumn("all", f.sum("count").over(whole))
    )
    wanted = f.explode(f.array(*[f.lit(one) for one in percentiles]))
    return (
        counted.where("all > 0")
        .withColumn("percentile", wanted)
        .where(f.col("up_to") >= f.ceil(f.col("percentile") * f.col("all")))
        .groupBy(*part, "percentile")
        .agg(f.min("upper_ms").alias("latency_ms"))
        .select(*part, "percentile", "latency_ms")
    )
