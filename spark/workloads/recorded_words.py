"""Subscriptions to words of recorded posts: single words, and pairs that occur together.

Words and pairs are sorted into classes of about equal frequency; which classes are mixed follows from the counts. Only
the members of these are put in an order: most pairs occur once, and there are tens of millions of them.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from spark.errors import ExperimentError
from spark.words import Statistics
from spark.words.stemming import is_own_stem
from spark.workloads.chance import Chance, chosen
from spark.workloads.subscriptions import Rung, blended, share_of, with_subscription

MEMBERS_MAX = 500_000  # of a class that can be asked for, about


class Class(NamedTuple):
    """Terms of so many words, each in at least 2^power and fewer than 2^(power + 1) posts."""

    size: int
    power: int


@contextmanager
def generated(rows: DataFrame, seed: int, count: int, matches: float, found: Statistics) -> Iterator[DataFrame]:
    """From a column `number`, whose values are below `count`. It can be read until this is left."""
    share = share_of(count, matches)
    counted = terms(found).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        mixes = [mix for ladder in ladders(counted, found.posts) if (mix := blended(ladder, share))]
        if not mixes:
            raise ExperimentError(
                f"no words of these {found.posts} posts occur in {share:.1e} of them, as {count} subscriptions with "
                f"{matches:g} matches would have to; give more --matches or fewer --rows"
            )
        wanted = placed(counted, [of for mix in mixes for _, of in mix])
        members = {
            Class(row["size"], row["power"]): row["count"] for row in wanted.groupBy("size", "power").count().collect()
        }
        chance = Chance(seed, F.col("number"))
        options = [
            (
                weight / len(mixes),
                F.struct(
                    F.lit(of.size).alias("size"),
                    F.lit(of.power).alias("power"),
                    chance.below(members[of], "term").alias("place"),
                ),
            )
            for mix in mixes
            for weight, of in mix
        ]
        asked = rows.select("number", chosen(chance.uniform("class"), options).alias("term")).select("number", "term.*")
        joined = asked.join(wanted, ["size", "power", "place"])
        # A join leaves no order, and whoever takes the first of the files wants a fair sample.
        ordered = joined.repartitionByRange(rows.rdd.getNumPartitions(), "number").sortWithinPartitions("number")
        yield with_subscription(ordered, words=F.col("words"))
    finally:
        counted.unpersist()


def terms(found: Statistics) -> DataFrame:
    """size, power, words, posts."""
    words = found.frequencies.where(is_own_stem(F.col("word")))
    single = words.select(F.array("word").alias("words"), "posts")
    stable = F.broadcast(words.where(F.col("rank") <= found.vocabulary).select("word"))
    pairs = found.cooccurrences.join(stable.withColumnRenamed("word", "first"), "first").join(
        stable.withColumnRenamed("word", "second"), "second"
    )
    both = pairs.select(F.array("first", "second").alias("words"), "posts")
    return single.union(both).select(
        F.size("words").alias("size"), F.floor(F.log2("posts")).cast("int").alias("power"), "words", "posts"
    )


def ladders(counted: DataFrame, posts: int) -> list[list[Rung[Class]]]:
    """For each number of words, the classes from the most frequent to the least."""
    classes = counted.groupBy("size", "power").agg(F.avg("posts").alias("posts"))
    sizes: dict[int, list[Rung[Class]]] = {}
    for row in classes.orderBy("size", F.desc("power")).collect():
        sizes.setdefault(row["size"], []).append(Rung(Class(row["size"], row["power"]), row["posts"] / posts))
    return list(sizes.values())


def placed(counted: DataFrame, classes: Iterable[Class], most: int = MEMBERS_MAX) -> DataFrame:
    """The members of these classes, or about so many of each, with their places.

    Which ones follows from a hash of their words, so that the same posts give the same ones.
    """
    of = F.struct("size", "power").isin([F.struct(F.lit(one.size), F.lit(one.power)) for one in classes])
    known = counted.where(of)
    sizes = known.groupBy("size", "power").agg(F.count("*").alias("all"))
    thinned = known.join(F.broadcast(sizes), ["size", "power"]).where(
        F.pmod(F.xxhash64("words"), F.col("all")) < F.lit(most)
    )
    order = Window.partitionBy("size", "power").orderBy("words")
    return thinned.select("size", "power", "words", (F.row_number().over(order) - 1).cast("long").alias("place"))
