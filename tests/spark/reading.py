"""Recorded data has the schema of generated data."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from spark.errors import ExperimentError
from spark.requests import Workload
from spark.workloads.making import area_of, made
from tests.spark.recordings import write_table
from tests.spark.workload_cases import rows_of, subscriptions

__all__ = [
    "test_a_file_that_is_not_there_or_something_else",
    "test_flights_and_taxis",
    "test_readings_of_stations",
    "test_recorded_and_generated_rows_have_one_schema",
    "test_texts_over_several_lines",
    "test_zones_lie_where_the_objects_were",
]


@pytest.mark.parametrize("kind", ["readings", "posts", "fleets"])
def test_recorded_and_generated_rows_have_one_schema(spark: SparkSession, data: Path, kind: str) -> None:
    request = Workload(kind=kind, rows=10, seed=1, out=data)
    with made(spark, request) as generated, made(spark, msgspec.structs.replace(request, data=data)) as recorded:
        assert recorded.dtypes == generated.dtypes


def test_readings_of_stations(spark: SparkSession, data: Path) -> None:
    (reading,) = rows_of(spark, "readings", 10, data=data)
    assert reading["hour"] == 23
    assert reading["time"].astimezone(UTC) == datetime(2023, 1, 1, 23, tzinfo=UTC)
    assert msgspec.json.decode(reading["publication"]) == {
        "topic": "air/28079004/NO2",
        "attributes": {"station": "28079004", "pollutant": "NO2", "value": 41.0, "hour": 23},
        "zone": {"type": "point", "lat": 40.423883, "lon": -3.712197},
    }


def test_texts_over_several_lines(spark: SparkSession, data: Path) -> None:
    first, second = rows_of(spark, "posts", 10, data=data)
    assert first["author"] == "user0"
    assert second["text"] == 'She said: "Wait,\nthere is more."'
    assert len(rows_of(spark, "posts", 1, data=data)) == 1


def test_flights_and_taxis(spark: SparkSession, data: Path) -> None:
    (flight,) = rows_of(spark, "fleets", 10, data=data, source="flights")
    assert (flight["object"], flight["speed_kmh"], flight["occupied"]) == ("4067f2", 185.2, None)
    taxis = rows_of(spark, "fleets", 10, data=data)
    assert [row["occupied"] for row in taxis[:2]] == [False, True]
    assert "speed_kmh" not in taxis[0]["publication"]


def test_zones_lie_where_the_objects_were(spark: SparkSession, data: Path) -> None:
    with made(spark, Workload(kind="fleets", rows=100, seed=1, out=data, data=data)) as taxis:
        south, west, north, east = area_of(taxis)
    assert (south, north) == pytest.approx((37.7, 37.749), abs=1e-3)
    assert west == pytest.approx(east)


def test_a_file_that_is_not_there_or_something_else(spark: SparkSession, data: Path) -> None:
    write_table(data / "taxis" / "cabspotting_2008-06-02_to_03.csv.gz", ("time", "cab_id"), [(1, "a")])
    with pytest.raises(ExperimentError, match="has no column unix_time, lat, lon, occupied; it has time, cab_id"):
        rows_of(spark, "fleets", 10, data=data)
    with pytest.raises(ExperimentError, match=r"air_madrid.* does not exist; --data names the directory"):
        rows_of(spark, "readings", 10, data=data / "taxis")
    with pytest.raises(ExperimentError, match="does not exist"):
        subscriptions(spark, "posts", 100, 1, data / "taxis")
