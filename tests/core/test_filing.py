"""In which lists publications and subscriptions lie, byte by byte, and how their records are read again."""

import math
from typing import Any

import msgspec
import pytest

from braid.messages import KeptBatch
from braid.subscription import SubscriptionRecord
from services.matcher.filing import (
    Body,
    filed_publications,
    filed_subscription,
    kept_batch,
    lists_of_publication,
    lists_of_subscription,
    read_body,
    record_of,
    records_of,
)
from services.matcher.storage.keys import list_id
from services.matcher.storage.records import Filed, StoredPublication, StoredSubscription
from tests.core.kept_cases import ORIGIN, batch, on_topic
from tests.core.matching_cases import NOW_S, content, record
from tests.core.matching_populations import Population

MADRID = {"type": "point", "lat": 40.4168, "lon": -3.7038}
MADRID_CELL = list_id("z", *"14222432321224")
AROUND_MADRID = {"type": "circle", "lat": 40.4168, "lon": -3.7038, "radius_m": 40}
A_B, ALL = b"t\x01a\x01b\x01", b"a\x01"
THE_EARTH = (b"z\x01",)


def lists_of(**parts: Any) -> tuple[bytes, ...]:
    return lists_of_subscription(record("s-1", **parts))


def stored(filed: Filed) -> StoredPublication:
    assert isinstance(filed.record, StoredPublication)
    return filed.record


# Publications


def test_a_publication_lies_in_the_list_of_all_and_in_that_of_its_topic() -> None:
    assert lists_of_publication("", None) == (ALL,)
    assert lists_of_publication("a/b", None) == (ALL, A_B)
    assert lists_of_publication("1.4", None) == lists_of_publication("1/4", None) == (ALL, b"t\x011\x014\x01")


def test_with_a_zone_it_also_lies_in_the_cells_that_it_touches() -> None:
    assert lists_of_publication("", MADRID) == (ALL, MADRID_CELL)
    assert lists_of_publication("a/b", MADRID) == (ALL, A_B, MADRID_CELL)


def test_across_the_middle_of_the_map_it_lies_in_up_to_four_small_cells() -> None:
    _, *cells = lists_of_publication("", {"type": "box", "south": -0.005, "west": -0.01, "north": 0.005, "east": 0.01})
    assert sorted(cells) == sorted(
        list_id("z", *quarter)
        for quarter in ("1" + "4" * 13, "2" + "3" * 13, "3" + "2" * 13, "4" + "1" * 13)  # around the middle
    )


def test_across_the_antimeridian_it_lies_on_both_sides() -> None:
    box = {"type": "box", "south": 10.0, "west": 179.999, "north": 10.001, "east": -179.999}
    _, *cells = lists_of_publication("", box)
    assert {cell[2:5] for cell in cells} == {b"1\x013", b"2\x014"}


def test_at_a_pole_it_lies_at_all_longitudes() -> None:
    assert lists_of_publication("", {"type": "point", "lat": 90.0, "lon": 12.0}) == (ALL, *THE_EARTH)


# Subscriptions


@pytest.mark.parametrize(
    ("topic", "levels"),
    [("a/b", "ab"), ("a/+/c", "a"), ("a/#", "a"), ("a/b/+", "ab"), ("+/b", ""), ("#", ""), ("1.4", "14"), ("1.#", "1")],
)
def test_a_subscription_reads_along_the_line_of_its_topic_up_to_the_first_wildcard(topic: str, levels: str) -> None:
    assert lists_of(topic=topic) == (list_id("t", *levels),)


def test_its_topic_decides_before_its_zone() -> None:
    assert lists_of(topic="a/b", zone=AROUND_MADRID) == (A_B,)
    assert lists_of(topic="a/#", zone=AROUND_MADRID) == (b"t\x01a\x01",)


def test_a_topic_that_begins_with_a_wildcard_leaves_it_to_the_zone() -> None:
    assert lists_of(topic="+/b", zone=AROUND_MADRID) == lists_of(zone=AROUND_MADRID) == (MADRID_CELL,)


def test_without_topic_and_zone_it_reads_everything() -> None:
    assert lists_of() == lists_of(filter="n = 1", words=("tax",)) == (ALL,)


def test_around_a_pole_it_reads_all_zones() -> None:
    for lat in (90.0, -89.99):
        assert lists_of(zone={"type": "circle", "lat": lat, "lon": 0.0, "radius_m": 5000}) == THE_EARTH


def test_what_stands_at_the_edge_is_read_too() -> None:
    """Zones of different kinds deviate from one another by a little, and the border of two cells may lie between."""
    box = {"type": "box", "south": 40.0, "west": -0.01, "north": 40.001, "east": -1e-5}
    _, cell = lists_of_publication("", {"type": "point", "lat": 40.0005, "lon": 5e-5})
    assert cell in lists_of(zone=box)


def test_a_subscription_is_filed_where_it_reads() -> None:
    given = record("s-1", topic="a/b", created_s=5.0, from_s=4.0, until_s=9.0, distinct=True)
    filed = filed_subscription(given, 5.0)
    assert filed == Filed(StoredSubscription("s-1", "anna", 5.0, 4.0, 9.0, True, filed.record.body), (A_B,))
    assert isinstance(filed.record, StoredSubscription)
    assert records_of([filed]) == [record_of(filed.record)] == [given]


def test_one_without_a_window_is_there_for_ever() -> None:
    filed = filed_subscription(record("s-1"), 0.0)
    stored = StoredSubscription("s-1", "anna", 0.0, -math.inf, math.inf, False, filed.record.body)
    assert filed == Filed(stored, (ALL,))


def test_what_comes_from_a_clock_that_is_far_ahead_is_filed_as_new() -> None:
    """The storage takes nothing of the future, and everything else that is written with it must not suffer."""
    filed = filed_subscription(record("s-1", created_s=500.0), 100.0)
    assert filed.record.made_s == 160.0
    assert records_of([filed]) == [record("s-1", created_s=500.0)]
    (ahead,) = filed_publications(batch(7, b"{}", published_s=500.0), 100.0)
    (little,) = filed_publications(batch(7, b"{}", published_s=150.0), 100.0)
    assert (stored(ahead).made_s, stored(little).made_s) == (160.0, 150.0)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_a_subscription_says_is_read_again(seed: int) -> None:
    population = Population(seed)
    given: list[SubscriptionRecord] = [population.record(f"s-{number}") for number in range(40)]
    assert records_of([filed_subscription(one, NOW_S) for one in given]) == given


# Records of publications


def test_publications_of_a_batch_that_lie_in_the_same_lists_are_one_record() -> None:
    contents = [on_topic("a", n=1), content({"n": 2}), on_topic("b"), on_topic("a", n=3), content({"n": 4})]
    kept = batch(0x1F, *contents, places=[2, 3, 5, 20, 21], previous=0x1E)
    on_a, without, on_b = filed_publications(kept, NOW_S)
    assert [stored(one).id for one in (on_a, without, on_b)] == [f"{ORIGIN}/1f/{place}" for place in "235"]
    assert [one.lists for one in (on_a, without, on_b)] == [(ALL, b"t\x01a\x01"), (ALL,), (ALL, b"t\x01b\x01")]
    assert read_body(stored(on_a).body) == Body(ORIGIN, 0x1F, [2, 20], [contents[0], contents[3]], 0x1E)
    assert read_body(stored(without).body) == Body(ORIGIN, 0x1F, [3, 21], [contents[1], contents[4]], 0x1E)
    assert {(stored(one).made_s, stored(one).expires_s) for one in (on_a, without, on_b)} == {(1.5, math.inf)}


def test_those_that_expire_at_another_time_are_another_record() -> None:
    contents = [content(expires="1970-01-01T00:01:40Z"), content(), content(expires="1970-01-01T00:01:40.500Z")]
    filed = list(filed_publications(batch(7, *contents, contents[0]), NOW_S))
    assert [(stored(one).expires_s, kept_batch(stored(one)).places) for one in filed] == [
        (100.0, [0, 3]),
        (math.inf, [1]),
        (100.5, [2]),
    ]


def test_what_was_kept_keeps_the_time_at_which_it_expires() -> None:
    """Also where it did not say so itself, and a retention decided."""
    (filed,) = filed_publications(batch(7, b"{}", b"{}"), NOW_S)
    kept = msgspec.structs.replace(stored(filed), expires_s=100.5)
    again = kept_batch(kept)
    assert again.expires_s == 100.5
    assert [one.record for one in filed_publications(again, NOW_S)] == [kept]


@pytest.mark.parametrize("content", [b"", b"{", b'{"topic":3}', b'{"expires":"soon"}', b'{"topic":"\xff"}', b"[]"])
def test_what_cannot_be_read_is_left_out(content: bytes) -> None:
    (filed,) = filed_publications(batch(7, content, b"{}"), NOW_S)
    assert kept_batch(stored(filed)).places == [1]
    assert list(filed_publications(batch(7, content), NOW_S)) == []


@pytest.mark.parametrize("seed", range(5))
def test_all_records_of_a_batch_together_are_what_was_kept_of_it(seed: int) -> None:
    population = Population(seed)
    contents = population.contents(30)
    places = sorted(population.chance.sample(range(100), 30))
    given = KeptBatch(ORIGIN, 7, 3, 1.5, places, contents)
    filed = list(filed_publications(given, NOW_S))
    again = [kept_batch(stored(one)) for one in filed]
    assert len(again) > 5
    assert {(one.origin, one.sequence, one.previous, one.published_s) for one in again} == {(ORIGIN, 7, 3, 1.5)}
    found = sorted(pair for one in again for pair in zip(one.places, one.contents, strict=True))
    assert found == list(zip(places, contents, strict=True))
    assert len({stored(one).id for one in filed}) == len(filed)
