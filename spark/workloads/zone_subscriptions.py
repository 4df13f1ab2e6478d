"""Subscriptions to places: circles and boxes spread evenly over an area.

They lie as far beyond the area as they reach, so that the same number of them holds any place within it, wherever the
objects are.
"""

import math

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.workloads.areas import EARTH_RADIUS_M, Area
from spark.workloads.chance import Chance
from spark.workloads.subscriptions import share_of, with_subscription

_SPREAD = (0.5, 1.5)  # sizes as parts of the mean size


def generate(rows: DataFrame, seed: int, count: int, matches: float, area: Area) -> DataFrame:
    """From a column `number`, whose values are below `count`."""
    chance = Chance(seed, F.col("number"))
    around, size_m2 = spread_over(area, share_of(count, matches))
    least, most = _SPREAD
    south, north = math.sin(math.radians(around.south)), math.sin(math.radians(around.north))
    drawn = rows.select(
        "number",
        # Even in the sine of the latitude is even on the sphere.
        F.degrees(F.asin(chance.uniform("lat") * (north - south) + south)).alias("lat"),
        (chance.uniform("lon") * (around.east - around.west) + around.west).alias("lon"),
        ((chance.uniform("size") * (most - least) + least) * size_m2).alias("size_m2"),
        (chance.uniform("shape") < 0.5).alias("is_circle"),
    )
    return with_subscription(drawn, zone=_zone())


def spread_over(area: Area, share: float) -> tuple[Area, float]:
    """Where the zones have their middles, and their mean size: the share of that area which they must cover.

    How far they reach beyond the area depends on their size, and their size on how large it is with that margin.
    """
    low, high = 0.0, 100 * area.size_m2()
    for _ in range(100):
        size_m2 = (low + high) / 2
        around = area.grown(_reach_m(size_m2 * _SPREAD[1]))
        if size_m2 < share * around.size_m2():
            low = size_m2
        else:
            high = size_m2
    return around, size_m2


def _reach_m(size_m2: float) -> float:
    """From the middle to the farthest side; a circle reaches farther than the side of a box of the same size."""
    return math.sqrt(size_m2 / math.pi)


def _zone() -> Column:
    lat, lon, size = F.col("lat"), F.col("lon"), F.col("size_m2")
    side = F.sqrt(size) / (2 * EARTH_RADIUS_M)
    north, east = F.degrees(side), F.degrees(side / F.cos(F.radians("lat")))

    def of(kind: bool, value: Column) -> Column:
        return F.when(F.col("is_circle") == kind, value)

    # A member that is null is left out, so each kind of zone has only its own.
    return F.struct(
        F.when(F.col("is_circle"), "circle").otherwise("box").alias("type"),
        of(True, F.round(lat, 7)).alias("lat"),
        of(True, F.round(lon, 7)).alias("lon"),
        of(True, F.round(F.sqrt(size / math.pi), 3)).alias("radius_m"),
        of(False, F.round(lat - north, 7)).alias("south"),
        of(False, F.round(lon - east, 7)).alias("west"),
        of(False, F.round(lat + north, 7)).alias("north"),
        of(False, F.round(lon + east, 7)).alias("east"),
    )
