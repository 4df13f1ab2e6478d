"""Throughput of configurations, and what it says of scaling: speedup, efficiency, Karp-Flatt, dominance.

A cell is one measurement; its columns are `CELL`. `processors` counts as the paper does: 1-1-1 is one, and each further
slice one more, so 1-3-1 and 1-2-2 are both three.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

LOAD = ["subscriptions", "rate"]
KIND = ["configuration", "accesspoints", "matchers", "exitpoints", *LOAD, "scaling"]
CELL = [*KIND, "repetition"]
BASELINE = "1-1-1"


def steady(table: DataFrame) -> DataFrame:
    """Of cells in which nothing scaled. What was measured meanwhile says nothing of one configuration."""
    return table.where(f.col("scaling") == "")


def throughput_of_cells(seconds: DataFrame) -> DataFrame:
    """One row for each cell, from what was `published` and `delivered` in samples that took `lasted_s` each."""
    return (
        seconds.groupBy(*CELL)
        .agg(
            f.sum("lasted_s").alias("seconds"),
            (f.sum("published") / f.sum("lasted_s")).alias("published_s"),
            (f.sum("delivered") / f.sum("lasted_s")).alias("delivered_s"),
        )
        .select(*CELL, "seconds", "published_s", "delivered_s")
    )


def throughput(cells: DataFrame) -> DataFrame:
    """One row for each kind of cell: the median of its repetitions, and how far they lie apart."""
    return (
        cells.groupBy(*KIND)
        .agg(
            f.count("*").alias("repetitions"),
            f.median("delivered_s").alias("delivered_s"),
            f.min("delivered_s").alias("delivered_s_min"),
            f.max("delivered_s").alias("delivered_s_max"),
        )
        .select(*KIND, "repetitions", "delivered_s", "delivered_s_min", "delivered_s_max")
    )


def speedup(throughput: DataFrame) -> DataFrame:
    """Against 1-1-1 under the same load. Kinds without that baseline are left out."""
    baseline = throughput.where(f.col("configuration") == BASELINE).select(
        *LOAD, f.col("delivered_s").alias("baseline_s")
    )
    gained = f.col("delivered_s") / f.nullif(f.col("baseline_s"), f.lit(0.0))
    return (
        throughput.join(baseline, LOAD)
        .withColumn("processors", processors())
        .withColumn("speedup", gained)
        .withColumn("efficiency", f.col("speedup") / f.col("processors"))
        .withColumn("karp_flatt", _karp_flatt())
        .select(*KIND, "processors", "delivered_s", "baseline_s", "speedup", "efficiency", "karp_flatt")
    )


def dominance(throughput: DataFrame) -> DataFrame:
    """Of two exit points over one, for the same access points, matchers and load."""
    same = ["accesspoints", "matchers", *LOAD]
    one = throughput.where("exitpoints = 1").select(*same, f.col("delivered_s").alias("one_s"))
    two = throughput.where("exitpoints = 2").select(*same, f.col("delivered_s").alias("two_s"))
    ratio = f.col("two_s") / f.nullif(f.col("one_s"), f.lit(0.0))
    return one.join(two, same).select(*same, "one_s", "two_s", ratio.alias("dominance"))


def processors() -> Column:
    return f.col("accesspoints") + f.col("matchers") + f.col("exitpoints") - 2


def _karp_flatt() -> Column:
    """The serial part and overhead that the speedup tells of; nothing for one processor, or where nothing came."""
    inverse = 1 / f.col("processors")
    serial = (1 / f.nullif(f.col("speedup"), f.lit(0.0)) - inverse) / (1 - inverse)
    return f.when(f.col("processors") > 1, serial)
