"""Values from ranks, by a table of quantiles that is finer towards the top, where pollution has its long tail."""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark.workloads.tables import entry

STEPS = 40
RANKS = tuple(1 - (1 - step / STEPS) ** 3 for step in range(STEPS + 1))  # what share of values is below


def value_at(rank: Column, kind: Column, tables: Sequence[Sequence[float]]) -> Column:
    """The value below which `rank` of all values of this kind lie; `kind` counts the tables from 0."""
    place = (F.lit(1.0) - F.cbrt(F.lit(1.0) - rank)) * STEPS
    step = F.least(F.floor(place), F.lit(STEPS - 1)).cast("int")
    quantiles = [quantile for table in tables for quantile in table]
    first = kind * (STEPS + 1) + step
    low, high = entry(quantiles, first, "double"), entry(quantiles, first + 1, "double")
    return low + (place - step) * (high - low)
