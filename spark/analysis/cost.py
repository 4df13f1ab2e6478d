"""What a publication costs: processor time for each layer, and the speed of each core that was really used.

Where slices share cores, throughput alone says little of a configuration: more slices than cores cannot be faster. The
processor time for a publication does not depend on how many cores there are. `usage` has a row for every second and
slice, and rows of what is no slice: `load`, which publishes and receives, `machine`, all processes together, and
`stolen`, what the host gave to other machines meanwhile.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from spark.analysis.throughput import BASELINE, CELL, KIND, LOAD

NO_LAYERS = ("load", "machine", "stolen")
HOLDERS = ("cores", "load_cores", "machine_cores", "stolen_cores")


def cost_of_layers(usage: DataFrame, cells: DataFrame) -> DataFrame:
    """Microseconds of processor time for each delivered publication, by cell and layer.

    `capacity_s` are the deliveries per second at which the busiest slice of the layer would need a core of its own.
    """
    slices = usage.where(~f.col("layer").isin(*NO_LAYERS)).groupBy(*CELL, "layer", "slice")
    used = (
        slices.agg(f.sum("cpu_s").alias("cpu_s"), f.max("rss_bytes").alias("rss_bytes"))
        .groupBy(*CELL, "layer")
        .agg(
            f.count("*").alias("slices"),
            f.sum("cpu_s").alias("cpu_s"),
            f.max("cpu_s").alias("busiest_s"),
            f.sum("rss_bytes").alias("rss_bytes"),
        )
    )
    delivered = cells.select(*CELL, (f.col("delivered_s") * f.col("seconds")).alias("delivered"))
    return used.join(delivered, CELL).select(
        *CELL,
        "layer",
        "slices",
        "cpu_s",
        "rss_bytes",
        (1e6 * _ratio("cpu_s", "delivered")).alias("cpu_us_per_publication"),
        _ratio("delivered", "busiest_s").alias("capacity_s"),
    )


def cost_of_kinds(costs: DataFrame) -> DataFrame:
    """The same for each kind of cell: the median of its repetitions."""
    numbers = ("cpu_s", "rss_bytes", "cpu_us_per_publication", "capacity_s")
    medians = [f.median(number).alias(number) for number in numbers]
    return costs.groupBy(*KIND, "layer", "slices").agg(*medians).select(*KIND, "layer", "slices", *numbers)


def cores_of_cells(usage: DataFrame, cells: DataFrame) -> DataFrame:
    """How many cores the slices of a cell kept busy; what else was busy; and what other machines held."""
    return cells.join(holders_of_cores(usage), CELL).select(*CELL, "delivered_s", *HOLDERS)


def holders_of_cores(usage: DataFrame) -> DataFrame:
    """The same of all cells, also of those in which the cluster scaled."""
    layer = f.col("layer")
    lasted_s = f.sum(f.when(layer == "machine", f.col("lasted_s")))

    def of(layers: Column) -> Column:
        return f.coalesce(f.sum(f.when(layers, f.col("cpu_s"))), f.lit(0.0)) / lasted_s

    return (
        usage.groupBy(*CELL)
        .agg(
            of(~layer.isin(*NO_LAYERS)).alias("cores"),
            of(layer == "load").alias("load_cores"),
            of(layer == "machine").alias("machine_cores"),
            of(layer == "stolen").alias("stolen_cores"),
        )
        .select(*CELL, *HOLDERS)
    )


def speedup_of_cores(cores: DataFrame) -> DataFrame:
    """Against 1-1-1 under the same load: the speedup, how many times as many cores it took, and the one for the other.

    Of several repetitions, the median. Kinds without that baseline have no speedup.
    """
    names = ("delivered_s", *HOLDERS)
    kinds = cores.groupBy(*KIND).agg(*(f.median(name).alias(name) for name in names))
    baseline = kinds.where(f.col("configuration") == BASELINE).select(
        *LOAD, f.col("delivered_s").alias("baseline_s"), f.col("cores").alias("baseline_cores")
    )
    return (
        kinds.join(baseline, LOAD, "left")
        .withColumn("speedup", _ratio("delivered_s", "baseline_s"))
        .withColumn("times_cores", _ratio("cores", "baseline_cores"))
        .withColumn("speedup_per_core", _ratio("speedup", "times_cores"))
        .withColumn("delivered_s_per_core", _ratio("delivered_s", "cores"))
        .select(*KIND, *names, "delivered_s_per_core", "speedup", "times_cores", "speedup_per_core")
    )


def _ratio(of: str, to: str) -> Column:
    """Null where there is nothing to divide by."""
    return f.col(of) / f.nullif(f.col(to), f.lit(0.0))
