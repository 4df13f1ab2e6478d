"""From the text of a publication to the keys of its words."""

from typing import Any

import numpy as np

from braid.matching.engine.gathering import find_keys
from braid.matching.engine.hash_entries import hash_of_key
from braid.matching.engine.keys import WORD
from braid.matching.engine.memory import Memory
from braid.matching.places import Places
from braid.matching.row_writing import RowWriter
from braid.words import WORD_LENGTH_MAX, WORDS_CACHED_MAX, split, stem_of

_NUMBERS_FIRST = 1024


class Vocabulary(dict[str, int]):
    """From a word, as it stands in a text, to the number of its stem; 0 when no subscription demands it.

    Begins anew when the demanded words change or it is full: the frequent words are back within a few texts.
    """

    def __init__(self, memory: Memory, writer: RowWriter, places: Places) -> None:
        super().__init__()
        self._memory = memory
        self._writer = writer
        self._places = places
        self._hashes = np.zeros((_NUMBERS_FIRST, 2), dtype=np.int64)
        self._start_anew()

    def keys_of(self, texts: list[str]) -> tuple[list[int], np.ndarray[Any, Any]]:
        """The keys of the words of all texts, and where those of each text end."""
        if self._changed != self._places.words_changed or len(self._numbers) > WORDS_CACHED_MAX:
            self._start_anew()
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
        find_keys(self._memory.addresses, self._hashes, chosen, found)
        return ends, found

    def __missing__(self, word: str) -> int:
        if len(word) > WORD_LENGTH_MAX:
            return 0
        stem = stem_of(word)
        number = 0
        if stem in self._places.stems:
            known = self._numbers.get(stem)
            if known is None:
                known = self._numbers[stem] = len(self._numbers) + 1
                if known == len(self._hashes):
                    self._hashes = np.concatenate((self._hashes, np.zeros_like(self._hashes)))
                self._hashes[known] = hash_of_key(*self._writer.word(stem).value, WORD)
            number = known
        self[word] = number
        return number

    def _start_anew(self) -> None:
        self.clear()
        self._numbers: dict[str, int] = {}
        self._changed = self._places.words_changed
