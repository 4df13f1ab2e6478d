"""The selector: the same answer in every process, on every machine, in every version."""

from collections import Counter

import pytest

from braid.selector import BroadcastSelector, hash64
from braid.topology import Configuration

SELECTOR = BroadcastSelector(
    Configuration(
        7, ("accesspoint-1", "accesspoint-2"), ("matcher-1", "matcher-2", "matcher-3"), ("exitpoint-1", "exitpoint-2")
    )
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0xE4A6A0577479B2B4),
        ("s-1", 0x03231059C9D4DE0D),
        ("ännå", 0x103F629B546DC1D6),
        ("\ud800", 0x4208783E927D0D68),
    ],
)
def test_the_hash_never_changes(text: str, number: int) -> None:
    assert hash64(text) == number


def test_the_hash_fits_into_64_bits() -> None:
    assert all(0 <= hash64(str(n)) < 2**64 for n in range(1000))


def test_subscriptions_stay_where_they_are() -> None:
    assert {id: SELECTOR.matcher_of(id) for id in ("s-1", "s-2", "s-3", "s-4")} == {
        "s-1": "matcher-3",
        "s-2": "matcher-1",
        "s-3": "matcher-1",
        "s-4": "matcher-1",
    }


def test_subscriptions_spread_evenly() -> None:
    counts = Counter(SELECTOR.matcher_of(f"s-{n}") for n in range(30_000))
    assert set(counts) == {"matcher-1", "matcher-2", "matcher-3"}
    assert all(9_500 < count < 10_500 for count in counts.values())


def test_publishers_by_their_number() -> None:
    assert SELECTOR.epoch == 7
    assert [SELECTOR.accesspoint_of(n) for n in (0, 1, 2, 2**64 - 1)] == [
        "accesspoint-1",
        "accesspoint-2",
        "accesspoint-1",
        "accesspoint-2",
    ]
    assert [SELECTOR.exitpoint_of(n) for n in (0, 1)] == ["exitpoint-1", "exitpoint-2"]


def test_one_slice_gets_everything() -> None:
    alone = BroadcastSelector(Configuration(1, ("accesspoint-1",), ("matcher-1",), ("exitpoint-1",)))
    assert {alone.matcher_of(str(n)) for n in range(50)} == {"matcher-1"}
    assert {alone.accesspoint_of(n) for n in range(50)} == {"accesspoint-1"}
