"""Subscriptions to words of posts: one to four that all must occur, most of them words of one topic."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.errors import ExperimentError
from spark.workloads.chance import Chance, chosen
from spark.workloads.posts import TOPICS, topic_word_number
from spark.workloads.subscriptions import blended, share_of, with_subscription
from spark.workloads.vocabulary import word
from spark.workloads.word_shares import TOPIC_WORDS_MAX, Demand, ladder, rank_of_topic_word, ranks_of_class


def generate(rows: DataFrame, seed: int, count: int, matches: float) -> DataFrame:
    """From a column `number`, whose values are below `count`."""
    demands = demands_for(share_of(count, matches))
    chance = Chance(seed, F.col("number"))
    options = [(weight, words_of(demand, chance)) for weight, demand in demands]
    return with_subscription(rows, words=chosen(chance.uniform("demand"), options))


def demands_for(share: float) -> list[tuple[float, Demand]]:
    """Every number of words that can have this share takes part equally."""
    possible = [found for words in range(TOPIC_WORDS_MAX + 1) if (found := blended(ladder(words), share))]
    if not possible:
        least = ladder(TOPIC_WORDS_MAX)[-1].share
        raise ExperimentError(
            f"each subscription would have to match {share:.1e} of all posts, which is less than words can "
            f"({least:.1e}); give more --matches or fewer --rows"
        )
    return [(weight / len(possible), demand) for found in possible for weight, demand in found]


def words_of(demand: Demand, chance: Chance) -> Column:
    words = []
    subject = chance.below(TOPICS, "topic")
    for place in range(demand.topic_words):
        draw = chance.below(ranks_of_class(demand.topic_words), f"topic word {place}")
        words.append(word(topic_word_number(subject, rank_of_topic_word(place, draw, demand.topic_words))))
    if demand.general is not None:
        first, end = demand.general
        words.append(word(chance.below(end - first, "general word") + first))
    return F.array(*words)
