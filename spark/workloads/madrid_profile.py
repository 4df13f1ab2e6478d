"""Makes `madrid.py` anew from recorded readings.

    python -m spark.workloads.madrid_profile --data DIRECTORY > madrid.py && mv madrid.py spark/workloads/

Ties are spread evenly over the resolution of the instrument, because ranges over values need quantiles that differ.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark.errors import shown_errors
from spark.session import LOCAL, spark_session
from spark.workloads import recorded
from spark.workloads.quantiles import RANKS

_FINE_RESOLUTION = 0.1
_FINE = ("CO", "BEN", "TOL", "EBE")  # the others are reported in whole micrograms
_LEAST = 0.001  # an instrument that drifts reports less than nothing; ranks need different values there, too


class Profile(NamedTuple):
    """What `madrid.py` holds, in the order of the pollutants."""

    pollutants: list[str]
    quantiles: list[list[float]]
    daily_course: list[list[float]]
    stations: list[tuple[str, str, float, float]]
    stations_of_pollutant: list[list[int]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m spark.workloads.madrid_profile", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="directory with the recorded data")
    parser.add_argument("--master", default=LOCAL)
    given = parser.parse_args()
    with shown_errors(), spark_session(given.master) as spark:
        air, stations = recorded.air(spark, given.data), recorded.stations(spark, given.data)
        sys.stdout.write(source_of(profile(air, stations)))


def profile(air: DataFrame, stations: DataFrame) -> Profile:
    """From readings (station, pollutant, value, hour, time) and stations (station, name, lat, lon)."""
    places = [(row.station, row.name, row.lat, row.lon) for row in stations.orderBy("station").collect()]
    numbers = {place[0]: number for number, place in enumerate(places)}
    quantiles = {row.pollutant: row.quantiles for row in quantiles_of(air).collect()}
    courses = {(row.pollutant, row.hour): row.factor for row in course_of(air).collect()}
    sensors = [(row.pollutant, row.station) for row in air.select("pollutant", "station").distinct().collect()]
    pollutants = sorted(quantiles)
    return Profile(
        pollutants,
        [[round(value, 4) for value in quantiles[pollutant]] for pollutant in pollutants],
        [[round(courses.get((pollutant, hour), 1.0), 3) for hour in range(24)] for pollutant in pollutants],
        places,
        [sorted(numbers[at] for of, at in sensors if of == pollutant) for pollutant in pollutants],
    )


def quantiles_of(air: DataFrame) -> DataFrame:
    """For each pollutant its values at `RANKS`."""
    equal = Window.partitionBy("pollutant", "value")
    share = (F.row_number().over(equal.orderBy("station", "time")) - 0.5) / F.count("*").over(equal)
    resolution = F.when(F.col("pollutant").isin(*_FINE), _FINE_RESOLUTION).otherwise(1.0)
    # What would be less than nothing is left where it was in the order.
    spread = F.col("value") + resolution * (share - 0.5)
    positive = F.when(spread > 0, spread + _LEAST).otherwise(F.lit(_LEAST) * F.exp(spread))
    spread_out = air.select("pollutant", positive.alias("value"))
    return spread_out.groupBy("pollutant").agg(F.percentile("value", F.lit(list(RANKS))).alias("quantiles"))


def course_of(air: DataFrame) -> DataFrame:
    """For each pollutant and hour: how much more or less there is than in the mean of the day."""
    hourly = air.groupBy("pollutant", "hour").agg(F.avg("value").alias("mean"))
    daily = F.avg("mean").over(Window.partitionBy("pollutant"))
    return hourly.select("pollutant", "hour", (F.col("mean") / daily).alias("factor"))


_HEAD = '''"""Madrid's air from January to June 2023, in numbers: made by `madrid_profile.py` from recorded readings.

The tables have a row for each pollutant. Quantiles are those at `quantiles.RANKS`; the daily course has a factor for
each hour; the stations that measure a pollutant are numbered as in `STATIONS`.
"""

from typing import NamedTuple


class Station(NamedTuple):
    id: str
    name: str
    lat: float
    lon: float


'''


def source_of(found: Profile) -> str:
    """As the formatter writes it."""
    parts = [_HEAD, f"POLLUTANTS = ({', '.join(_quoted(name) for name in found.pollutants)})\n\n# fmt: off\n"]
    tables: dict[str, Sequence[Sequence[float]]] = {
        "QUANTILES": found.quantiles,
        "DAILY_COURSE": found.daily_course,
        "STATIONS_OF_POLLUTANT": found.stations_of_pollutant,
    }
    for name, rows in tables.items():
        parts += [f"{name} = (\n", *(_row(list(map(str, row))) for row in rows), ")\n\n"]
    parts.append("STATIONS = (\n")
    parts += [f"    Station({_quoted(id)}, {_quoted(name)}, {lat}, {lon}),\n" for id, name, lat, lon in found.stations]
    return "".join([*parts, ")\n# fmt: on\n"])


def _quoted(text: str) -> str:
    return f'"{text}"'


def _row(numbers: list[str], per_line: int = 10) -> str:
    lines = [", ".join(numbers[start : start + per_line]) for start in range(0, len(numbers), per_line)]
    return "    (\n" + "".join(f"        {line},\n" for line in lines) + "    ),\n"


if __name__ == "__main__":
    main()
