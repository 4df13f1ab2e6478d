"""Words of texts and of subscriptions, against an oracle that reads one character at a time."""

import re
import threading
import unicodedata
from pathlib import Path

import pytest
import Stemmer
from hypothesis import example, given, settings
from hypothesis import strategies as st

from braid.words import (
    STOP_WORDS,
    WORD_LENGTH_MAX,
    WORDS_CACHED_MAX,
    check_words,
    split,
    stems,
    stems_of,
    stems_of_words,
)
from braid.words.splitting import fold

PAGE = (Path(__file__).parents[2] / "docs" / "subscriptions.md").read_text(encoding="utf-8")
APOSTROPHE = "\u2019"  # as word processors write it
PIECES = ["house", "Houses", "don't", "running", "the", "THE", "É", "e\u0301", "19", *"#@_-. '", APOSTROPHE]

texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=8).map("".join)


def rows(language: str) -> list[list[str]]:
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [[cell.strip() for cell in line.split(" | ")] for line in block.splitlines()]


def matches(words: list[str], text: str) -> bool:
    return set(stems_of_words(words)) <= set(stems_of(text))


def words_by_character(text: str) -> list[str]:
    """What `split` finds, without a regular expression."""
    found = [""]
    text = unicodedata.normalize("NFC", text)
    for place, character in enumerate(text):
        following = text[place + 1 : place + 2]
        is_of_letters = "\u0300" <= character < "\u2000" or "\u302a" <= character < "\uac00"
        is_mark = is_of_letters and unicodedata.category(character) in ("Mn", "Mc")
        is_apostrophe = character in ("'", APOSTROPHE, "\uff07") and following.isalnum()
        if character.isalnum() or (found[-1] and (is_mark or is_apostrophe)):
            found[-1] += character
        else:
            found.append("")
    return [word for word in found if word]


@given(texts)
@example("rock'n'roll ''tis' o'")
@example("हिन्दी भाषा ❤️ ①½")
@example("1\ufe0f\u20e3 カ\u3099イト\u3099 ㇷ\u309a")
@settings(derandomize=True, deadline=None, database=None, max_examples=500)
def test_words_are_split_as_character_by_character(text: str) -> None:
    assert split(text) == words_by_character(text)


@given(texts)
@settings(derandomize=True, deadline=None, database=None, max_examples=300)
def test_stems_are_distinct_in_the_order_of_the_text(text: str) -> None:
    stemmer = Stemmer.Stemmer("english")
    expected = []
    for word in map(fold, words_by_character(text)):
        stem = stemmer.stemWord(word)
        if word and word not in STOP_WORDS and stem not in expected:
            expected.append(stem)
    assert stems_of(text) == expected


@given(texts, texts)
@settings(derandomize=True, deadline=None, database=None, max_examples=300)
def test_a_text_has_the_words_that_it_was_made_of(text: str, around: str) -> None:
    if stems_of_words([text]):
        assert matches([text], f"{around} {text} {around}")
        assert matches([text], " ".join(reversed(split(text))))
        assert not matches([text], "")


@given(texts)
@settings(derandomize=True, deadline=None, database=None, max_examples=300)
def test_whoever_is_let_in_demands_something(text: str) -> None:
    try:
        check_words([text])
    except ValueError:
        assert not stems_of_words([text])
    else:
        assert stems_of_words([text])


@pytest.mark.parametrize(("words", "text", "expected"), rows("words-examples"))
def test_example(words: str, text: str, expected: str) -> None:
    check_words(words.split(", "))
    assert matches(words.split(", "), text) is (expected == "true")


@pytest.mark.parametrize(("words", "message"), rows("words-error"))
def test_error(words: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        check_words(words.split(", "))
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("o'neil", f"O{APOSTROPHE}NEIL"),
        ("house's", f"houses{APOSTROPHE}"),
        ("café", "CAFE\u0301"),
        ("\uff26\uff55\uff4c\uff4c", "full"),
        ("Straße", "STRASSE"),
        ("ﬁsh", "fish"),
        ("o\u02bcneil", "o'neil"),
        ("@white_house", "#White #House"),
        ("ガイド", unicodedata.normalize("NFD", "ガイド")),
        ("한국", unicodedata.normalize("NFD", "한국")),
    ],
)
def test_spellings_of_one_word(one: str, other: str) -> None:
    assert stems_of(one) == stems_of(other)


def test_no_words_demand_nothing() -> None:
    check_words([])
    assert stems_of_words([]) == []


def test_entries_that_demand_the_same_demand_it_once() -> None:
    assert stems_of_words(["white house", "Houses", "the"]) == ["white", "hous"]


def test_very_long_words() -> None:
    longest, too_long = "x" * WORD_LENGTH_MAX, "x" * (WORD_LENGTH_MAX + 1)
    check_words([longest])
    assert stems_of(f"{longest} {too_long} end") == [longest, "end"]
    with pytest.raises(ValueError, match=r"has 65 characters; words of more than 64 are not matched"):
        check_words(["house", too_long])


def test_a_long_word_is_shortened_in_the_message() -> None:
    with pytest.raises(ValueError, match="has 5000 characters") as raised:
        check_words(["y" * 5000])
    assert len(str(raised.value)) < 200


def test_stop_words_are_written_as_they_are_looked_up() -> None:
    assert len(STOP_WORDS) > 150
    for word in STOP_WORDS:
        assert split(word) == [word]
        assert fold(word) == word
    for word in ("will", "may", "can", "us", "mine"):
        assert stems_of(word), word


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = stems._Stems()
    monkeypatch.setattr(stems, "WORDS_CACHED_MAX", 10)
    for number in range(25):
        assert cache[f"houses{number}"] == f"houses{number}"
        assert len(cache) <= 10
    assert cache["houses"] == "hous"
    size = len(cache)
    assert cache["x" * 1000] == ""
    assert len(cache) == size
    assert WORDS_CACHED_MAX > 10


def test_several_threads_read_texts() -> None:
    """Every word is new to the cache, so that the stemmer works all the time."""
    wrong: list[str] = []

    def read(thread: int) -> None:
        stemmer = Stemmer.Stemmer("english")
        for number in range(2_000):
            for ending in ("ings", "ations", "ness"):
                word = f"thread{'abcd'[thread]}{'x' * (number % 7)}{number}q{ending}"
                if stems_of(word) != [stemmer.stemWord(word)]:
                    wrong.append(word)

    threads = [threading.Thread(target=read, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
