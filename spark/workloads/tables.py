"""Small tables of constants as columns."""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F


def entry(values: Sequence[object], place: Column, kind: str = "string") -> Column:
    """The value at a place that counts from 0.

    The table is one literal that Spark takes apart once, when it plans: a literal for every value would make plans of
    many tables take longer than the rows. So no value has a comma.
    """
    return F.get(F.split(F.lit(",".join(map(str, values))), ",").cast(f"array<{kind}>"), place.cast("int"))
