"""Filing misses nothing: whatever a subscription matches lies on a line with the lists that it reads."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.matching.meaning import Publication, accepts
from braid.subscription import SubscriptionRecord
from braid.zones import intersects
from services.matcher.filing import lists_of_publication, lists_of_subscription
from services.matcher.storage.keys import on_one_line
from tests.core.matching_cases import NOW_S, record
from tests.core.matching_strategies import published_zones, subscribed_zones
from tests.core.test_anchors_properties import bearings, pairs, place_in, shares
from tests.core.test_zones_properties import Zone

fixed = settings(derandomize=True, deadline=None, database=None, max_examples=200)


def is_read(given: SubscriptionRecord, topic: str, zone: Zone | None) -> bool:
    lists, own = lists_of_subscription(given), lists_of_publication(topic, zone)
    return any(on_one_line(one, other) for one in lists for other in own)


def test_whatever_matches_lies_in_a_list_that_is_read() -> None:
    """Publications that are made for the subscription, so that most of them match."""
    met: Counter[tuple[bool, bool]] = Counter()

    @fixed
    @given(pairs())
    def check(pair: tuple[SubscriptionRecord, Publication]) -> None:
        subscribed, publication = pair
        if accepts(subscribed, publication, None, NOW_S):
            met[bool(subscribed.topic), subscribed.zone is not None] += 1
            assert is_read(subscribed, publication.topic, publication.zone), pair

    check()
    assert sum(met.values()) > 80
    assert len(met) == 4  # with and without a topic, with and without a zone


@fixed
@given(subscribed_zones, published_zones, bearings, shares)
def test_whatever_meets_a_zone_lies_in_a_cell_that_is_read(
    zone: Zone, other: Zone, bearing: float, share: float
) -> None:
    """On its very edge too, where zones of different kinds may deviate from one another."""
    subscribed = record("s-1", zone=zone)
    inside = place_in(zone, bearing, share)
    grazing = {"type": "circle", **{name: inside[name] for name in ("lat", "lon")}, "radius_m": 0.5}
    for published in (other, inside, grazing, zone):
        assert is_read(subscribed, "", published) or not intersects(zone, published), published


@pytest.mark.slow
@settings(fixed, max_examples=600)
@given(subscribed_zones, published_zones)
def test_whatever_meets_a_zone_is_read_in_many_more_examples(zone: Zone, other: Zone) -> None:
    assert is_read(record("s-1", zone=zone), "", other) or not intersects(zone, other)


def box(south: float, west: float, north: float, east: float) -> Zone:
    return {"type": "box", "south": south, "west": west, "north": north, "east": east}


def point(lat: float, lon: float) -> Zone:
    return {"type": "point", "lat": lat, "lon": lon}


def triangle(lat: float, lon: float, side: float) -> Zone:
    ring = [[lon, lat], [lon + side, lat], [lon, lat + side], [lon, lat]]
    return {"type": "Polygon", "coordinates": [ring]}


@pytest.mark.parametrize(
    ("zone", "published"),
    [
        (box(-1.0, 179.0, 1.0, 180.0), point(0.0, -180.0)),
        (box(-1.0, -180.0, 1.0, -179.0), point(0.0, 180.0)),
        (box(-1.0, 179.0, 1.0, -179.0), point(0.5, -179.5)),
        (box(-1.0, 179.0, 1.0, 180.0), triangle(0.0, -180.0, 0.1)),
        ({"type": "circle", "lat": 0.0, "lon": 179.999, "radius_m": 500}, point(0.0, -179.998)),
        (box(80.0, 10.0, 90.0, 20.0), point(90.0, -100.0)),
        (box(80.0, 10.0, 90.0, 20.0), box(85.0, -100.0, 90.0, -90.0)),
        (box(-90.0, 10.0, -80.0, 20.0), point(-90.0, 0.0)),
        ({"type": "circle", "lat": 89.99, "lon": 0.0, "radius_m": 3000}, point(89.99, 180.0)),
        (box(89.9, 10.0, 89.95, 20.0), triangle(89.9, 20.0, 0.01)),
        ({"type": "circle", "lat": 89.9, "lon": 0.0, "radius_m": 100}, point(89.9, 0.4)),
    ],
)
def test_at_the_edges_of_the_map(zone: Zone, published: Zone) -> None:
    assert intersects(zone, published)
    assert is_read(record("s-1", zone=zone), "", published)
    assert is_read(record("s-1", zone=published), "", zone)


@fixed
@given(st.floats(-90, 90), st.floats(-180, 180), st.integers(0, 14))
def test_what_stands_on_the_border_of_cells_is_read(lat: float, lon: float, depth: int) -> None:
    """A point that two or four cells share lies in one of them; whoever reads any of them reads that one."""
    height, width = 180 / 2**depth, 360 / 2**depth
    corner: dict[str, Any] = {"lat": round(lat / height) * height, "lon": round(lon / width) * width}
    south, north = max(-90.0, corner["lat"] - height), min(90.0, corner["lat"] + height)
    west, east = max(-180.0, corner["lon"] - width), min(180.0, corner["lon"] + width)
    if not -90 <= corner["lat"] <= 90 or not -180 <= corner["lon"] <= 180:
        return
    for around in (
        box(south, west, corner["lat"], corner["lon"]),
        box(corner["lat"], corner["lon"], north, east),
        box(south, corner["lon"], corner["lat"], east),
        box(corner["lat"], west, north, corner["lon"]),
    ):
        if around["south"] < around["north"] and around["west"] < around["east"]:
            assert is_read(record("s-1", zone=around), "", point(**corner))
