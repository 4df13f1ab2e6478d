"""Workload D: prefixes, suffixes and parts of names, paths, addresses and cities made of invented words."""

from collections.abc import Iterator
from itertools import accumulate, count
from random import Random

from benchmarks.match.source import content, record, seeded
from braid.subscription import SubscriptionRecord

WORDS = 4000
_CONSONANTS = "bcdfghjklmnprstvz"
_VOWELS = "aeiou"
_ENDINGS = ("", "", "n", "r", "s", "l")
_KINDS = ("pdf", "csv", "json", "txt", "png", "log")
_DOMAINS = ("com", "org", "net", "es", "info")


class Strings:
    """Two or three conditions, each on another attribute; what is looked for is cut out of such a string."""

    def __init__(self) -> None:
        choose = seeded("strings", "words")
        made: dict[str, None] = {}
        while len(made) < WORDS:
            syllables = [choose.choice(_CONSONANTS) + choose.choice(_VOWELS) for _ in range(choose.choice((2, 2, 3)))]
            made["".join(syllables) + choose.choice(_ENDINGS)] = None
        self._words = list(made)
        # Some words are much more frequent than others, as in every language.
        self._weights = list(accumulate(1 / (rank + 10) for rank in range(WORDS)))

    def subscriptions(self) -> Iterator[SubscriptionRecord]:
        choose = seeded("strings", "subscriptions")
        for number in count():
            attributes = self._attributes(choose)
            names = sorted(choose.sample(sorted(attributes), choose.choice((2, 2, 2, 3))))
            yield record(number, " and ".join(_condition(choose, name, attributes[name]) for name in names))

    def contents(self, count: int) -> list[bytes]:
        choose = seeded("strings", "contents")
        return [content(number, attributes=self._attributes(choose)) for number in range(count)]

    def _attributes(self, choose: Random) -> dict[str, str]:
        words = choose.choices(self._words, cum_weights=self._weights, k=9)
        return {
            "name": f"{words[0].title()} {words[1].title()}",
            "path": f"/{words[2]}/{words[3]}/{words[4]}.{choose.choice(_KINDS)}",
            "url": f"https://{words[5]}.{choose.choice(_DOMAINS)}/{words[6]}/{words[7]}",
            "city": words[8].title(),
        }


def _condition(choose: Random, name: str, text: str) -> str:
    """A piece of the text, long enough to mean something."""
    operator = choose.choice(("prefix", "suffix", "contains"))
    scheme = len("https://") if name == "url" else 0
    if operator == "prefix":
        return f"{name} prefix '{text[: scheme + choose.randint(2, 6)]}'"
    if operator == "suffix":
        return f"{name} suffix '{text[-choose.randint(3, 7) :]}'"
    length = choose.randint(3, 5)
    start = choose.randint(scheme, max(scheme, len(text) - length))
    return f"{name} contains '{text[start : start + length]}'"
