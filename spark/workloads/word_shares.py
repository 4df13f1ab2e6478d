"""How many of all generated posts hold given words, computed from how posts are made."""

from collections.abc import Iterator
from functools import cache
from itertools import chain, combinations, product
from statistics import fmean
from typing import NamedTuple, TypeVar

from pyspark.sql import Column

from spark.workloads.chance import zipf_chance
from spark.workloads.posts import GENERAL_DRAWS, GENERAL_WORDS, TOPIC_DRAWS, TOPICS, WORDS_OF_TOPIC
from spark.workloads.subscriptions import Rung

Number = TypeVar("Number", int, Column)

TOPIC_WORDS_MAX = 3  # in one subscription


class Ranks(NamedTuple):
    """Neighbours in the order of frequency, from the first to before the end; they are about equally frequent."""

    first: int
    end: int


class Demand(NamedTuple):
    """So many words of one topic, and perhaps one of all words."""

    topic_words: int
    general: Ranks | None


@cache
def ladder(topic_words: int) -> tuple[Rung[Demand], ...]:
    """Demands with so many words of a topic, from those that most posts fulfil to those that few do."""
    share = 1.0
    if topic_words:
        # A subscription is about any topic; a post is about one.
        share = fmean(_held(TOPIC_DRAWS, chances) for chances in _combined(topic_words)) / TOPICS
    rungs = [Rung(Demand(topic_words, None), share)] if topic_words else []
    return (*rungs, *(Rung(Demand(topic_words, ranks), share * held) for ranks, held in _general_shares()))


def rank_of_topic_word(place: int, draw: Number, topic_words: int) -> Number:
    """The words of one demand are taken from different classes of ranks, so they are never the same."""
    return draw * topic_words + place


def ranks_of_class(topic_words: int) -> int:
    return WORDS_OF_TOPIC // topic_words


def _combined(topic_words: int) -> Iterator[tuple[float, ...]]:
    chances = [zipf_chance(rank, WORDS_OF_TOPIC) for rank in range(WORDS_OF_TOPIC)]
    for draws in product(range(ranks_of_class(topic_words)), repeat=topic_words):
        yield tuple(chances[rank_of_topic_word(place, draw, topic_words)] for place, draw in enumerate(draws))


@cache
def _general_shares() -> tuple[tuple[Ranks, float], ...]:
    found = []
    first = 0
    while first < GENERAL_WORDS:
        ranks = Ranks(first, min(2 * first + 1, GENERAL_WORDS))
        chances = (zipf_chance(rank, GENERAL_WORDS) for rank in range(*ranks))
        found.append((ranks, fmean(_held(GENERAL_DRAWS, (chance,)) for chance in chances)))
        first = ranks.end
    return tuple(found)


def _held(draws: tuple[int, int], chances: tuple[float, ...]) -> float:
    """How likely all of these words are drawn, by inclusion and exclusion of those that are not."""
    least, most = draws
    subsets = chain.from_iterable(combinations(chances, size) for size in range(len(chances) + 1))
    missed = [((-1) ** len(subset), 1 - sum(subset)) for subset in subsets]
    return fmean(sum(sign * others**number for sign, others in missed) for number in range(least, most + 1))
