"""Workloads as tests ask for them."""

from functools import cache
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession

from spark.requests import SUBSCRIPTIONS, Workload
from spark.workloads.making import made

PUBLISHED = ("readings", "posts", "fleets")
PUBLICATIONS = 2_000
SUBSCRIBED = ("readings", "posts", "fleets", "topics")


def rows_of(
    spark: SparkSession,
    kind: str,
    rows: int,
    *,
    on: str | None = None,
    seed: int = 7,
    matches: float = 10,
    partitions: int = 1,
    data: Path | None = None,
    source: str | None = None,
) -> list[Row]:
    """In the order of their numbers."""
    request = Workload(
        kind=kind,
        rows=rows,
        seed=seed,
        out=Path("unused"),
        on=on,
        matches=matches,
        partitions=partitions,
        data=data,
        source=source,
    )
    with made(spark, request) as table:
        return sorted(table.collect(), key=lambda row: int(row["number"]))


@cache
def published(spark: SparkSession, kind: str) -> list[Row]:
    """Generated once for all tests that look at some."""
    return rows_of(spark, kind, PUBLICATIONS)


def subscriptions(spark: SparkSession, on: str, rows: int, matches: float, data: Path | None = None) -> list[Row]:
    return rows_of(spark, SUBSCRIPTIONS, rows, on=on, matches=matches, data=data)


def numbers(spark: SparkSession, count: int, step: int = 1, first: int = 0) -> DataFrame:
    """What generators begin with."""
    return spark.range(first, first + count * step, step, 2).withColumnRenamed("id", "number")
