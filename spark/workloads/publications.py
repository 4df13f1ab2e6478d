"""What all publications have in common, whoever makes them: columns, and the JSON that the API takes."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

SHARED = ("number", "time", "topic", "publication")


def with_publication(
    rows: DataFrame,
    *columns: str,
    attributes: Column,
    text: Column | None = None,
    at: tuple[Column, Column] | None = None,
    object: Column | None = None,
) -> DataFrame:
    """`number`, `time`, `topic`, then `columns`, then the publication in Braid's canonical form.

    Members that are null are left out, as the canonical form leaves them out.
    """
    members = {"topic": F.col("topic"), "attributes": attributes, "text": text}
    members["zone"] = None if at is None else point(*at)
    members["object"] = object
    given = [member.alias(name) for name, member in members.items() if member is not None]
    publication = F.to_json(F.struct(*given)).alias("publication")
    return rows.select("number", "time", "topic", *columns, publication)


def point(lat: Column, lon: Column) -> Column:
    """Null where a coordinate is missing."""
    zone = F.struct(F.lit("point").alias("type"), lat.alias("lat"), lon.alias("lon"))
    return F.when(lat.isNotNull() & lon.isNotNull(), zone)


def second(start: str, seconds: Column) -> Column:
    """The moment so many seconds after the start."""
    return F.timestamp_micros(F.unix_micros(F.lit(start).cast("timestamp")) + (seconds * 1_000_000).cast("long"))
