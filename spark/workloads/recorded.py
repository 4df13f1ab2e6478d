"""Recorded data in the schemas of generated data. Each file is read in the order it was written in."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.errors import ExperimentError
from spark.workloads import fleets, madrid, posts, readings

AIR, AIR_STATIONS = "air_madrid/madrid_air_2023H1_long.csv.gz", "air_madrid/stations.csv"
POSTS = "tweets/congress_tweets_2020_150k.csv.gz"
TAXIS = "taxis/cabspotting_2008-06-02_to_03.csv.gz"
FLIGHTS = "flights/switzerland_2018-08-01.csv.gz"

_KMH_OF_KNOT = 1.852


def air(spark: SparkSession, data: Path) -> DataFrame:
    """Valid hourly readings of Madrid's stations; the places of stations are those of the generated ones."""
    rows = _rows(spark, data, AIR, "local_hour_end string, station string, pollutant string, value double, flag string")
    stations = [(station.id, station.lat, station.lon) for station in madrid.STATIONS]
    places = spark.createDataFrame(stations, "station string, lat double, lon double")
    # The hour that ends at midnight is the last one of the day before.
    time = F.to_timestamp("local_hour_end", "yyyy-MM-dd'T'HH:mm") - F.expr("INTERVAL 1 HOUR")
    valid = rows.where("flag = 'V'").select("number", time.alias("time"), "station", "pollutant", "value")
    placed = valid.join(F.broadcast(places), "station", "left").withColumn("hour", F.hour("time"))
    return readings.readings(placed)


def stations(spark: SparkSession, data: Path) -> DataFrame:
    """Madrid's stations: id, name, place."""
    rows = _rows(spark, data, AIR_STATIONS, "station string, name string, lat double, lon double")
    return rows.select("station", "name", "lat", "lon")


def tweets(spark: SparkSession, data: Path) -> DataFrame:
    rows = _rows(spark, data, POSTS, "unix_time long, screen_name string, text string")
    return posts.posts(
        rows.where("text is not null").select(
            "number",
            F.timestamp_seconds("unix_time").alias("time"),
            F.concat(F.lit("posts/"), F.col("screen_name")).alias("topic"),
            F.col("screen_name").alias("author"),
            "text",
        )
    )


def taxis(spark: SparkSession, data: Path) -> DataFrame:
    rows = _rows(spark, data, TAXIS, "unix_time long, cab_id string, lat double, lon double, occupied int")
    return fleets.fleets(
        rows.select(
            "number",
            F.timestamp_seconds("unix_time").alias("time"),
            F.col("cab_id").alias("object"),
            "lat",
            "lon",
            F.lit(None).cast("double").alias("speed_kmh"),
            F.lit(None).cast("double").alias("heading_deg"),
            (F.col("occupied") == 1).alias("occupied"),
        )
    )


def flights(spark: SparkSession, data: Path) -> DataFrame:
    schema = "unix_time long, icao24 string, lat double, lon double, groundspeed_kt double, track_deg double"
    rows = _rows(spark, data, FLIGHTS, schema)
    return fleets.fleets(
        rows.where("lat is not null and lon is not null").select(
            "number",
            F.timestamp_seconds("unix_time").alias("time"),
            F.col("icao24").alias("object"),
            "lat",
            "lon",
            F.round(F.col("groundspeed_kt") * _KMH_OF_KNOT, 1).alias("speed_kmh"),
            F.col("track_deg").alias("heading_deg"),
            F.lit(None).cast("boolean").alias("occupied"),
        )
    )


def _rows(spark: SparkSession, data: Path, name: str, schema: str) -> DataFrame:
    """These columns of a file, numbered by its lines. A compressed file is read as a whole, so in one partition."""
    file = data / name
    if not file.is_file():
        raise ExperimentError(f"{file} does not exist; --data names the directory that holds {name}")
    table = spark.read.csv(str(file), header=True, multiLine=True, escape='"', mode="FAILFAST")
    wanted = [column.split() for column in schema.split(", ")]
    missing = [column for column, _ in wanted if column not in table.columns]
    if missing:
        raise ExperimentError(f"{file} has no column {', '.join(missing)}; it has {', '.join(table.columns)}")
    typed = [F.col(column).cast(kind).alias(column) for column, kind in wanted]
    return table.coalesce(1).select(F.monotonically_increasing_id().alias("number"), *typed)
