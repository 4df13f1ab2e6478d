"""Zones against simple oracles: haversine, sets of whole degrees, samples, and half-spaces."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from braid.zones import EARTH_RADIUS_M, bounds, check_zone, intersect_pairs, intersects, prepare
from braid.zones.prepared import ROW

exactly_repeatable = settings(derandomize=True, deadline=None, database=None, max_examples=300)

# The oracles round too. They are asked only where the answer does not depend on the last decimetre.
MARGIN_M = 0.1

Place = tuple[float, float]  # latitude, longitude
Zone = dict[str, Any]


def haversine_m(a: Place, b: Place) -> float:
    (lat, lon), (other_lat, other_lon) = [tuple(map(math.radians, place)) for place in (a, b)]
    part = math.sin((other_lat - lat) / 2) ** 2
    part += math.cos(lat) * math.cos(other_lat) * math.sin((other_lon - lon) / 2) ** 2
    return 2 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(part)))


def vector(place: Place) -> tuple[float, float, float]:
    lat, lon = map(math.radians, place)
    return math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat)


def wrapped(longitude: float) -> float:
    return (longitude + 180) % 360 - 180


def moved(start: Place, bearing: float, distance_m: float) -> Place:
    lat, lon = map(math.radians, start)
    angle = distance_m / EARTH_RADIUS_M
    north = (-math.sin(lat) * math.cos(lon), -math.sin(lat) * math.sin(lon), math.cos(lat))
    east = (-math.sin(lon), math.cos(lon), 0.0)
    x, y, z = (
        here * math.cos(angle) + (up * math.cos(bearing) + right * math.sin(bearing)) * math.sin(angle)
        for here, up, right in zip(vector(start), north, east, strict=True)
    )
    return math.degrees(math.atan2(z, math.hypot(x, y))), wrapped(math.degrees(math.atan2(y, x)))


# Zones are drawn around few places, so that they often meet.
PLACES = [(0.0, 0.0), (40.4, -3.7), (65.0, 179.9), (-45.0, -180.0), (90.0, 0.0), (-89.9, 10.0)]
bearings = st.floats(0, math.tau)
distances_m = st.one_of(st.floats(0, 500), st.floats(0, 300_000), st.floats(0, 9_000_000))


@st.composite
def places(draw: st.DrawFn) -> Place:
    return moved(draw(st.sampled_from(PLACES)), draw(bearings), draw(distances_m))


@st.composite
def points(draw: st.DrawFn) -> Zone:
    lat, lon = draw(places())
    return check_zone({"type": "point", "lat": lat, "lon": lon})


@st.composite
def circles(draw: st.DrawFn) -> Zone:
    lat, lon = draw(places())
    return check_zone({"type": "circle", "lat": lat, "lon": lon, "radius_m": draw(distances_m)})


@st.composite
def boxes(draw: st.DrawFn) -> Zone:
    lat, lon = draw(places())
    height = draw(st.one_of(st.floats(0.001, 1), st.floats(1, 200)))
    width = draw(st.one_of(st.floats(0.001, 1), st.floats(1, 359)))
    south, north = max(-90.0, min(lat, 89.9)), min(90.0, min(lat, 89.9) + height)
    return check_zone({"type": "box", "south": south, "west": lon, "north": north, "east": wrapped(lon + width)})


@st.composite
def whole_boxes(draw: st.DrawFn) -> Zone:
    """Boxes of whole degrees."""
    south = draw(st.integers(-90, 89))
    north = draw(st.integers(south + 1, 90))
    west = draw(st.integers(-180, 179))
    east = draw(st.integers(-180, 180).filter(lambda east: (east - west) % 360 != 0))
    return check_zone({"type": "box", "south": south, "west": west, "north": north, "east": east})


@st.composite
def discs_with_polygons(draw: st.DrawFn) -> tuple[Zone, Zone]:
    """A circle and a convex polygon in it: its vertices stand on the circle."""
    centre = draw(places())
    radius_m = draw(st.one_of(st.floats(50, 5000), st.floats(1000, 4_000_000)))
    steps = draw(st.lists(st.floats(0.5, 2), min_size=3, max_size=12))
    bearing, ring = 0.0, []
    for step in steps:
        lat, lon = moved(centre, bearing, radius_m)
        ring.append([lon, lat])
        bearing -= math.tau * step / sum(steps)
    circle = {"type": "circle", "lat": centre[0], "lon": centre[1], "radius_m": radius_m + MARGIN_M}
    return check_zone(circle), check_zone({"type": "Polygon", "coordinates": [[*ring, ring[0]]]})


polygons = discs_with_polygons().map(lambda drawn: drawn[1])
zones = st.one_of(points(), circles(), boxes(), polygons)


def centre_of(zone: Zone) -> Place:
    return zone["lat"], zone["lon"]


def depth_in(polygon: Zone, place: Place) -> float:
    """How far a place is on the inner side of all edges of a convex polygon; a sine, negative outside."""
    depths = []
    ring = [vector((lat, lon)) for lon, lat in polygon["coordinates"][0]]
    x, y, z = vector(place)
    for (ax, ay, az), (bx, by, bz) in pairwise(ring):
        normal = (ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx)
        depths.append((normal[0] * x + normal[1] * y + normal[2] * z) / math.hypot(*normal))
    return min(depths)


def longitudes_of(box: Zone) -> list[float]:
    width = (box["east"] - box["west"]) % 360 or 360.0
    return [box["west"] + width * step / 200 for step in range(201)]


def latitudes_of(box: Zone) -> list[float]:
    return [box["south"] + (box["north"] - box["south"]) * step / 200 for step in range(201)]


# Points and circles


@exactly_repeatable
@given(st.one_of(points(), circles()), circles())
def test_discs_meet_when_the_distance_is_at_most_the_radii(a: Zone, b: Zone) -> None:
    spare_m = a.get("radius_m", 0) + b["radius_m"] - haversine_m(centre_of(a), centre_of(b))
    if abs(spare_m) > MARGIN_M:
        assert intersects(a, b) is intersects(b, a) is (spare_m > 0)


@exactly_repeatable
@given(places(), bearings, st.floats(1, 9_000_000))
def test_a_point_on_a_circle_counts(centre: Place, bearing: float, radius_m: float) -> None:
    lat, lon = moved(centre, bearing, radius_m)
    point = check_zone({"type": "point", "lat": lat, "lon": lon})
    for more_m, expected in ((0, True), (0.1, True), (-0.1, False)):
        circle = {"type": "circle", "lat": centre[0], "lon": centre[1], "radius_m": radius_m + more_m}
        assert intersects(check_zone(circle), point) is expected


# Boxes


@exactly_repeatable
@given(whole_boxes(), st.integers(-90, 90), st.integers(-180, 180))
def test_a_point_in_a_box(box: Zone, lat: int, lon: int) -> None:
    point = check_zone({"type": "point", "lat": lat, "lon": lon})
    longitudes = {(int(box["west"]) + step) % 360 for step in range(int((box["east"] - box["west"]) % 360 or 360) + 1)}
    inside = box["south"] <= lat <= box["north"] and (lon % 360 in longitudes or abs(lat) == 90)
    assert intersects(box, point) is intersects(point, box) is inside


@exactly_repeatable
@given(whole_boxes(), whole_boxes())
def test_boxes_meet_when_they_share_a_whole_degree(a: Zone, b: Zone) -> None:
    def degrees(box: Zone) -> set[tuple[int, int]]:
        width = int((box["east"] - box["west"]) % 360 or 360)
        longitudes = [(int(box["west"]) + step) % 360 for step in range(width + 1)]
        latitudes = range(int(box["south"]), int(box["north"]) + 1)
        return {(lat, 0 if abs(lat) == 90 else lon) for lat in latitudes for lon in longitudes}

    assert intersects(a, b) is not degrees(a).isdisjoint(degrees(b))


@exactly_repeatable
@given(boxes(), circles())
def test_a_circle_meets_a_box_when_it_reaches_its_nearest_place(box: Zone, circle: Zone) -> None:
    centre = centre_of(circle)
    longitudes, latitudes = longitudes_of(box), latitudes_of(box)
    edges = [(lat, lon) for lat in (box["south"], box["north"]) for lon in longitudes]
    edges += [(lat, lon) for lat in latitudes for lon in (box["west"], box["east"])]
    nearest_m = min(haversine_m(centre, place) for place in edges)
    # Half the distance of two samples, at the equator.
    spacing_deg = max(longitudes[1] - longitudes[0], latitudes[1] - latitudes[0]) / 2
    spacing_m = math.radians(spacing_deg) * EARTH_RADIUS_M
    point = check_zone({"type": "point", "lat": centre[0], "lon": centre[1]})
    if intersects(box, point) or nearest_m < circle["radius_m"] - MARGIN_M:
        assert intersects(box, circle)
    elif nearest_m > circle["radius_m"] + spacing_m + MARGIN_M:
        assert not intersects(box, circle)


# Polygons


@exactly_repeatable
@given(polygons, points())
def test_a_point_in_a_convex_polygon_is_inside_all_edges(polygon: Zone, point: Zone) -> None:
    depth = depth_in(polygon, centre_of(point))
    if abs(depth) * EARTH_RADIUS_M > MARGIN_M:
        assert intersects(polygon, point) is (depth > 0)


@exactly_repeatable
@given(polygons, polygons)
def test_polygons_that_hold_a_vertex_of_another_meet_it(a: Zone, b: Zone) -> None:
    for one, other in ((a, b), (b, a)):
        if any(depth_in(one, (lat, lon)) * EARTH_RADIUS_M > MARGIN_M for lon, lat in other["coordinates"][0]):
            assert intersects(a, b)


@exactly_repeatable
@given(discs_with_polygons(), zones)
def test_what_meets_a_polygon_meets_a_circle_around_it(drawn: tuple[Zone, Zone], other: Zone) -> None:
    circle, polygon = drawn
    # A box may be taken for one metre larger where it meets polygons.
    around = {**circle, "radius_m": circle["radius_m"] + 2}
    if intersects(polygon, other):
        assert intersects(around, other)


@exactly_repeatable
@given(polygons, boxes())
def test_a_polygon_meets_a_box_when_either_holds_a_place_of_the_other(polygon: Zone, box: Zone) -> None:
    inner = {**box, "south": box["south"] + 0.0001, "north": box["north"] - 0.0001}
    vertices = [check_zone({"type": "Point", "coordinates": position}) for position in polygon["coordinates"][0]]
    corners = [(lat, wrapped(box[side])) for lat in (box["south"], box["north"]) for side in ("west", "east")]
    held = any(intersects(inner, vertex) for vertex in vertices)
    if held or any(depth_in(polygon, corner) * EARTH_RADIUS_M > 2 for corner in corners):
        assert intersects(polygon, box)


# All kinds


@exactly_repeatable
@given(st.lists(st.tuples(zones, zones), max_size=8))
def test_pairs_mean_the_same_as_one_by_one(pairs: list[tuple[Zone, Zone]]) -> None:
    expected = [intersects(a, b) for a, b in pairs]
    left, right = [prepare(a) for a, _ in pairs], [prepare(b) for _, b in pairs]
    assert intersect_pairs(left, right).tolist() == expected
    assert intersect_pairs(right, left).tolist() == expected


# Zones that the caps around are the whole earth, and points where these caps end: opposite to their centres.


def opposite_to_centre(zone: Zone) -> Zone:
    x, y, z = (float(np.frombuffer(prepare(zone).row, ROW)[axis][0]) for axis in "xyz")
    lat, lon = math.degrees(math.asin(max(-1.0, min(1.0, -z)))), math.degrees(math.atan2(-y, -x))
    return check_zone({"type": "point", "lat": lat, "lon": lon})


def check_far_side(zone: Zone) -> None:
    far = opposite_to_centre(zone)
    for lat in (far["lat"], math.nextafter(far["lat"], 0), round(far["lat"], 4)):
        place = {**far, "lat": lat}
        assert intersect_pairs([prepare(zone)], [prepare(place)]).tolist() == [intersects(zone, place)]


@exactly_repeatable
@given(st.floats(0, 90), st.floats(1, 90))
@example(south=30.3452, north=40.4806)
def test_what_lies_on_the_far_side_of_a_box_around_the_earth(south: float, north: float) -> None:
    check_far_side(check_zone({"type": "box", "south": -south, "west": -180, "north": north, "east": 180}))


@exactly_repeatable
@given(st.floats(0.1, 30), st.floats(0.1, 30), st.floats(-180, 179), st.integers(100, 140))
def test_what_lies_on_the_far_side_of_a_band_around_the_earth(
    south: float, north: float, first: float, middle: int
) -> None:
    """A band with a gap. Most vertices, and so the centre, are on one side, and the band goes on behind it."""
    along = [*range(30, 90, 20), *range(middle - 20, middle + 20, 2), *range(170, 360, 20)]
    ring = [[wrapped(first + lon), -south] for lon in along] + [[wrapped(first + lon), north] for lon in along[::-1]]
    polygon = check_zone({"type": "Polygon", "coordinates": [[*ring, ring[0]]]})
    check_far_side(polygon)


@exactly_repeatable
@given(zones)
def test_a_canonical_zone_stays_as_it_is_and_meets_itself(zone: Zone) -> None:
    assert check_zone(zone) == zone
    assert intersects(zone, zone)


@exactly_repeatable
@given(zones, zones)
def test_zones_that_meet_have_bounds_that_overlap(a: Zone, b: Zone) -> None:
    overlap = any(p[0] <= q[2] and q[0] <= p[2] and p[1] <= q[3] and q[1] <= p[3] for p in bounds(a) for q in bounds(b))
    if intersects(a, b):
        assert overlap


@exactly_repeatable
@given(zones)
def test_bounds_do_not_cross_the_antimeridian(zone: Zone) -> None:
    for south, west, north, east in bounds(zone):
        assert -90 <= south <= north <= 90
        assert -180 <= west <= east <= 180


@exactly_repeatable
@given(circles(), bearings, st.floats(0, 1))
def test_bounds_enclose_the_places_of_a_circle(circle: Zone, bearing: float, share: float) -> None:
    lat, lon = moved(centre_of(circle), bearing, circle["radius_m"] * share)
    assert any(box[0] <= lat <= box[2] and box[1] <= lon <= box[3] for box in bounds(circle))
