"""The words of a subscription: which stems a text must have."""

from collections.abc import Sequence

from braid.words.splitting import WORD_LENGTH_MAX, split
from braid.words.stems import stems_of


def stems_of_words(words: Sequence[str]) -> list[str]:
    """The distinct stems that all of these words demand; each entry may hold several words."""
    return list(dict.fromkeys(stem for entry in words for stem in stems_of(entry)))


def check_words(words: Sequence[str]) -> None:
    """`ValueError` says why these words can demand nothing; no words at all demand nothing on purpose."""
    for entry in words:
        found = split(entry)
        if not found:
            raise ValueError(f"{_quoted(entry)} holds no word; a word has letters or digits")
        for word in found:
            if len(word) > WORD_LENGTH_MAX:
                raise ValueError(
                    f"{_quoted(word)} has {len(word)} characters; words of more than {WORD_LENGTH_MAX} are not matched"
                )
    if words and not stems_of_words(words):
        given = ", ".join(dict.fromkeys(_quoted(entry) for entry in words))
        raise ValueError(f"only stop words ({given}), which are left out of every text; give at least one other word")


_QUOTED_LENGTH_MAX = 80


def _quoted(entry: str) -> str:
    return f"'{entry}'" if len(entry) <= _QUOTED_LENGTH_MAX else f"'{entry[:_QUOTED_LENGTH_MAX]}…'"
