"""The stems of a text: what its words are compared by."""

from threading import Lock

import Stemmer

from braid.words.splitting import WORD_LENGTH_MAX, fold, split
from braid.words.stop_words import STOP_WORDS

LANGUAGE = "english"  # of the stemmer and of the stop words
WORDS_CACHED_MAX = 50_000  # about 10 MB


def stems_of(text: str) -> list[str]:
    """The distinct stems of a text in the order of their first occurrence, without stop words."""
    stems = dict.fromkeys(map(_stems.__getitem__, split(text)))
    stems.pop(_NOTHING, None)
    return list(stems)


_NOTHING = ""  # stands for the stem of what is no demandable word, so that a look into the cache is all it takes


class _Stems(dict[str, str]):
    """Word to stem. Begins anew when it is full: the frequent words are back within a few texts."""

    def __init__(self) -> None:
        super().__init__()
        self._stemmer = Stemmer.Stemmer(LANGUAGE, 0)  # without a second cache below this one
        self._lock = Lock()  # a stemmer has a state of its own, and texts are read by more than one thread

    def __missing__(self, word: str) -> str:
        if len(word) > WORD_LENGTH_MAX:
            return _NOTHING  # not kept: the cache is bounded in bytes, too
        with self._lock:
            folded = fold(word)
            stem: str = _NOTHING if folded in STOP_WORDS else self._stemmer.stemWord(folded)
            if len(self) >= WORDS_CACHED_MAX:
                self.clear()
            self[word] = stem
        return stem


_stems = _Stems()


def stem_of(word: str) -> str:
    """The stem of one word as `split` gives it; empty for stop words."""
    return _stems[word]
