"""Frequencies and co-occurrences are what counting by hand gives."""

from collections import Counter
from itertools import combinations

from pyspark.sql import SparkSession

from braid.words import stems_of
from spark.words import statistics
from tests.spark.workload_cases import published

__all__ = ["test_the_words_of_a_topic_occur_together", "test_words_and_pairs_are_counted"]

TEXTS = ["The white house", "White houses, WHITE lawns!", "", "a house of the lawn", "the of and", None, "café café"]


def test_words_and_pairs_are_counted(spark: SparkSession) -> None:
    table = spark.createDataFrame([(text,) for text in TEXTS], "text string")
    stems = [stems_of(text or "") for text in TEXTS]
    words = Counter(stem for found in stems for stem in found)
    with statistics(table, vocabulary=3) as counted:
        assert counted.posts == len(TEXTS)
        ranked = counted.frequencies.orderBy("rank").collect()
        pairs = {(row["first"], row["second"]): row["posts"] for row in counted.cooccurrences.collect()}
    assert {row["word"]: row["posts"] for row in ranked} == words
    assert [row["word"] for row in ranked] == sorted(words, key=lambda word: (-words[word], word))
    assert [row["rank"] for row in ranked] == list(range(1, len(words) + 1))
    frequent = [row["word"] for row in ranked[:3]]
    by_hand = Counter(pair for found in stems for pair in combinations([w for w in frequent if w in found], 2))
    assert pairs == by_hand


def test_the_words_of_a_topic_occur_together(spark: SparkSession) -> None:
    table = spark.createDataFrame([(row["text"],) for row in published(spark, "posts")], "text string")
    with statistics(table, vocabulary=200) as counted:
        frequencies = {row["word"]: row["posts"] for row in counted.frequencies.collect()}
        pairs = counted.cooccurrences.where("posts >= 10").collect()
    ratios = [row["posts"] * counted.posts / (frequencies[row["first"]] * frequencies[row["second"]]) for row in pairs]
    assert max(ratios) > 5  # times as often as if they had nothing to do with each other
    assert min(ratios) < 2
