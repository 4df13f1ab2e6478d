"""What deliveries looked like while a cluster scaled: rates by phase, and the longest time in which nothing came."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from spark.analysis.throughput import CELL

STEP = [*CELL, "step"]


def rates_by_phase(bins: DataFrame, phases: DataFrame) -> DataFrame:
    """Deliveries per second in each phase, and in the time before and after all of them."""
    spans = phases.groupBy(*STEP).agg(f.min("begin_s").alias("first_s"), f.max("end_s").alias("last_s"))
    placed = (
        bins.join(spans, STEP)
        .join(phases.select(*STEP, "phase", "begin_s", "end_s"), STEP, "left")
        .where(
            (f.col("at_s") >= f.col("begin_s")) & (f.col("at_s") < f.col("end_s"))
            | (f.col("at_s") < f.col("first_s"))
            | (f.col("at_s") >= f.col("last_s"))
        )
        .withColumn(
            "part",
            f.when(f.col("at_s") < f.col("first_s"), "before")
            .when(f.col("at_s") >= f.col("last_s"), "after")
            .otherwise(f.col("phase")),
        )
        .select(*STEP, "part", "at_s", "width_s", "delivered")
        .distinct()
    )
    return (
        placed.groupBy(*STEP, "part")
        .agg(
            f.min("at_s").alias("begin_s"),
            f.sum("width_s").alias("seconds"),
            (f.sum("delivered") / f.sum("width_s")).alias("delivered_s"),
        )
        .select(*STEP, "part", "begin_s", "seconds", "delivered_s")
    )


def longest_silences(bins: DataFrame) -> DataFrame:
    """Seconds in a row in which nothing was delivered, to the width of a bin."""
    in_order = Window.partitionBy(*STEP).orderBy("at_s")
    islands = bins.withColumn(
        "island", f.row_number().over(in_order) - f.sum((f.col("delivered") == 0).cast("int")).over(in_order)
    )
    silent = islands.where("delivered = 0").groupBy(*STEP, "island").agg(f.sum("width_s").alias("silent_s"))
    longest = silent.groupBy(*STEP).agg(f.max("silent_s").alias("silent_s"))
    return (
        bins.select(*STEP)
        .distinct()
        .join(longest, STEP, "left")
        .select(*STEP, f.coalesce("silent_s", f.lit(0.0)).alias("silent_s"))
    )
