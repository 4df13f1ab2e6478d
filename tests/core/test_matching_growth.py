"""Tables of the index grow a little at a time while subscriptions come and go, and nothing is missed meanwhile."""

import gc
import random
import sys

from braid.matching.engine import counts, program_slots
from braid.matching.index import MatchIndex
from braid.subscription import SubscriptionRecord
from tests.core.matching_cases import NOW_S, content


def subscription(number: int) -> SubscriptionRecord:
    """Each brings a key of its own."""
    return SubscriptionRecord(f"s-{number}", "anna", "connpoint-1", f"sensor = 's{number}'", 0.0)


def assert_finds(index: MatchIndex, wanted: set[int], numbers: list[int]) -> None:
    found = index.match([content(attributes={"sensor": f"s{number}"}) for number in numbers], NOW_S).ids()
    assert found == [[f"s-{number}"] if number in wanted else [] for number in numbers]


def test_what_comes_and_goes_while_a_table_grows_is_found() -> None:
    chance = random.Random(7)
    index, there, number = MatchIndex(), set[int](), 0
    while index._counts[counts.KEY_SLOTS_MASK] < 1 << 15:
        if there and chance.random() < 0.3:
            gone = chance.choice(sorted(there)) if len(there) < 500 else next(iter(there))
            there.discard(gone)
            index.remove(f"s-{gone}")
        else:
            index.add(subscription(number))
            there.add(number)
            number += 1
        if number % 997 == 0:
            assert_finds(index, there, chance.sample(range(number), 50))
    assert_finds(index, there, list(range(number)))


def test_a_table_grows_when_many_leave_before_it_is_needed() -> None:
    """The next table was begun, and numbers of keys that it has are used again."""
    index, there = MatchIndex(), set(range(110))
    for number in there:
        index.add(subscription(number))
    assert index._counts[counts.KEY_SLOTS_CLEARED] > 0
    for number in range(0, 110, 2):
        index.remove(f"s-{number}")
        there.discard(number)
    for number in range(1000, 1300):
        index.add(subscription(number))
        there.add(number)
    assert index._counts[counts.KEY_SLOTS_MASK] > counts.SLOTS_FIRST
    assert_finds(index, there, [*range(110), *range(990, 1310)])


def test_numbers_that_were_reserved_and_not_used_have_no_id() -> None:
    """The array of ids is as large as it will ever be: what it has not been told is nobody's."""
    index = MatchIndex()
    index.add_many(subscription(number) for number in range(3000))
    assert sorted(index.walk_ids()) == sorted(f"s-{number}" for number in range(3000))
    assert all(id is None for id in index._records.ids[3001:100_000])


def test_an_index_that_is_freed_lets_go_of_its_ids() -> None:
    """They lie in memory that knows nothing of references."""
    index, id = MatchIndex(), "s-" + "0123456789" * 3
    index.add(SubscriptionRecord(id, "anna", "connpoint-1", "", 0.0))
    held = sys.getrefcount(id)
    del index
    gc.collect()
    assert sys.getrefcount(id) < held


def test_programs_are_found_while_their_tables_grow() -> None:
    """Equal ones are kept once, whatever came between them, and are forgotten with their last subscription."""
    index = MatchIndex()
    for number in range(3000):
        index.add(subscription(number))
    tables = index._counts[counts.PROGRAM_MASKS_FIRST : counts.PROGRAM_MASKS_FIRST + program_slots.TABLES]
    assert all(mask > program_slots.TABLE_MASK_FIRST for mask in tables)
    for number in range(3000):
        index.add(SubscriptionRecord(f"again-{number}", "anna", "connpoint-1", f"sensor = 's{number}'", 0.0))
    assert index.statistics()["programs"] == 3000
    for number in range(3000):
        index.remove(f"s-{number}")
    assert index.statistics()["programs"] == 3000
    for number in range(3000):
        index.remove(f"again-{number}")
    assert index.statistics()["programs"] == 0
