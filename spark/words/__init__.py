"""Statistics of words: how many posts hold a word, and how many hold two words together.

Words are those of `braid.words`: what subscriptions demand and publications carry.
"""

from spark.words.counting import VOCABULARY, Statistics, statistics
from spark.words.stemming import with_stems

__all__ = ["VOCABULARY", "Statistics", "statistics", "with_stems"]
