"""Anchors are counted, and a list of all of them is walked while they come and go."""

import random

import pytest

from services.matcher import anchor_counts
from services.matcher.anchor_counts import AnchorCounts


def walked(counts: AnchorCounts) -> list[str]:
    return [anchor for _, anchor in counts.walk()]


def test_an_anchor_is_there_from_the_first_to_the_last() -> None:
    counts = AnchorCounts()
    assert [counts.add("a"), counts.add("a"), counts.take("a")] == [True, False, False]
    assert "a" in counts
    assert counts.take("a")
    assert ("a" in counts, len(counts), walked(counts)) == (False, 0, [])


def test_they_are_walked_in_their_order_without_what_goes_meanwhile() -> None:
    counts = AnchorCounts()
    for anchor in "abcd":
        counts.add(anchor)
    walk = counts.walk()
    assert next(walk) == (1, "a")
    counts.take("a")
    counts.take("c")
    assert list(walk) == [(1, "b"), (1, "d")]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_comes_and_goes_all_that_stay_are_walked_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anchor_counts, "PAGE_MAX", 3)
    chance, counts = random.Random(seed), AnchorCounts()
    there = {f"a{number}" for number in range(40)}
    for anchor in sorted(there):
        counts.add(anchor)
    staying, seen = set(there), []
    for _, anchor in counts.walk():
        seen.append(anchor)
        gone = chance.choice(sorted(there))
        counts.take(gone)
        there.discard(gone)
        staying.discard(gone)
        if chance.random() < 0.7:
            counts.add(gone)
            there.add(gone)
        if not there:
            break
    assert staying <= set(seen)
    assert len(seen) == len(set(seen))
    assert len(counts) == len(there)
    assert sorted(walked(counts)) == sorted(there)


def test_no_page_stays_that_nobody_is_on() -> None:
    counts = AnchorCounts()
    for number in range(5 * anchor_counts.PAGE_MAX):
        counts.add(f"a{number}")
        counts.take(f"a{number}")
    assert not counts._pages
