"""The words of generated posts: made up of syllables, so that every number has a word whose stem is its own."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark.workloads.tables import entry

_CONSONANTS = "bdfghjklmnprstvwzcqx"
_SYLLABLES = [consonant + vowel for consonant in _CONSONANTS for vowel in "aeiou"]
# No English suffix ends in one of these vowels, so that the stemmer leaves the word as it is.
_ENDINGS = [consonant + vowel for consonant in _CONSONANTS for vowel in "aou"]
WORDS_MAX = len(_SYLLABLES) ** 2 * len(_ENDINGS)
_SCATTER = 7919  # has no divisor in common with the number of words, so that neighbours look different

LEADS = ("", "", "the ", "", "of ", "", "and ", "with ")  # stop words, as texts have them


def word(number: Column) -> Column:
    """Another word for every number from 0 to `WORDS_MAX`."""
    scattered = F.pmod(number * _SCATTER, F.lit(WORDS_MAX))
    rest = F.floor(scattered / len(_ENDINGS))
    return F.concat(
        entry(_SYLLABLES, F.pmod(rest, F.lit(len(_SYLLABLES)))),
        entry(_SYLLABLES, F.floor(rest / len(_SYLLABLES))),
        entry(_ENDINGS, F.pmod(scattered, F.lit(len(_ENDINGS)))),
    )
