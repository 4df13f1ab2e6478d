"""Where lines come from: files of slices on this machine, or a topic of Kafka."""

from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession

from braid.telemetry.sample_files import ENDING
from spark.errors import ExperimentError
from spark.requests import Follow

SCALA = "2.13"  # that the Spark of PySpark is made with


def check(request: Follow) -> None:
    """What can be said before Spark starts."""
    match request.source:
        case "files":
            if not request.directory.is_dir():
                raise ExperimentError(
                    f"{request.directory} is no directory; --from names the one in which slices write telemetry. "
                    "'braid up --telemetry' lets them: it is 'telemetry' below the data directory"
                )
        case "kafka":
            if not request.bootstrap:
                raise ExperimentError("where is Kafka? Give --bootstrap host:port")
        case _:
            raise ExperimentError(f"there is no source '{request.source}'; one of: files, kafka")


def session_settings(request: Follow) -> dict[str, str]:
    """Kafka's source is not part of PySpark; Spark fetches it from Maven Central, and keeps it for the next time."""
    settings = {
        # Each partition of the state is files of its own in every batch, and there are few rows.
        "spark.sql.shuffle.partitions": "2",
    }
    if request.source == "kafka":
        settings["spark.jars.packages"] = kafka_package()
    return settings


def kafka_package() -> str:
    return f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{pyspark.__version__}"


def lines_of(spark: SparkSession, request: Follow) -> DataFrame:
    """A stream of lines (`value`). Each batch takes whatever is there, so that nothing becomes late by waiting."""
    if request.source == "files":
        return files(spark, request.directory)
    return topic(spark, request.bootstrap, request.topic)


def files(spark: SparkSession, directory: Path) -> DataFrame:
    """Files that a slice has removed before they were read are gone; the numbers of its samples tell."""
    return (
        spark.readStream.option("recursiveFileLookup", "true")
        .option("pathGlobFilter", f"*{ENDING}")
        .option("ignoreMissingFiles", "true")
        .text(str(directory))
    )


def topic(spark: SparkSession, bootstrap: str, name: str) -> DataFrame:
    """From its beginning. What Kafka has removed before it was read is gone; the numbers of samples tell."""
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", name)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "false")
        .load()
    )
    return stream.selectExpr("CAST(value AS STRING) AS value")
