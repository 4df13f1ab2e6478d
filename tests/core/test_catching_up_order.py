"""The order in which a past and what came live are given."""

import math
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from braid.messages import Kept
from services.connpoint.past_order import PART, Key, in_order
from tests.core.kept_cases import ORIGIN, kept

OTHER = "connpoint-2.b"
fixed = settings(derandomize=True, deadline=None, database=None, max_examples=200)


def ordered(*past: Kept, live: dict[Key, bytes] | None = None) -> list[bytes]:
    """The newest of the past are found first."""
    return merged({(one.origin, one.sequence, one.place): one for one in reversed(past)}, live or {})


def merged(past: dict[Key, Kept], live: dict[Key, bytes]) -> list[bytes]:
    return [content for part in in_order(past, live) for _, content in part]


def test_the_past_is_ordered_by_its_time() -> None:
    past = [kept(5, published_s=3.0), kept(9, origin=OTHER, published_s=1.0), kept(6, published_s=4.0)]
    assert ordered(*past) == [b"9.0", b"5.0", b"6.0"]


def test_an_origin_whose_clock_went_back_keeps_its_order() -> None:
    past = [kept(5, published_s=3.0), kept(6, published_s=1.0), kept(1, origin=OTHER, published_s=2.0)]
    assert ordered(*past) == [b"1.0", b"5.0", b"6.0"]


def test_what_came_live_goes_before_what_its_origin_published_later() -> None:
    came = {(ORIGIN, 7, 0): b"7.0", (OTHER, 1, 0): b"1.0", (ORIGIN, 5, 0): b"5.0"}
    assert ordered(kept(6), kept(4), live=came) == [b"4.0", b"5.0", b"6.0", b"7.0", b"1.0"]


def test_what_came_live_behind_the_past_stays_in_the_order_in_which_it_came() -> None:
    came = {(OTHER, 8, 0): b"8.0", (ORIGIN, 9, 0): b"9.0", (OTHER, 1, 0): b"1.0"}
    assert ordered(kept(2), live=came) == [b"2.0", b"8.0", b"9.0", b"1.0"]


class Way(NamedTuple):
    origin: str
    publisher: int
    published_s: float
    in_past: bool
    is_live: bool


ways = st.builds(
    Way, st.sampled_from("ab"), st.integers(0, 1), st.integers(0, 5).map(float), st.booleans(), st.booleans()
)


@fixed
@given(st.lists(ways, max_size=12), st.randoms(use_true_random=False))
def test_each_publisher_keeps_its_order_and_nothing_is_lost(story: list[Way], chance: Any) -> None:
    """Those of one publisher come live in their order, those of others anyhow between them."""
    keys: dict[Key, Way] = {(way.origin, number // 2, number % 2): way for number, way in enumerate(story)}
    contents = {key: repr(key).encode() for key in keys}
    past = {key: Kept(way.published_s, *key, contents[key]) for key, way in keys.items() if way.in_past}
    waiting = [
        [key for key, way in keys.items() if way.is_live and (way.origin, way.publisher) == who]
        for who in [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    ]
    arrived: dict[Key, bytes] = {}
    while any(waiting):
        key = chance.choice([some for some in waiting if some]).pop(0)
        if key not in past:
            arrived[key] = contents[key]
    result = merged(past, arrived)
    assert sorted(result) == sorted(contents[key] for key in {*past, *arrived})
    placed = {content: place for place, content in enumerate(result)}
    for one in (*past, *arrived):
        for other in (*past, *arrived):
            same = (one[0], keys[one].publisher) == (other[0], keys[other].publisher)
            if one < other and (same or (one[0] == other[0] and other in past)):
                assert placed[contents[one]] < placed[contents[other]]


def test_what_came_live_last_is_behind_everything_however_late_that_was_published() -> None:
    late = kept(1, origin=OTHER, published_s=math.nextafter(math.inf, 0))
    assert ordered(late, live={(ORIGIN, 9, 0): b"9.0"}) == [b"1.0", b"9.0"]


# Much of it


def test_very_much_is_put_in_order_a_part_at_a_time() -> None:
    past = {(ORIGIN, number, 0): kept(number) for number in range(5_000, 0, -1)}
    live = {(OTHER, number, 0): b"live" for number in range(25_000)}
    parts = [len(part) for part in in_order(past, live)]
    assert sum(parts) == 30_000
    assert max(parts) == PART
