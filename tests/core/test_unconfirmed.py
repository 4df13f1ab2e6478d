"""What matchers say of batches that are not confirmed: what is to come before a past, and what may come behind it."""

import sys
from typing import Any

import pytest

from braid.messages import BatchUnderWay, Kept, UnderWay
from services.connpoint import unconfirmed as module
from services.connpoint.unconfirmed import ORDER_S, Unconfirmed
from tests.core.kept_cases import ORIGIN, kept
from tests.core.kept_cases import under_way as known

OTHER = "connpoint-2.b"


def under_way(watermark: int, previous: dict[int, int], origin: str = ORIGIN, **batch: Any) -> dict[str, UnderWay]:
    return {origin: known(watermark, previous, **batch)}


# Whether something is still to come before it


@pytest.mark.parametrize(
    ("past", "heard", "expected"),
    [
        ([], [], True),
        ([kept(7, previous=6, is_confirmed=True)], [], True),
        ([kept(7)], [], False),
        ([kept(7)], [under_way(0, {7: 0})], True),
        ([kept(7, previous=6)], [], False),
        ([kept(7, previous=6)], [under_way(6, {7: 6})], True),
        ([kept(7, previous=6)], [under_way(5, {7: 6})], False),
        ([kept(7, previous=6)], [under_way(5, {7: 6}), under_way(6, {})], True),
        ([kept(7, previous=6)], [under_way(6, {}), under_way(5, {7: 6})], True),
        ([kept(7, previous=6)], [under_way(5, {7: 6}), under_way(4, {6: 0})], True),
        ([kept(7, previous=6)], [under_way(4, {6: 0})], False),
        ([kept(7, previous=6)], [under_way(2, {7: 6, 6: 4}), under_way(2, {4: 2})], True),
        ([kept(7, previous=6)], [under_way(1, {7: 6, 6: 4}), under_way(1, {4: 2})], False),
        ([kept(7, previous=6)], [under_way(5, {7: 6}), under_way(6, {6: 0}, OTHER)], False),
        ([kept(7, previous=6), kept(3, origin=OTHER, previous=2)], [under_way(6, {7: 6})], False),
    ],
)
def test_it_is_in_order_when_all_before_it_is_kept_or_confirmed(
    past: list[Kept], heard: list[dict[str, UnderWay]], expected: bool
) -> None:
    assert Unconfirmed(heard).is_in_order(past, 1.5 + ORDER_S) is expected


PART = under_way(0, {6: 0}, whole=3, places=[0, 2])


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], False),
        ([under_way(0, {6: 0}, whole=3, places=[2])], False),
        ([under_way(0, {6: 0}, whole=3, places=[1])], True),
        ([under_way(0, {6: 0}, whole=3, places=[1, 2])], True),
        ([under_way(0, {6: 0}, whole=3)], True),
        ([under_way(6, {})], True),
        ([under_way(0, {6: 0}, OTHER, whole=3, places=[1])], False),
    ],
)
def test_a_batch_is_kept_when_all_who_keep_a_part_of_it_have_it(
    others: list[dict[str, UnderWay]], expected: bool
) -> None:
    """What is kept by another matcher may not have come there yet, while later ones are found here."""
    for heard in ([PART, *others], [*others, PART]):
        assert Unconfirmed([under_way(0, {7: 6}), *heard]).is_in_order([kept(7, previous=6)], 1.5) is expected
        assert Unconfirmed(heard).is_in_order([kept(6, 2)], 1.5) is expected  # of which another part is to come


def test_what_is_old_is_in_order_whatever_is_known() -> None:
    """A matcher that was started again knows nothing of it."""
    assert Unconfirmed([]).is_in_order([kept(7, previous=6)], 1.6 + ORDER_S)


def test_a_long_chain_of_batches_is_followed_once() -> None:
    several = 4096
    past = [kept(number, previous=number - 1) for number in range(several, 0, -1)]
    unconfirmed = Unconfirmed([under_way(0, {number: number - 1 for number in range(1, several + 1)})])
    lines = 0

    def count(frame: Any, event: str, _: Any) -> Any:
        nonlocal lines
        lines += event == "line" and frame.f_code.co_filename == module.__file__
        return count

    sys.settrace(count)
    try:
        assert unconfirmed.is_in_order(past, 1.5)
        assert len(unconfirmed.before(past, 2.0)) == several
    finally:
        sys.settrace(None)
    assert lines < 40 * several


# What may come behind it


def published(**moments_s: float) -> dict[str, UnderWay]:
    """One batch after the other, by their numbers: `_4=1.5`."""
    numbers = [int(name[1:]) for name in moments_s]
    before = dict(zip(numbers, [0, *numbers], strict=False))
    batches = {
        number: BatchUnderWay(before[number], moment_s, 1)
        for number, moment_s in zip(numbers, moments_s.values(), strict=True)
    }
    return {ORIGIN: UnderWay(0, batches)}


def test_what_was_published_before_the_past_begins_and_before_something_in_it_may_come_behind_it() -> None:
    unconfirmed = Unconfirmed([published(_4=1.0, _6=2.0, _7=3.0, _8=4.0), under_way(0, {5: 0})])
    past = [kept(7, previous=6, published_s=3.0)]
    assert unconfirmed.before(past, 2.5) == {(ORIGIN, 4), (ORIGIN, 6)}
    assert unconfirmed.before(past, 2.0) == {(ORIGIN, 4)}  # the other one is in the past, or does not match
    assert unconfirmed.before(past, 1.0) == set()
    assert unconfirmed.before([], 2.5) == set()


def test_what_is_confirmed_does_not_come() -> None:
    heard = [published(_4=1.0, _6=2.0, _7=3.0), under_way(4, {})]
    assert Unconfirmed(heard).before([kept(7, previous=6)], 2.5) == {(ORIGIN, 6)}
    assert Unconfirmed(heard).before([kept(7, previous=6, is_confirmed=True)], 2.5) == set()


def test_of_what_was_cut_off_the_rest_may_come_behind_it() -> None:
    """One of a batch is the oldest that is given, and another one is left out."""
    unconfirmed = Unconfirmed([published(_6=2.0, _7=3.0)])
    assert unconfirmed.before([kept(7, 1, previous=6, published_s=3.0)], 3.1) == {(ORIGIN, 6), (ORIGIN, 7)}


def test_what_nobody_keeps_yet_is_not_known_to_be_before_it() -> None:
    """When it is not waited for any longer: it may be wanted."""
    assert Unconfirmed([published(_7=3.0)]).before([kept(7, previous=6)], 2.5) == set()
