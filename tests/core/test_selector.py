"""The selector: the same answer in every process, on every machine, in every version."""

from collections import Counter

import pytest

from braid.anchors import placed
from braid.selector import (
    POINTS_PER_SLICE,
    AnchoredSelector,
    BroadcastSelector,
    Ring,
    anchored_key,
    hash64,
    selector_of,
)
from braid.subscription import SubscriptionRecord
from braid.topology import Configuration

SELECTOR = BroadcastSelector(
    Configuration(
        7, ("accesspoint-1", "accesspoint-2"), ("matcher-1", "matcher-2", "matcher-3"), ("exitpoint-1", "exitpoint-2")
    )
)

KEYS = [number * (2**64 // 50_000) for number in range(50_000)]  # evenly over the whole ring


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
    """Another place would be another version: what is stored on the old one would not be found."""
    assert {id: SELECTOR.matcher_of(id) for id in ("s-1", "s-2", "s-3", "s-4")} == {
        "s-1": "matcher-3",
        "s-2": "matcher-1",
        "s-3": "matcher-3",
        "s-4": "matcher-2",
    }


def names(count: int) -> tuple[str, ...]:
    return tuple(f"matcher-{number}" for number in range(1, count + 1))


def shares(ring: Ring) -> list[float]:
    """The part of all keys that each slice gets, where 1 is an even part."""
    counts = Counter(map(ring.owner, KEYS))
    return [count * len(counts) / len(KEYS) for count in counts.values()]


@pytest.mark.parametrize(("most", "differs"), [(8, 0.06), (16, 0.14)])
def test_shares_are_nearly_even(most: int, differs: float) -> None:
    """As measured; 512 points for each slice cannot be more even than that."""
    for count in range(1, most + 1):
        found = shares(Ring(names(count)))
        assert len(found) == count
        assert all(abs(share - 1) < differs for share in found), count


@pytest.mark.parametrize("count", range(1, 13))
def test_a_slice_that_comes_takes_its_part_and_nothing_else_moves(count: int) -> None:
    """Read backwards: one that goes gives away its own keys only."""
    few, many = Ring(names(count)), Ring(names(count + 1))
    moves = [(few.owner(key), many.owner(key)) for key in KEYS if few.owner(key) != many.owner(key)]
    assert {to for _, to in moves} == {f"matcher-{count + 1}"}
    assert {left for left, _ in moves} == set(names(count))
    assert 0.94 / (count + 1) < len(moves) / len(KEYS) < 1.06 / (count + 1)


@pytest.mark.parametrize("gone", names(4))
def test_any_slice_that_goes_gives_away_only_its_own(gone: str) -> None:
    before, after = Ring(names(4)), Ring(tuple(name for name in names(4) if name != gone))
    for key in KEYS[:10_000]:
        assert after.owner(key) != gone
        assert before.owner(key) in (gone, after.owner(key))


def test_the_order_of_the_names_does_not_matter() -> None:
    there, back = Ring(names(5)), Ring(names(5)[::-1])
    assert all(there.owner(key) == back.owner(key) for key in KEYS[:1000])


def test_the_ends_of_the_ring_meet() -> None:
    ring = Ring(names(3))
    assert ring.owner(2**64 - 1) == ring.owner(0)
    first = min(point for name in names(3) for point in (hash64(f"{name}/{n}") for n in range(POINTS_PER_SLICE)))
    assert ring.owner(first) == ring.owner(0) != ring.owner(first + 1)


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


# By anchors


def anchored(count: int) -> AnchoredSelector:
    selector = selector_of(Configuration(1, ("accesspoint-1",), names(count), ("exitpoint-1",), routing="anchored"))
    assert isinstance(selector, AnchoredSelector)
    return selector


def id_under(filter: str) -> str:
    return placed(SubscriptionRecord("", "anna", "connpoint-1", filter, 0.0)).id


def test_the_routing_says_which_map_it_is() -> None:
    broadcast = selector_of(Configuration(1, ("accesspoint-1",), names(2), ("exitpoint-1",)))
    assert (type(broadcast), broadcast.routing) == (BroadcastSelector, "broadcast")
    assert anchored(2).routing == "anchored"


def test_anchored_subscriptions_stay_where_they_are() -> None:
    ids = ("s-0123456789abcdef00000000", "s-0123456789abcdef10000000", "s-0123456789abcdeffedcba98", "s-1")
    assert [anchored(3).matcher_of(id) for id in ids] == ["matcher-3", "matcher-2", "matcher-1", "matcher-3"]


def test_those_of_one_anchor_lie_together() -> None:
    selector = anchored(5)
    for number in range(50):
        ids = [id_under(f"n = {number} and x > {other}") for other in range(10)]
        assert len(set(ids)) == 10
        assert len({selector.matcher_of(id) for id in ids}) == 1
    assert len({selector.matcher_of(id_under("x > 1")) for _ in range(100)}) == 5  # without an anchor anywhere


@pytest.mark.parametrize("count", range(2, 9))
def test_a_matcher_that_comes_takes_its_part_of_the_anchored_ones(count: int) -> None:
    few, many = anchored(count - 1), anchored(count)
    moves = [many.matcher_of(id) for id in ANCHORED_IDS if few.matcher_of(id) != many.matcher_of(id)]
    assert set(moves) == {f"matcher-{count}"}
    assert 0.85 / count < len(moves) / len(ANCHORED_IDS) < 1.15 / count


ANCHORED_IDS = [id_under(f"n = {number}") for number in range(10_000)]


@pytest.mark.parametrize("id", ["", "s-1", "s-+1234567", "s--1234567", "s-1_2_3_4_", "ännå-ännå-ännå", "x" * 300])
def test_an_id_of_another_kind_has_its_place_too(id: str) -> None:
    """Whoever asks for one that does not exist must get an answer."""
    assert anchored(3).matcher_of(id) in names(3)
    assert anchored_key(id) == anchored_key(id)
