"""Words are divided among matchers: companions stay together, none is visited much more than the others."""

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark.words.dividing import NOWHERE, divide, judge

TOPICS = 12
WORDS_OF_TOPIC = 5


def topical_posts(count: int, seed: int = 1) -> list[list[int]]:
    """Each about one topic: words of different topics never meet. Those of topic 0 are the most frequent."""
    chance = random.Random(seed)
    posts = []
    for _ in range(count):
        topic = min(chance.randrange(TOPICS), chance.randrange(TOPICS))
        posts.append([topic + TOPICS * place for place in range(WORDS_OF_TOPIC) if chance.random() < 0.6])
    return posts


def by_hand(posts: Sequence[Sequence[int]], part_of: Sequence[int], parts: int) -> tuple[float, float]:
    visited = [{part_of[word] for word in post if part_of[word] != NOWHERE} for post in posts]
    loads = [sum(part in each for each in visited) for part in range(parts)]
    return sum(loads) / len(posts), max(loads) / len(posts)


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_companions_lie_together_and_parts_are_visited_alike(parts: int) -> None:
    learned, judging = topical_posts(4_000), topical_posts(4_000, seed=2)
    words = TOPICS * WORDS_OF_TOPIC
    part_of = divide(learned, words, parts)
    for topic in range(TOPICS):
        assert len({int(part_of[topic + TOPICS * place]) for place in range(WORDS_OF_TOPIC)}) == 1, topic
    found = judge(judging, part_of, parts)
    hashed = judge(judging, np.random.default_rng(1).integers(0, parts, words), parts)
    assert found.visits <= 1.0 < hashed.visits  # an empty post visits nobody
    assert found.largest_share < 1.15 / parts
    assert found.largest_share < 0.8 * hashed.largest_share


def test_words_that_never_meet_are_spread_by_how_often_they_occur() -> None:
    posts = [[word] for word, times in enumerate((40, 30, 20, 10)) for _ in range(times)]
    part_of = divide(posts, 4, 2)
    assert part_of[0] == part_of[3] != part_of[1] == part_of[2]
    assert judge(posts, part_of, 2) == (1.0, 0.5)


def test_one_hot_word_fills_a_part_and_the_others_go_elsewhere() -> None:
    posts = [[0] for _ in range(100)] + [[word] for word in range(1, 11) for _ in range(5)]
    part_of = divide(posts, 11, 2)
    assert {int(part) for part in part_of[1:]} == {1 - int(part_of[0])}


def test_a_word_that_no_post_holds_lies_nowhere_and_is_not_judged() -> None:
    part_of = divide([[0, 2], [2]], 4, 2)
    assert [bool(part == NOWHERE) for part in part_of] == [False, True, False, True]
    assert judge([[1, 3], [0, 1]], part_of, 2) == (0.5, 0.5)


@given(
    st.lists(st.lists(st.integers(0, 19), unique=True, max_size=8), min_size=1, max_size=40),
    st.integers(2, 5),
)
def test_judging_is_counting(posts: list[list[int]], parts: int) -> None:
    part_of = divide(posts, 20, parts)
    assert judge(posts, part_of, parts) == pytest.approx(by_hand(posts, part_of.tolist(), parts))
    assert {word for word in range(20) if part_of[word] != NOWHERE} == {word for post in posts for word in post}


def test_more_parts_never_carry_more_each() -> None:
    posts = topical_posts(2_000)
    shares = [judge(posts, divide(posts, 60, parts), parts).largest_share for parts in (2, 3, 4, 6)]
    assert all(fewer > more for fewer, more in pairwise(shares))
