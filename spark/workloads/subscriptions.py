"""What all subscriptions have in common: columns, the JSON that the API takes, and how many of them match.

Of `rows` subscriptions, `matches` shall match a publication. So each must accept a share of `matches / rows` of all
publications, on average over the subscriptions. Kinds of subscriptions whose shares are known are mixed for that.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.errors import ExperimentError

Kind = TypeVar("Kind")

SUBSCRIBERS = 1_000
SHARE_MAX = 0.2  # beyond, zones would be larger than the place they are about


def share_of(rows: int, matches: float) -> float:
    """The share of all publications that a subscription accepts."""
    share = matches / rows
    if share > SHARE_MAX:
        least = int(-(-matches // SHARE_MAX))
        raise ExperimentError(
            f"{rows} subscriptions are too few for {matches:g} matches of each publication: "
            f"give at least --rows {least}, or fewer --matches"
        )
    return share


def with_subscription(rows: DataFrame, **parts: Column) -> DataFrame:
    """`number`, `subscriber`, `subscription`; a part that is null is left out."""
    subscriber = F.concat(F.lit("subscriber-"), F.pmod("number", F.lit(SUBSCRIBERS)))
    members = [part.alias(name) for name, part in parts.items()]
    subscription = F.to_json(F.struct(*members, subscriber.alias("subscriber")))
    return rows.select("number", subscriber.alias("subscriber"), subscription.alias("subscription"))


class Rung(NamedTuple, Generic[Kind]):
    """Subscriptions of one kind, and the share of all publications that such a one accepts on average."""

    kind: Kind
    share: float


def blended(ladder: Sequence[Rung[Kind]], share: float) -> list[tuple[float, Kind]]:
    """The two neighbours on a ladder between which the wanted share lies, weighted so that they have it on average.

    A ladder leads from larger to smaller shares. Nothing, when the share is not on it.
    """
    for hot, cold in pairwise(ladder):
        if hot.share >= share > cold.share:
            weight = (share - cold.share) / (hot.share - cold.share)
            return [(weight, hot.kind), (1 - weight, cold.kind)]
    return []
