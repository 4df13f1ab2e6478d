"""Parquet that somebody made before."""

from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from spark.errors import ExperimentError
from spark.outputs import read_note


def check_words(directory: Path) -> None:
    """What `braid experiment words` has made, and all of it."""
    note = read_note(directory)
    if note is None or note.get("made") != "words":
        raise ExperimentError(f"{directory} holds no counted words; 'braid experiment words' makes them from posts")
    if not note.get("complete"):
        raise ExperimentError(f"{directory} is not complete: whoever made it was interrupted; make it anew")
    if not (directory / "sample").is_dir():
        raise ExperimentError(f"{directory} was made by a version that kept no posts to learn from; make it anew")


def read_parquet(spark: SparkSession, directory: Path, *columns: str) -> DataFrame:
    """These columns. A file that cannot be read as a whole may show only when its rows are asked for."""
    if not directory.exists():
        raise ExperimentError(f"{directory} does not exist; 'braid experiment workload posts' makes posts")
    note = read_note(directory)
    if note is not None and not note.get("complete"):
        raise ExperimentError(f"{directory} is not complete: whoever made it was interrupted; make it anew")
    try:
        table = spark.read.parquet(str(directory))
    except AnalysisException:
        raise ExperimentError(f"{directory} holds no Parquet files") from None
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise ExperimentError(
            f"{directory} has no column {', '.join(missing)}; it has {', '.join(table.columns) or 'none'}"
        )
    return table.select(*columns)
