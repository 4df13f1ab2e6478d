"""Short texts. Each is about a topic, whose words occur together; between them stand words of every subject.

Words, topics, authors and conversations have Zipf's distribution. Now and then everybody speaks of the same topic.
"""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.workloads.chance import Chance
from spark.workloads.publications import second, with_publication
from spark.workloads.tables import entry
from spark.workloads.vocabulary import LEADS, word

START = "2020-01-01T00:00:00Z"
PER_SECOND = 10
AUTHORS = 100_000

GENERAL_WORDS = 50_000
TOPICS = 100
WORDS_OF_TOPIC = 40
GENERAL_DRAWS = (4, 8)  # at least, at most; any number is as likely
TOPIC_DRAWS = (3, 8)

BURST_POSTS = 6_000  # about ten minutes
BURST_CHANCE = 0.3  # that somebody starts one
BURST_SHARE = 0.6  # of the posts, at its height

TOPIC_LEVELS, CONVERSATION_LEVELS = 2, 6  # of the Dewey number, ten children each


def generate(rows: DataFrame, seed: int) -> DataFrame:
    """From a column `number`."""
    chance = Chance(seed, F.col("number"))
    about = rows.select(
        "number",
        second(START, F.col("number") / PER_SECOND).alias("time"),
        _subject(chance, seed).alias("subject"),
        chance.zipf(10**CONVERSATION_LEVELS, "conversation").alias("conversation"),
        F.concat(F.lit("author-"), chance.zipf(AUTHORS, "author")).alias("author"),
        _draws(chance, TOPIC_DRAWS, "topic draws").alias("topic_draws"),
        _draws(chance, GENERAL_DRAWS, "general draws").alias("general_draws"),
    )
    numbers = _word_numbers(chance)
    # A step of its own: an expression that is used in several places is computed in each of them.
    numbered = about.select("*", *(number.alias(name) for name, number in numbers.items()))
    return posts(
        numbered.select(
            "number",
            "time",
            dewey(F.col("subject"), F.col("conversation")).alias("topic"),
            "author",
            _text(chance, numbers).alias("text"),
        )
    )


def posts(rows: DataFrame) -> DataFrame:
    """The schema of posts, generated and recorded ones."""
    return with_publication(rows, "author", "text", attributes=F.struct("author"), text=F.col("text"))


def dewey(subject: Column, conversation: Column) -> Column:
    """A level for every digit."""
    digits = F.concat(
        F.lpad(subject.cast("string"), TOPIC_LEVELS, "0"),
        F.lpad(conversation.cast("string"), CONVERSATION_LEVELS, "0"),
    )
    return F.concat_ws(".", *(F.substring(digits, place + 1, 1) for place in range(TOPIC_LEVELS + CONVERSATION_LEVELS)))


def topic_word_number(subject: Column, rank: Column) -> Column:
    return subject * WORDS_OF_TOPIC + rank + GENERAL_WORDS


def _subject(chance: Chance, seed: int) -> Column:
    """Usually by popularity; in a burst many take part that rises and falls."""
    window = F.floor(F.col("number") / BURST_POSTS)
    burst = Chance(seed, window)
    height = F.lit(1.0) - F.abs(F.pmod("number", F.lit(BURST_POSTS)) / (BURST_POSTS / 2) - 1.0)
    takes_part = (burst.uniform("is burst") < BURST_CHANCE) & (chance.uniform("takes part") < height * BURST_SHARE)
    return F.when(takes_part, burst.below(TOPICS, "burst topic")).otherwise(chance.zipf(TOPICS, "topic"))


def _draws(chance: Chance, bounds: tuple[int, int], name: str) -> Column:
    least, most = bounds
    return (chance.below(most - least + 1, name) + least).cast("int")


def _word_numbers(chance: Chance) -> dict[str, Column]:
    """A column for every place, null behind the last word. They compile, where a function over an array would not."""
    numbers = {}
    for place in range(TOPIC_DRAWS[1]):
        rank = chance.zipf(WORDS_OF_TOPIC, f"topic word {place}")
        numbers[f"topic_word_{place}"] = F.when(F.col("topic_draws") > place, topic_word_number(F.col("subject"), rank))
    for place in range(GENERAL_DRAWS[1]):
        rank = chance.zipf(GENERAL_WORDS, f"general word {place}")
        numbers[f"general_word_{place}"] = F.when(F.col("general_draws") > place, rank)
    return numbers


def _text(chance: Chance, numbers: Iterable[str]) -> Column:
    words = [F.concat(entry(LEADS, chance.below(len(LEADS), f"lead {name}")), word(F.col(name))) for name in numbers]
    return F.concat(F.concat_ws(" ", *words), F.lit("."))
