"""One Spark session for all tests of this directory, and small recordings."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark.session import spark_session
from tests.spark.small import SMALL

CASES = (
    *("analysing", "compiling", "following", "generating", "learning", "matching", "profiling", "reading", "reporting"),
    *("requesting", "windowing", "word_counting"),
)
pytest.register_assert_rewrite(*(f"tests.spark.{name}" for name in CASES))


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
