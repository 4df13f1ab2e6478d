"""Statistics of words: how many posts hold a word, how many hold two words together, and maps learned from them.

Words are those of `braid.words`: what subscriptions demand and publications carry.
"""

from spark.words.counting import VOCABULARY, Statistics, statistics
from spark.words.stemming import with_stems

__all__ = ["VOCABULARY", "Statistics", "statistics", "with_stems"]
