"""The numbers of Madrid are made from recorded readings."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.workloads import madrid, recorded
from spark.workloads.madrid_profile import profile, source_of
from spark.workloads.quantiles import RANKS
from tests.spark.recordings import record_air

__all__ = ["test_the_numbers_of_madrid_are_in_order", "test_the_profile_of_recorded_readings"]


def test_the_profile_of_recorded_readings(spark: SparkSession, tmp_path: Path) -> None:
    hours = [f"2023-01-02T{hour:02}:00" for hour in range(1, 24)]
    many = [(hour, "28079004", "NO2", 10 + number % 3, "V") for number, hour in enumerate(hours)]
    record_air(tmp_path, [*many, (hours[0], "28079008", "CO", 0.3, "V"), (hours[0], "28079008", "NO2", 99, "N")])
    found = profile(recorded.air(spark, tmp_path), recorded.stations(spark, tmp_path))
    assert found.pollutants == ["CO", "NO2"]
    assert found.stations_of_pollutant == [[1], [0]]
    # Values that are equal are spread over the resolution of the instrument.
    low, high = found.quantiles[1][0], found.quantiles[1][-1]
    assert 9.5 < low < 10
    assert 12 < high < 12.6
    assert found.daily_course[1][0] == pytest.approx(10 / 11, abs=0.02)
    made: dict[str, Any] = {}
    exec(source_of(found), made)
    assert made["QUANTILES"] == tuple(map(tuple, found.quantiles))
    assert made["STATIONS"][0].name == "Plaza de España"


def test_the_numbers_of_madrid_are_in_order() -> None:
    assert len(madrid.QUANTILES) == len(madrid.DAILY_COURSE) == len(madrid.STATIONS_OF_POLLUTANT)
    assert len(madrid.POLLUTANTS) == len(madrid.QUANTILES)
    for quantiles in madrid.QUANTILES:
        assert len(quantiles) == len(RANKS)
        assert list(quantiles) == sorted(set(quantiles))
    assert all(len(course) == 24 for course in madrid.DAILY_COURSE)
