"""Words of texts and of subscriptions: splitting, folding, stop words and stems.

What counts as a word and when two words are the same is defined in `docs/subscriptions.md`. This package is pure: it
knows nothing of subscriptions, publications or the broker.
"""

from braid.words.demands import check_words, stems_of_words
from braid.words.splitting import WORD_LENGTH_MAX, split
from braid.words.stems import LANGUAGE, WORDS_CACHED_MAX, stem_of, stems_of
from braid.words.stop_words import STOP_WORDS

__all__ = [
    "LANGUAGE",
    "STOP_WORDS",
    "WORDS_CACHED_MAX",
    "WORD_LENGTH_MAX",
    "check_words",
    "split",
    "stem_of",
    "stems_of",
    "stems_of_words",
]
