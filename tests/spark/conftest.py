"""One Spark session for all tests of this directory, and small recordings."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark.session import spark_session

CASES = (
    *("analysing", "compiling", "following", "generating", "learning", "matching", "profiling", "reading", "reporting"),
    *("requesting", "windowing", "word_counting"),
)
pytest.register_assert_rewrite(*(f"tests.spark.{name}" for name in CASES))

SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    # Few rows go through many plans: to interpret one costs less than to make Java code of it and compile that.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Tables are small, and those of users are not: joins are made here as they are there.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.enabled": "false",
    # Every plan is compiled to run once, on a few rows: optimizing it would cost more than it gains.
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with spark_session("local[2]", SMALL) as session:
        yield session


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The directory of recorded data."""
    from tests.spark.recordings import record_all

    record_all(tmp_path)
    return tmp_path
