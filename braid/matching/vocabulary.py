"""From the text of a publication to the keys of its words."""

from typing import Any

import numpy as np

from braid.matching.engine.finding import FIRST, SECOND, keys_of_words
from braid.matching.engine.memory import Memory
from braid.matching.row_writing import RowWriter
from braid.words import WORD_LENGTH_MAX, WORDS_CACHED_MAX, split, stem_of

_NUMBERS_FIRST = 1024
_NEVER = -1


class Vocabulary(dict[str, int]):
    """From a word, as it stands in a text, to the number of its stem; 0 for what nobody can demand.

    Of a stem, it is known which key it is, or that no subscription demands it, until such keys come or go. Begins anew
    when it is full: the frequent words are back within a few texts.
    """

    def __init__(self, memory: Memory, writer: RowWriter) -> None:
        super().__init__()
        self._memory = memory
        self._writer = writer
        self._known = _nothing_known(_NUMBERS_FIRST)
        self._numbers: dict[str, int] = {}

    def keys_of(self, texts: list[str]) -> tuple[list[int], np.ndarray[Any, Any]]:
        """The keys of the words of all texts, and where those of each text end."""
        if len(self._numbers) > WORDS_CACHED_MAX:
            self.clear()
            self._numbers.clear()
            self._known[:] = _NEVER
        get = self.__getitem__
        numbers: list[int] = []
        ends: list[int] = []
        for text in texts:
            if len(self) > WORDS_CACHED_MAX:
                self.clear()
            numbers += map(get, split(text))
            ends.append(len(numbers))
        chosen = np.array(numbers, dtype=np.int64)
        found = np.zeros(len(chosen), dtype=np.int64)
        keys_of_words(self._memory.addresses, self._known, chosen, found)
        return ends, found

    def __missing__(self, word: str) -> int:
        if len(word) > WORD_LENGTH_MAX:
            return 0
        stem = stem_of(word)
        number = self._numbers.get(stem, 0)
        if stem and not number:
            number = self._numbers[stem] = len(self._numbers) + 1
            if number == len(self._known):
                self._known = np.concatenate((self._known, _nothing_known(len(self._known))))
            self._known[number, [FIRST, SECOND]] = self._writer.stem(stem)
        self[word] = number
        return number


def _nothing_known(count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.full((count, 4), _NEVER, dtype=np.int64)
