"""The settings of Spark that users have: what it makes Java code of and compiles gives what it interprets.

All other tests of this directory interpret, because that is faster for a few rows.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from spark.streaming.samples import samples_of
from tests.spark.generating import KINDS
from tests.spark.small import SMALL
from tests.spark.windowing import a_sample, a_sample_and_others
from tests.spark.workload_cases import published, rows_of

__all__ = [
    "test_compiled_generators_give_the_same_rows",
    "test_compiled_or_not_the_same_lines_are_samples",
]

ROWS = 50
INTERPRETED = [name for name in SMALL if name.startswith("spark.sql.") and name != "spark.sql.shuffle.partitions"]


@contextmanager
def defaults(spark: SparkSession) -> Iterator[None]:
    for name in INTERPRETED:
        spark.conf.unset(name)
    try:
        assert "*(1)" in spark.range(2).selectExpr("id + 1")._jdf.queryExecution().executedPlan().toString()
        yield
    finally:
        for name in INTERPRETED:
            spark.conf.set(name, SMALL[name])


@pytest.mark.parametrize(("kind", "on"), KINDS)
def test_compiled_generators_give_the_same_rows(spark: SparkSession, kind: str, on: str | None) -> None:
    interpreted = published(spark, kind)[:ROWS] if on is None else rows_of(spark, kind, ROWS, on=on)
    with defaults(spark):
        assert rows_of(spark, kind, ROWS, on=on) == interpreted


def test_compiled_or_not_the_same_lines_are_samples(spark: SparkSession) -> None:
    lines = spark.createDataFrame([(line,) for line in [*a_sample_and_others(), a_sample()]], "value string")
    interpreted = samples_of(lines).collect()
    assert len(interpreted) == 2
    with defaults(spark):
        assert samples_of(lines).collect() == interpreted
