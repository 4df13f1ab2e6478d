"""Keys sort as reading needs them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.matcher.storage import keys
from services.matcher.storage.records import Filed, Kind, StoredPublication, StoredSubscription
from tests.core.storage.cases import publication, subscription

levels = st.lists(st.text(max_size=4), max_size=4)
moments = st.floats(0, 1e10, allow_nan=False)


def test_a_key_byte_by_byte() -> None:
    key = keys.entry_key(keys.list_id("1", "4"), Kind.PUBLICATION, 1.5, "p7")
    assert key == b"1\x014\x01" + b"\x00\x02" + (2**64 - 1 - 1_500_000).to_bytes(8) + b"p7"


@given(levels, levels)
def test_ids_below_a_node_begin_with_it_and_no_others(one: list[str], other: list[str]) -> None:
    is_below = other[: len(one)] == one
    start, stop = keys.below_range(keys.list_id(*one))
    key = keys.entry_key(keys.list_id(*other), Kind.SUBSCRIPTION, 1.0, "s")
    assert (start <= key and (stop is None or key < stop)) == is_below
    assert keys.list_id(*other).startswith(keys.list_id(*one)) == is_below


@given(levels)
def test_above_are_all_ancestors(path: list[str]) -> None:
    assert keys.above(keys.list_id(*path)) == [keys.list_id(*path[:end]) for end in range(len(path))]


@given(levels, moments, moments)
def test_newer_entries_of_a_list_lie_before_older_ones(path: list[str], one: float, other: float) -> None:
    name = keys.list_id(*path)
    newer, older = (keys.entry_key(name, Kind.PUBLICATION, max(one, other), "a") for _ in range(2))
    older = keys.entry_key(name, Kind.PUBLICATION, min(one, other), "a")
    assert newer <= older


@given(moments, moments, moments)
def test_the_range_of_publications_is_from_the_newest_to_t_min(made_s: float, from_s: float, until_s: float) -> None:
    name = keys.list_id("a")
    start, stop = keys.publications_range(name, from_s, until_s)
    key = keys.entry_key(name, Kind.PUBLICATION, made_s, "p")
    if made_s <= until_s:
        assert start <= key
    if made_s > until_s + 1e-5 * max(1, until_s / 1e9):
        assert start > key
    if made_s >= from_s:
        assert key < stop
    if made_s < from_s - 1e-5 * max(1, from_s / 1e9):
        assert key >= stop


def test_subscriptions_lie_before_publications_of_the_same_list() -> None:
    name = keys.list_id("a")
    start, stop = keys.both_range(name, -math.inf)
    old_subscription = keys.entry_key(name, Kind.SUBSCRIPTION, 1.0, "s")
    new_publication = keys.entry_key(name, Kind.PUBLICATION, 1e9, "p")
    assert start <= old_subscription < new_publication < stop


@pytest.mark.parametrize("record", [subscription("s", body=b"x"), publication("p", expires_s=2e6, body=b"y")])
@pytest.mark.parametrize("count", [1, 3])
def test_of_several_entries_the_first_knows_all_lists(
    record: StoredSubscription | StoredPublication, count: int
) -> None:
    lists = tuple(keys.list_id(str(number)) for number in range(count))
    entries = keys.entries_of(record, lists)
    assert len(entries) == count
    decoded = [Filed(*keys.decode_entry(*entry)) for entry in entries]
    assert decoded == [Filed(record, lists), *(Filed(record, ()) for _ in range(count - 1))]


def test_a_value_under_another_key_or_with_another_bit_is_not_taken() -> None:
    ((key, value),) = keys.entries_of(subscription("s"), [keys.list_id("a")])
    with pytest.raises(keys.ChecksumError):
        keys.opened(key + b"x", value)
    with pytest.raises(keys.ChecksumError):
        keys.opened(key, value[:-1] + bytes((value[-1] ^ 1,)))
