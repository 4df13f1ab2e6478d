"""What a publication costs: processor time for each layer, and the speed of each core that was really used.

Where slices share cores, throughput alone says little of a configuration: more slices than cores cannot be faster. The
processor time for a publication does not depend on how many cores there are.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark.analysis.throughput import CELL


def cost_of_layers(usage: DataFrame, cells: DataFrame) -> DataFrame:
    """Microseconds of processor time for each delivered publication, by cell and layer."""
    used = usage.groupBy(*CELL, "layer").agg(
        f.sum("cpu_s").alias("cpu_s"),
        f.max("rss_bytes").alias("rss_bytes_max"),
        f.countDistinct("slice").alias("slices"),
    )
    delivered = cells.select(*CELL, (f.col("delivered_s") * f.col("seconds")).alias("delivered"))
    each = 1e6 * f.col("cpu_s") / f.nullif(f.col("delivered"), f.lit(0.0))
    return used.join(delivered, CELL).select(
        *CELL, "layer", "slices", "cpu_s", "rss_bytes_max", each.alias("cpu_us_per_publication")
    )


def speed_of_cores(usage: DataFrame, cells: DataFrame) -> DataFrame:
    """Deliveries per second for each core that the slices kept busy."""
    used = usage.groupBy(*CELL).agg(f.sum("cpu_s").alias("cpu_s"))
    cores = f.col("cpu_s") / f.nullif(f.col("seconds"), f.lit(0))
    return (
        cells.join(used, CELL)
        .withColumn("cores", cores)
        .withColumn("delivered_s_per_core", f.col("delivered_s") / f.nullif(f.col("cores"), f.lit(0.0)))
        .select(*CELL, "delivered_s", "cores", "delivered_s_per_core")
    )
