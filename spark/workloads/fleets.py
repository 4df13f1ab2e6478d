"""Vehicles of a city. Where one is follows from its number and the time alone, so that no row needs another one.

A vehicle drives from one stop to the next, faster in the middle of a leg; its stops lie around the place where it is
at home.
"""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.workloads.areas import EARTH_RADIUS_M, Area
from spark.workloads.chance import Chance
from spark.workloads.publications import second, with_publication

START = "2024-05-01T06:00:00Z"
OBJECTS = 1_000
INTERVAL_S = 10
LEG_S = (600, 1800)  # at least, less than; each vehicle has its own pace
ROAMING_DEGREES = 0.04  # how far from home, to each side

CITY = Area(south=40.26, west=-3.92, north=40.58, east=-3.48)  # Madrid
COLUMNS = ("object", "lat", "lon", "speed_kmh", "heading_deg", "occupied")


class _Stop(NamedTuple):
    lat: Column
    lon: Column


def generate(rows: DataFrame, seed: int) -> DataFrame:
    """From a column `number`."""
    vehicle = F.pmod("number", F.lit(OBJECTS))
    own = Chance(seed, F.col("vehicle"))
    timed = rows.select("number", vehicle.alias("vehicle")).select(
        "number",
        "vehicle",
        (F.floor(F.col("number") / OBJECTS) * INTERVAL_S + own.below(INTERVAL_S, "moment")).alias("second"),
        (own.below(LEG_S[1] - LEG_S[0], "pace") + LEG_S[0]).alias("leg_s"),
    )
    # Each has begun its first leg some time ago.
    travelled = (F.col("second") + Chance(seed, F.col("vehicle")).below(LEG_S[1], "phase")) / F.col("leg_s")
    on_leg = timed.withColumn("leg", F.floor(travelled)).withColumn("done", travelled - F.floor(travelled))
    last, coming = _stop(F.col("leg"), seed), _stop(F.col("leg") + 1, seed)
    stops = on_leg.select(
        "*", last.lat.alias("lat1"), last.lon.alias("lon1"), coming.lat.alias("lat2"), coming.lon.alias("lon2")
    )
    return fleets(_driving(stops, seed))


def fleets(rows: DataFrame) -> DataFrame:
    """The schema of moving objects, generated and recorded ones; what a source does not know is null."""
    placed = rows.withColumn("topic", F.concat(F.lit("fleet/"), F.col("object")))
    return with_publication(
        placed,
        *COLUMNS,
        attributes=F.struct("speed_kmh", "heading_deg", "occupied"),
        at=(F.col("lat"), F.col("lon")),
        object=F.col("object"),
    )


def _driving(stops: DataFrame, seed: int) -> DataFrame:
    done = F.col("done")
    # Starts and ends at rest: 3x² - 2x³, whose slope is 6x(1 - x).
    way = done * done * (F.lit(3.0) - done * 2.0)
    north_m = F.radians(F.col("lat2") - F.col("lat1")) * EARTH_RADIUS_M
    east_m = F.radians(F.col("lon2") - F.col("lon1")) * EARTH_RADIUS_M * F.cos(F.radians("lat1"))
    speed_mps = F.hypot(north_m, east_m) * done * (F.lit(1.0) - done) * 6.0 / F.col("leg_s")
    heading = F.pmod(F.degrees(F.atan2(east_m, north_m)), F.lit(360.0))
    return stops.select(
        "number",
        second(START, F.col("second")).alias("time"),
        F.concat(F.lit("vehicle-"), F.col("vehicle")).alias("object"),
        F.round(F.col("lat1") + way * (F.col("lat2") - F.col("lat1")), 6).alias("lat"),
        F.round(F.col("lon1") + way * (F.col("lon2") - F.col("lon1")), 6).alias("lon"),
        F.round(speed_mps * 3.6, 1).alias("speed_kmh"),
        F.round(heading, 1).alias("heading_deg"),
        (Chance(seed, F.col("vehicle"), F.col("leg")).uniform("occupied") < 0.6).alias("occupied"),
    )


def _stop(leg: Column, seed: int) -> _Stop:
    home, stop = Chance(seed, F.col("vehicle")), Chance(seed, F.col("vehicle"), leg)

    def coordinate(low: float, high: float, name: str) -> Column:
        """Homes are denser towards the middle; from each of them a vehicle roams without leaving the city."""
        low, high = low + ROAMING_DEGREES, high - ROAMING_DEGREES
        middle = sum((home.uniform(f"{name} {draw}") for draw in range(3)), F.lit(0.0)) / 3.0
        return F.lit(low) + middle * (high - low) + (stop.uniform(name) * 2.0 - 1.0) * ROAMING_DEGREES

    return _Stop(coordinate(CITY.south, CITY.north, "lat"), coordinate(CITY.west, CITY.east, "lon"))
