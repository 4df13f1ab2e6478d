"""What publications and subscriptions of the past leave behind: nothing that costs the next ones."""

import random

import pytest

from braid.matching.engine import attributes, counts, key_statistics, memory
from braid.matching.engine.memory import COUNTS, FACTS
from braid.matching.index import MatchIndex
from tests.core.matching_cases import NOW_S, content, index_of, matched, record, remove_everything
from tests.core.test_matching_cliffs import word
from tests.core.test_matching_structures import candidates_of, plain

# Publications that would need much


def test_a_piece_that_a_text_holds_often_is_one_fact() -> None:
    index = index_of(plain(f"c-{length}", f"s contains '{'a' * length}'") for length in range(1, 64))
    assert matched(index, content({"s": "a" * 5_000})) == [{f"c-{length}" for length in range(1, 64)}]
    facts = index._memory.view(FACTS, 2 * 5_000 * 63).reshape(-1, 2)
    assert (facts != 0).any(axis=1).sum() <= 63


def test_memory_that_much_was_needed_of_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braid.matching.engine.memory._GIVEN_BACK_FROM_BYTES", 64)
    index = index_of([plain("a", "a = 1"), plain("b", "b = 1 and c = 2")])
    body = content({"a": 1, "b": 1, "c": 2})
    assert matched(index, *[body] * 50) == [{"a", "b"}] * 50
    assert not index._memory.view(FACTS, 300).any()
    assert matched(index, body) == [{"a", "b"}]


def test_a_zone_looks_only_at_tiles() -> None:
    """As many other keys as there may be do not matter to it; tiles come and go."""
    chance = random.Random(9)
    index = index_of(plain(f"v-{number}", f"a = '{word(chance)}'") for number in range(500))
    circles = {
        f"z-{number}": record(
            f"z-{number}", zone={"type": "circle", "lat": float(number % 80), "lon": float(number), "radius_m": 500.0}
        )
        for number in range(0, 150, 3)
    }
    index.add_many(circles.values())
    everywhere = content(zone={"type": "box", "south": -80.0, "west": -179.0, "north": 85.0, "east": 179.0})
    assert matched(index, everywhere) == [set(circles)]
    for id in chance.sample(sorted(circles), 30):
        index.remove(id)
        del circles[id]
    assert matched(index, everywhere) == [set(circles)]
    tiles = int(index._memory.view(COUNTS, counts.COUNTS_WORDS)[counts.TILE_KEYS])
    assert len(circles) <= tiles <= 16 * len(circles)
    remove_everything(index)


# What was, and is no more


def test_subscriptions_follow_what_is_published_now() -> None:
    index = index_of(plain(f"s-{number}", f"k1 = 'x' and k2 = 'y' and n != {number}") for number in range(500))
    old, new = ([content({name: value, "n": 1})] * 1_024 for name, value in (("k2", "y"), ("k1", "x")))
    for _ in range(3 * key_statistics.HALVED_AFTER // 1_024):
        index.match(old, NOW_S)
    assert candidates_of(index, old) < 1
    for _ in range(2 * key_statistics.HALVED_AFTER // 1_024):
        index.match(new, NOW_S)
    assert candidates_of(index, new) < 100
    assert matched(index, content({"k1": "x", "k2": "y", "n": 7}))[0] == {f"s-{n}" for n in range(500) if n != 7}
    remove_everything(index)


def test_what_came_and_went_leaves_no_bits() -> None:
    chance = random.Random(11)
    index = MatchIndex()
    index.add(plain("stays", "s prefix 'stay' and t = 1"))
    masks = bits_of(index)
    for _ in range(2):
        index.add_many(
            plain(f"c-{n}", f"s {operator} '{word(chance, 4 + n % 20)}' and t > {n}")
            for n, operator in enumerate(["contains", "prefix", "suffix"] * 600)
        )
        index.add_many(plain(f"k-{n}", f"t = 2 and u = {n % 3} and v = {n % 7} and w != {n}") for n in range(2_000))
        assert bits_of(index) != masks
        for each in list(index):
            if each.id != "stays":
                index.remove(each.id)
        assert bits_of(index) == masks
    assert matched(index, content({"s": "staying", "t": 1})) == [{"stays"}]


def bits_of(index: MatchIndex) -> tuple[int, ...]:
    """How many bits are set in the sieves, and for lengths of texts."""
    sieves = [index._memory.view(region, 1 << 14) for region in (memory.TEXT_SIEVE, memory.CHILD_SIEVE)]
    used = int(index._memory.view(COUNTS, counts.COUNTS_WORDS)[counts.ATTRIBUTES_USED])
    records = index._memory.view(memory.ATTRIBUTES, (used + 1) * attributes.RECORD).reshape(-1, attributes.RECORD)
    lengths = [records[records[:, attributes.REFERENCES] > 0, mask] for mask in (4, 5, 6)]
    return tuple(sum(int(value & (2**64 - 1)).bit_count() for value in words.tolist()) for words in sieves + lengths)
