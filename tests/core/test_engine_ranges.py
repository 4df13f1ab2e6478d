"""Blocks of ranges inside the engine: how many there are, and how large."""

import random

import pytest

from braid.matching.engine import key_records as keys
from braid.matching.engine import range_cuts, ranges
from braid.matching.engine.counts import KEYS_USED, POOL_USED
from braid.matching.engine.memory import COUNTS, KEYS, WORDS
from braid.matching.index import MatchIndex
from braid.subscription import SubscriptionRecord
from tests.core.matching_cases import index_of, matched, remove_everything


def blocks_of(index: MatchIndex) -> list[tuple[int, int]]:
    """Capacity and number of programs of every block."""
    memory = index._memory
    counts = memory.view(COUNTS, 64)
    records = memory.view(KEYS, (int(counts[KEYS_USED]) + 1) * keys.RECORD).reshape(-1, keys.RECORD)
    words = memory.view(WORDS, int(counts[POOL_USED]))
    found = []
    for first in records[records[:, keys.REFERENCES] > 0, keys.BLOCKS].tolist():
        block = first
        while block != 0:
            found.append((int(words[block + ranges.CAPACITY]), int(words[block + ranges.LIVE])))
            block = int(words[block + ranges.NEXT])
    return sorted(found)


def index_with(count: int, *, in_order: bool = False) -> MatchIndex:
    """With overlapping ranges from 0 on."""
    numbers = list(range(count))
    if not in_order:
        random.Random(1).shuffle(numbers)
    return index_of(
        SubscriptionRecord(f"s-{number}", "anna", "connpoint-1", f"v between {number} and {number + 9}", 0.0)
        for number in numbers
    )


def candidates_of(index: MatchIndex, count: int) -> float:
    """How many programs are verified for a publication in the midst of these ranges, beside those that match."""
    contents = [b'{"attributes":{"v":%d}}' % value for value in range(0, count, 40)]
    found = index.match(contents, 0.0)
    return (index.statistics()["candidates"] - len(found)) / len(contents)


@pytest.mark.parametrize("count", [300, 1_100, 4_200, 16_000])
def test_nearly_all_ranges_of_a_signature_lie_in_one_block(count: int) -> None:
    index = index_with(count)
    ((capacity, live),) = blocks_of(index)
    assert count - 150 <= live <= capacity < 4 * count
    remove_everything(index)


def test_few_ranges_make_no_block() -> None:
    assert blocks_of(index_with(60)) == []


def test_a_block_with_little_in_it_is_given_up() -> None:
    index = index_with(1_000)
    held = sum(live for _, live in blocks_of(index))
    for number in range(500):
        index.remove(f"s-{number}")
    assert held / 4 < sum(live for _, live in blocks_of(index)) <= held - 400
    for number in range(500, 990):
        index.remove(f"s-{number}")
    assert blocks_of(index) == []
    assert matched(index, b'{"attributes":{"v":995}}') == [{f"s-{number}" for number in range(990, 996)}]
    remove_everything(index)


def test_beyond_the_largest_block_there_are_further_ones() -> None:
    blocks = blocks_of(index_with(17_000))
    assert len(blocks) > 1
    assert max(capacity for capacity, _ in blocks) == ranges.CAPACITY_MAX
    assert sum(live for _, live in blocks) >= 16_800


def test_further_blocks_grow_too() -> None:
    assert len(blocks_of(index_with(30_000))) < 6


def test_cuts_lie_so_that_few_ranges_are_looked_at_in_vain() -> None:
    """A bucket holds a small share of the endpoints; those that wait for a block are all looked at."""
    assert candidates_of(index_with(4_000), 4_000) < 150 + 2 * 4_000 / range_cuts.BUCKETS


def test_ranges_that_come_in_order_are_cut_too() -> None:
    """As times do, and whatever else rises."""
    assert candidates_of(index_with(4_000, in_order=True), 4_000) < 600


def test_ranges_that_drift_through_one_column() -> None:
    """Old ones go, new ones come behind all cuts, and ranges over other attributes keep the node splitting."""
    chance = random.Random(7)
    index, known = MatchIndex(), dict[str, tuple[int, int]]()
    for step in range(3_000):
        low, other = 10 * step + chance.randint(0, 5), chance.randint(0, 50)
        name = "uwxyz"[chance.randrange(5)] if step % 3 else "w"
        index.add(
            SubscriptionRecord(
                f"s-{step}", "anna", "connpoint-1", f"v between {low} and {low + 400} and {name} >= {other}", 0.0
            )
        )
        known[f"s-{step}"] = (low, other)
        if len(known) > 120:
            oldest = next(iter(known))
            index.remove(oldest)
            del known[oldest]
        if step % 50 == 49:
            value = chance.randint(10 * (step - 60), 10 * step)
            everything = b'{"attributes":{"u":99,"v":%d,"w":99,"x":99,"y":99,"z":99}}' % value
            assert matched(index, everything) == [{id for id, (low, _) in known.items() if low <= value <= low + 400}]
    remove_everything(index)
