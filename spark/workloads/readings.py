"""Readings of air-quality sensors: every sensor of Madrid once a minute, with Madrid's values and daily course."""

import math

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.workloads import madrid
from spark.workloads.chance import Chance, normal_share
from spark.workloads.publications import second, with_publication
from spark.workloads.quantiles import value_at
from spark.workloads.tables import entry

START = "2023-01-01T00:00:00Z"
INTERVAL_S = 60
WEATHER_S = 3 * 3600  # after which a reading says nothing any more about the next ones of its sensor
DIGITS = 3  # finer than Madrid's instruments, so that narrow ranges are not empty

# Every station measures some of the pollutants.
SENSORS = tuple(
    (pollutant, station) for pollutant, stations in enumerate(madrid.STATIONS_OF_POLLUTANT) for station in stations
)


def generate(rows: DataFrame, seed: int) -> DataFrame:
    """From a column `number`."""
    sensor = F.pmod("number", F.lit(len(SENSORS)))
    second_of_all = F.floor(F.col("number") / len(SENSORS)).cast("long") * INTERVAL_S
    placed = rows.select(
        "number",
        sensor.cast("int").alias("sensor"),
        second_of_all.alias("second"),
        F.pmod(F.floor(second_of_all / 3600), F.lit(24)).cast("int").alias("hour"),
        entry([pollutant for pollutant, _ in SENSORS], sensor, "int").alias("kind"),
        entry([station for _, station in SENSORS], sensor, "int").alias("place"),
    )
    factors = [factor for hours in madrid.DAILY_COURSE for factor in hours]
    course = entry(factors, F.col("kind") * 24 + F.col("hour"), "double")
    rank = normal_share(_weather(F.col("sensor"), F.col("second"), seed))
    value = value_at(rank, F.col("kind"), madrid.QUANTILES) * course
    return readings(
        placed.select(
            "number",
            second(START, F.col("second")).alias("time"),
            entry([station.id for station in madrid.STATIONS], F.col("place")).alias("station"),
            entry(madrid.POLLUTANTS, F.col("kind")).alias("pollutant"),
            F.round(value, DIGITS).alias("value"),
            "hour",
            entry([station.lat for station in madrid.STATIONS], F.col("place"), "double").alias("lat"),
            entry([station.lon for station in madrid.STATIONS], F.col("place"), "double").alias("lon"),
        )
    )


def readings(rows: DataFrame) -> DataFrame:
    """The schema of readings, generated and recorded ones."""
    placed = rows.withColumn("topic", F.concat(F.lit("air/"), F.col("station"), F.lit("/"), F.col("pollutant")))
    attributes = F.struct("station", "pollutant", "value", "hour")
    return with_publication(
        placed,
        *("station", "pollutant", "value", "hour", "lat", "lon"),
        attributes=attributes,
        at=(F.col("lat"), F.col("lon")),
    )


def _weather(sensor: Column, second: Column, seed: int) -> Column:
    """Normally distributed at every moment, and without a jump from one moment to the next."""
    knot = F.floor(second / WEATHER_S)
    angle = (second / WEATHER_S - knot) * (math.pi / 2)
    before = Chance(seed, sensor, knot).normal("weather")
    after = Chance(seed, sensor, knot + 1).normal("weather")
    return F.cos(angle) * before + F.sin(angle) * after
