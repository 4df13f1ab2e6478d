"""Subscriptions to values of readings: a pollutant, most at a station, some at an hour, and a range of values.

A range begins at a random rank of all values of its pollutant, covers a fixed share of the ranks, and goes on at the
bottom when it reaches the top. So whatever the value of a reading is, the same number of ranges holds it. How many
ranges there are for a pollutant and a station does not matter, because the fewer they are, the wider they are made.
"""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.workloads import madrid
from spark.workloads.chance import Chance, chosen
from spark.workloads.quantiles import value_at
from spark.workloads.readings import SENSORS
from spark.workloads.subscriptions import share_of, with_subscription
from spark.workloads.tables import entry


class _Scope(NamedTuple):
    """What stands before the range, how many of these there are, and how popular it is where there is a choice."""

    station: bool
    hour: bool
    cells: int
    weight: float


_SCOPES = (
    _Scope(station=False, hour=False, cells=len(madrid.POLLUTANTS), weight=0.2),
    _Scope(station=True, hour=False, cells=len(SENSORS), weight=0.6),
    _Scope(station=True, hour=True, cells=len(SENSORS) * 24, weight=0.2),
)


def generate(rows: DataFrame, seed: int, count: int, matches: float) -> DataFrame:
    """From a column `number`, whose values are below `count`."""
    share = share_of(count, matches)
    chance = Chance(seed, F.col("number"))
    # A cell gets its part of the subscriptions, so their ranges must be wider by the number of cells.
    possible = [scope for scope in _SCOPES if share * scope.cells <= 1]
    if not possible:
        return _anywhere(rows, chance, share)
    total = sum(scope.weight for scope in possible)

    def by_scope(member: str) -> Column:
        options = [(scope.weight / total, F.lit(getattr(scope, member))) for scope in possible]
        return chosen(chance.uniform("scope"), options)

    sensor = chance.below(len(SENSORS), "sensor").cast("int")
    of_sensor = entry([pollutant for pollutant, _ in SENSORS], sensor, "int")
    kind = F.when(by_scope("station"), of_sensor).otherwise(chance.below(len(madrid.POLLUTANTS), "pollutant"))
    place = entry([madrid.STATIONS[station].id for _, station in SENSORS], sensor)
    scoped = rows.select(
        "number",
        kind.cast("int").alias("kind"),
        F.when(by_scope("station"), place).alias("station"),
        F.when(by_scope("hour"), chance.below(24, "hour")).alias("hour"),
        (by_scope("cells") * share).alias("width"),
        chance.uniform("rank").alias("rank"),
    )
    conditions = F.concat(
        F.lit("pollutant = '"),
        entry(madrid.POLLUTANTS, F.col("kind")),
        F.lit("'"),
        F.coalesce(F.concat(F.lit(" and station = '"), F.col("station"), F.lit("'")), F.lit("")),
        F.coalesce(F.concat(F.lit(" and hour = "), F.col("hour")), F.lit("")),
        F.lit(" and "),
        _range(F.col("rank"), F.col("width"), F.col("kind")),
    )
    return with_subscription(scoped, filter=conditions)


def _anywhere(rows: DataFrame, chance: Chance, share: float) -> DataFrame:
    """So few subscriptions, or so many matches, that only ranges over the values of everything are wide enough."""
    everything = F.lit(madrid.POLLUTANTS.index("NO2"))
    return with_subscription(rows, filter=_range(chance.uniform("rank"), F.lit(share), everything))


def _range(rank: Column, width: Column, kind: Column) -> Column:
    end = rank + width
    low = _number(value_at(rank, kind, madrid.QUANTILES))
    high = _number(value_at(F.when(end < 1, end).otherwise(end - 1), kind, madrid.QUANTILES))
    inside = F.concat(F.lit("value between "), low, F.lit(" and "), high)
    outside = F.concat(F.lit("(value < "), high, F.lit(" or value > "), low, F.lit(")"))
    return F.when(end < 1, inside).otherwise(outside)


def _number(value: Column) -> Column:
    """Without an exponent."""
    return value.cast("decimal(18, 6)").cast("string")
