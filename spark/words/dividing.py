"""Divides words among matchers so that a post visits few of them, and none is visited by many more than the others.

A matcher is visited by a post that holds any of its words. So what a word adds to a part are its posts that do not
visit that part yet: few where its companions are already. Words are given away one by one, the most frequent first,
each to the part where what it adds, and its posts weighed by how full the part is, are least (S³-TM gives away in the
same order, and judges by the product of spread and imbalance; `docs/workloads.md` has both side by side).

No Spark: posts are lists of the numbers of words, the most frequent word is 0.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

NOWHERE = -1  # the part of a word that no post holds

Numbers = npt.NDArray[np.int64]


class Judged(NamedTuple):
    """What posts cost under a division."""

    visits: float  # of a post, on average
    largest_share: float  # of all posts, that visit the part that most visit


def divide(posts: Sequence[Sequence[int]], words: int, parts: int) -> Numbers:
    """The part of each word."""
    part_of = np.full(words, NOWHERE, np.int64)
    is_visited = np.zeros((len(posts), parts), np.bool_)
    loads = np.zeros(parts)
    for word, holding in enumerate(_posts_by_word(posts, words)):
        if len(holding):
            added = len(holding) - is_visited[holding].sum(axis=0)
            fullness = loads / max(1.0, loads.mean())
            part = int(np.argmin(added + len(holding) * fullness))
            part_of[word] = part
            loads[part] += added[part]
            is_visited[holding, part] = True
    return part_of


def judge(posts: Sequence[Sequence[int]], part_of: Numbers, parts: int) -> Judged:
    """By the words that lie somewhere."""
    places, numbers = _flat(posts)
    lies = part_of[numbers] != NOWHERE
    visits = np.unique(places[lies] * parts + part_of[numbers[lies]])
    loads = np.bincount(visits % parts, minlength=parts)
    return Judged(len(visits) / len(posts), int(loads.max()) / len(posts))


def _posts_by_word(posts: Sequence[Sequence[int]], words: int) -> list[Numbers]:
    places, numbers = _flat(posts)
    by_word = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[by_word], np.arange(1, words))
    return np.split(places[by_word], ends)


def _flat(posts: Sequence[Sequence[int]]) -> tuple[Numbers, Numbers]:
    """For each word of each post, the place of the post and the number of the word."""
    lengths = [len(post) for post in posts]
    numbers = np.fromiter(chain.from_iterable(posts), np.int64, sum(lengths))
    return np.repeat(np.arange(len(posts)), lengths), numbers
