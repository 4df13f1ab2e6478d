"""From a text to its words: runs of letters and digits, and the one spelling under which variants are the same word."""

import re
import unicodedata

WORD_LENGTH_MAX = 64  # characters; a longer run is no word of a language but an encoded something

_APOSTROPHES = "'\u2019\uff07"  # typewriter, typographic, full width
_APOSTROPHE_LETTER = "\u02bc"  # Unicode takes it for a letter

# Accents and vowel signs that have no composed form. They continue a word; Python's \w leaves them out. Between these
# blocks lie marks of symbols and of emoji, which are no parts of words.
_BLOCKS = (range(0x300, 0x2000), range(0x302A, 0x309B), range(0xA66F, 0xAC00))
_MARKS = "".join(chr(code) for codes in _BLOCKS for code in codes if unicodedata.category(chr(code)) in ("Mn", "Mc"))

_LETTER = r"[^\W_]"  # a letter or a digit
_EQUIVALENT = dict.fromkeys(map(ord, _APOSTROPHES + _APOSTROPHE_LETTER), "'")

# An apostrophe is part of a word only between two letters.
_find_words = re.compile(rf"{_LETTER}+(?:(?:[{_MARKS}]|[{_APOSTROPHES}](?={_LETTER})){_LETTER}*)*").findall


def split(text: str) -> list[str]:
    """Words as they are written, repeated ones repeated. A letter and its accent are one character where one exists."""
    words: list[str] = _find_words(text if text.isascii() else unicodedata.normalize("NFC", text))
    return words


def fold(word: str) -> str:
    """One spelling for all of a word: without upper case, and with one form of every accented letter and apostrophe."""
    if word.isascii():
        return word.lower()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold())
    return folded.translate(_EQUIVALENT).strip("'")
