"""Subscriptions to words of recorded posts: single words, and pairs that occur together.

Words and pairs are sorted into classes of about equal frequency; which classes are mixed follows from the counts.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark.errors import ExperimentError
from spark.words import Statistics
from spark.words.stemming import is_own_stem
from spark.workloads.chance import Chance, chosen
from spark.workloads.subscriptions import Rung, blended, share_of, with_subscription


def generate(rows: DataFrame, seed: int, count: int, matches: float, found: Statistics) -> DataFrame:
    """From a column `number`, whose values are below `count`."""
    share = share_of(count, matches)
    kept = classified(found)
    chance = Chance(seed, F.col("number"))
    classes = kept.groupBy("size", "class").agg(F.avg("posts").alias("posts"), F.count("*").alias("members"))
    sizes: dict[int, list[Rung[tuple[int, int]]]] = {}
    for row in classes.orderBy("size", F.desc("class")).collect():
        sizes.setdefault(row["size"], []).append(Rung((row["class"], row["members"]), row["posts"] / found.posts))
    possible = [(size, blended(ladder, share)) for size, ladder in sizes.items() if blended(ladder, share)]
    if not possible:
        raise ExperimentError(
            f"no words of these {found.posts} posts occur in {share:.1e} of them, as {count} subscriptions with "
            f"{matches:g} matches would have to; give more --matches or fewer --rows"
        )
    options = [
        (
            weight / len(possible),
            F.struct(F.lit(size).alias("size"), F.lit(of).alias("class"), chance.below(members, "term").alias("place")),
        )
        for size, mix in possible
        for weight, (of, members) in mix
    ]
    asked = rows.select("number", chosen(chance.uniform("class"), options).alias("term")).select("number", "term.*")
    return with_subscription(asked.join(kept, ["size", "class", "place"]), words=F.col("words"))


def classified(found: Statistics) -> DataFrame:
    """size, class, place within the class, words, posts. A class holds what is up to twice as frequent as another."""
    words = found.frequencies.where(is_own_stem(F.col("word")))
    single = words.select(F.array("word").alias("words"), "posts")
    stable = words.select("word")
    pairs = found.cooccurrences.join(stable.withColumnRenamed("word", "first"), "first").join(
        stable.withColumnRenamed("word", "second"), "second"
    )
    both = pairs.select(F.array("first", "second").alias("words"), "posts")
    terms = single.union(both).select(
        F.size("words").alias("size"), F.floor(F.log2("posts")).cast("int").alias("class"), "words", "posts"
    )
    order = Window.partitionBy("size", "class").orderBy("words")
    return terms.select("*", (F.row_number().over(order) - 1).cast("long").alias("place"))
