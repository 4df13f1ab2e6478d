"""The words of texts, as the broker sees them.

What a word is, is said by `braid.words` alone, so texts go through Python here. A plain function does: most of the time
goes into splitting and stemming, and Arrow would bring two large dependencies for the rest.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, StringType

from braid.words import stem_of, stems_of


def with_stems(posts: DataFrame) -> DataFrame:
    """From a column `text` to `words`, the distinct stems of each post."""
    return posts.select(_stems(F.col("text")).alias("words"))


def numbered(posts: DataFrame, numbers: dict[str, int]) -> DataFrame:
    """From a column `words` to `words`, the numbers of those that have one, in ascending order."""
    shared = posts.sparkSession.sparkContext.broadcast(numbers)

    def numbers_of(words: list[str]) -> list[int]:
        known = shared.value
        return sorted(known[word] for word in words if word in known)

    number = F.udf(numbers_of, ArrayType(IntegerType()), useArrow=False)
    return posts.select(number("words").alias("words"))


def is_own_stem(word: Column) -> Column:
    """Whether a subscription that gives the stem demands just this stem: stemming once more may change it."""
    return F.udf(_is_own_stem, "boolean", useArrow=False)(word)


def _is_own_stem(word: str | None) -> bool:
    """Spark asks also on the other side of a join, before nulls are left out there."""
    return word is not None and stem_of(word) == word


def _stems(text: Column) -> Column:
    return F.udf(_stems_of, ArrayType(StringType()), useArrow=False)(text)


def _stems_of(text: str | None) -> list[str]:
    return stems_of(text or "")
