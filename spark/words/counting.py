"""Counts posts by their words and by pairs of their words."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from spark.words.stemming import numbered, with_stems

VOCABULARY = 10_000  # the most frequent words, whose pairs are counted
SAMPLE = 200_000  # posts of which the words are kept together, about
_GRAINS = 1_000_000  # to which a share is rounded


class Statistics(NamedTuple):
    posts: int
    vocabulary: int  # the most frequent words, of whose pairs it was counted how often they occur
    frequencies: DataFrame  # word, posts, rank
    cooccurrences: DataFrame  # first, second, posts; the first is the more frequent one
    sample: DataFrame  # words, of some posts


@contextmanager
def statistics(posts: DataFrame, vocabulary: int = VOCABULARY) -> Iterator[Statistics]:
    """From a column `text`. What it gives can be read until it is left.

    The words of each post are kept, on disk where memory ends, because they are read several times. Each core has some:
    a compressed file is one partition.
    """
    cores = posts.sparkSession.sparkContext.defaultParallelism
    spread = posts.select("text")
    if spread.rdd.getNumPartitions() < cores:
        spread = spread.repartition(cores)
    stemmed = with_stems(spread).persist(StorageLevel.MEMORY_AND_DISK)
    counted = frequencies(stemmed).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        frequent = counted.where(F.col("rank") <= vocabulary)
        # Bounded by the vocabulary: this and the broadcast are all that the driver holds.
        words = [row.word for row in frequent.orderBy("rank").select("word").collect()]
        posts_counted = stemmed.count()
        yield Statistics(
            posts_counted, vocabulary, counted, cooccurrences(stemmed, words), sample(stemmed, posts_counted)
        )
    finally:
        counted.unpersist()
        stemmed.unpersist()


def frequencies(stemmed: DataFrame) -> DataFrame:
    """In how many posts each word occurs. The most frequent one has rank 1; equals are ranked by the alphabet."""
    counted = stemmed.select(F.explode("words").alias("word")).groupBy("word").agg(F.count("*").alias("posts"))
    # A vocabulary is small beside the posts, so one task ranks it.
    order = Window.orderBy(F.desc("posts"), F.asc("word"))
    return counted.select("word", "posts", F.row_number().over(order).alias("rank"))


def cooccurrences(stemmed: DataFrame, words: list[str]) -> DataFrame:
    """In how many posts two of these words occur together. Pairs are counted as one number, which is cheap to hash."""
    size = len(words)
    numbers = numbered(stemmed, {word: number for number, word in enumerate(words)})
    firsts = numbers.select("words", F.explode("words").alias("first"))
    both = firsts.select("first", F.explode("words").alias("second")).where("first < second")
    pair = F.col("first").cast("long") * size + F.col("second")
    counted = both.select(pair.alias("pair")).groupBy("pair").agg(F.count("*").alias("posts"))
    # One literal, which Spark takes apart once; no word has a space.
    known = F.split(F.lit(" ".join(words)), " ")
    return counted.select(
        F.get(known, F.floor(F.col("pair") / size).cast("int")).alias("first"),
        F.get(known, F.pmod("pair", F.lit(size)).cast("int")).alias("second"),
        "posts",
    )


def sample(stemmed: DataFrame, posts: int, most: int = SAMPLE) -> DataFrame:
    """About so many of all posts. Which ones follows from what they say: those that say the same are all in it, or none
    of them is.
    """
    share = min(1.0, most / max(1, posts))
    return stemmed.where(F.pmod(F.xxhash64("words"), F.lit(_GRAINS)) < round(share * _GRAINS))
