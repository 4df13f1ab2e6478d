"""Zones: what is refused and why, what canonical zones look like, and the special places of the earth."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
import spherely

from braid.zones import (
    BOX_DEVIATION_M_MAX,
    EARTH_RADIUS_M,
    POLYGON_VERTICES_MAX,
    RADIUS_M_MAX,
    ZoneError,
    bounds,
    check_zone,
    geography,
    intersect_pairs,
    intersects,
    prepare,
)

SQUARE = [[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]
DEGREE_M = math.pi / 180 * EARTH_RADIUS_M
WORLD = {"type": "box", "south": -90, "west": -180, "north": 90, "east": 180}


def point(lat: Any, lon: Any) -> dict[str, Any]:
    return {"type": "point", "lat": lat, "lon": lon}


def circle(lat: Any, lon: Any, radius_m: Any) -> dict[str, Any]:
    return {"type": "circle", "lat": lat, "lon": lon, "radius_m": radius_m}


def box(south: Any, west: Any, north: Any, east: Any) -> dict[str, Any]:
    return {"type": "box", "south": south, "west": west, "north": north, "east": east}


def polygon(*rings: Any) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": list(rings)}


def many_sided(vertices: int) -> list[list[float]]:
    angles = [math.tau * index / vertices for index in range(vertices)]
    ring = [[math.cos(angle), math.sin(angle)] for angle in angles]
    return [*ring, ring[0]]


def meet(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return intersects(check_zone(a), check_zone(b))


# Refusals


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        (None, "$", "expected an object"),
        ([1, 2], "$", "expected an object"),
        ({}, "$.type", "expected one of"),
        ({"type": ["point"]}, "$.type", "expected one of"),
        ({"type": "MultiPolygon", "coordinates": []}, "$.type", "expected one of"),
        (point(True, 0), "$.lat", "expected a number"),
        (point(0, None), "$.lon", "expected a number"),
        (point(-90.0001, 0), "$.lat", "from -90 to 90"),
        (point(0, 180.5), "$.lon", "from -180 to 180"),
        (point(math.inf, 0), "$.lat", "not inf"),
        (point(0, math.nan), "$.lon", "not nan"),
        (point(10**400, 0), "$.lat", "from -90 to 90"),
        (circle(0, 0, -1), "$.radius_m", "from 0 to 10000000"),
        (circle(0, 0, RADIUS_M_MAX + 1), "$.radius_m", "from 0 to 10000000"),
        (circle(0, 0, math.nan), "$.radius_m", "not nan"),
        ({**circle(0, 0, 1), "radius": 1}, "$", "unknown member 'radius'"),
        (dict[Any, Any](point(0, 0)) | {7: 1}, "$", "unknown member '7'"),
        ({"type": "circle", "lat": 0, "lon": 0}, "$", "'radius_m' is missing"),
        (box(0, 0, 0, 1), "$.north", "north must be greater"),
        (box(1, 0, 0, 1), "$.north", "north must be greater"),
        (box(0, 1, 1, 1), "$.east", "to go all around"),
        (box(0, 180, 1, -180), "$.east", "to go all around"),
        (box(0, -180, 1, -180), "$.east", "to go all around"),
        (box(0, "a", 1, 1), "$.west", "expected a number"),
        ({"type": "Point", "coordinates": [1]}, "$.coordinates", "[longitude, latitude]"),
        ({"type": "Point", "coordinates": "12"}, "$.coordinates", "[longitude, latitude]"),
        ({"type": "Point", "coordinates": [0, 99]}, "$.coordinates[1]", "from -90 to 90"),
        (polygon(), "$.coordinates", "array of rings"),
        (polygon("ring"), "$.coordinates[0]", "at least four positions"),
        (polygon([[0, 0], [1, 0], [0, 0]]), "$.coordinates[0]", "at least four positions"),
        (polygon([[0, 0], [1, 0], [1, 1], [0, 1]]), "$.coordinates[0]", "not closed"),
        (polygon([[0, 0], [1, "x"], [1, 1], [0, 0]]), "$.coordinates[0][1][1]", "expected a number"),
        (polygon([[0, 0], [1, 0], [1, 0], [1, 1], [0, 0]]), "$.coordinates[0][2]", "same place"),
        (polygon([[179, 0], [180, 0], [-180, 0], [179, 1], [179, 0]]), "$.coordinates[0][2]", "same place"),
        (polygon([[0, 80], [0, 90], [9, 90], [9, 80], [0, 80]]), "$.coordinates[0][2]", "same place"),
        (polygon([[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]]), "$.coordinates[0]", "crosses or touches itself"),
        (polygon([[0, 0], [2, 0], [1, 1], [2, 2], [0, 2], [1, 1], [0, 0]]), "$.coordinates[0]", "touches itself"),
        (polygon([[0, 0], [1, 0], [2, 0], [0, 0]]), "$.coordinates[0]", "less than 1.0 m²"),
        (polygon([[0, 0], [90, 0], [180, 0], [-90, 0], [0, 0]]), "$.coordinates[0][1]", "longer than 10000 km"),
        (polygon([[lon, 0] for lon in (0, 80, 160, -120, -40, 0)]), "$.coordinates[0]", "two halves"),
        (polygon(many_sided(POLYGON_VERTICES_MAX + 1)), "$.coordinates", "at most 1000 vertices"),
        (polygon(SQUARE, many_sided(POLYGON_VERTICES_MAX)), "$.coordinates", "this has 1004"),
        (polygon(SQUARE, [[0, 0], [1, 0], [0.5, 0.5], [0, 0]]), "$.coordinates", "share an edge"),
        (polygon(SQUARE, [[0.5, 0.5], [2, 0.5], [0.5, 0.7], [0.5, 0.5]]), "$.coordinates", "two rings cross"),
        (polygon(SQUARE, [[2, 2], [3, 2], [3, 3], [2, 2]]), "$.coordinates", "inside the first ring"),
        (polygon(SQUARE, [[-1, -1], [2, -1], [2, 2], [-1, 2], [-1, -1]]), "$.coordinates", "inside the first ring"),
        (polygon(SQUARE, [[0.2, 0.2], [0.3, 0.2], [0.3, 0.3]]), "$.coordinates[1]", "at least four"),
    ],
)
def test_refusal(given: object, path: str, words: str) -> None:
    with pytest.raises(ZoneError) as error:
        check_zone(given)
    assert error.value.path == path
    assert words in error.value.message


def test_a_hole_in_a_hole_is_refused() -> None:
    outer = [[0.2, 0.2], [0.8, 0.2], [0.8, 0.8], [0.2, 0.8], [0.2, 0.2]]
    inner = [[0.4, 0.4], [0.6, 0.4], [0.6, 0.6], [0.4, 0.4]]
    with pytest.raises(ZoneError, match="outside the other holes"):
        check_zone(polygon(SQUARE, outer, inner))


def test_an_error_survives_pickling() -> None:
    error = ZoneError("wrong", "$.lat")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.path) == ("wrong (at $.lat)", "$.lat")


# Canonical zones


def test_the_greatest_allowed_zones_are_accepted() -> None:
    assert check_zone(circle(0, 0, RADIUS_M_MAX))["radius_m"] == RADIUS_M_MAX
    assert check_zone(WORLD) == WORLD
    assert len(check_zone(polygon(many_sided(POLYGON_VERTICES_MAX)))["coordinates"][0]) == POLYGON_VERTICES_MAX + 1


@pytest.mark.parametrize(
    "smallest", [box(89.9999999, 0, 90, 1), box(-90, 0, -89.9999999, 1), box(45, 179.9999999, 46, -180)]
)
def test_the_smallest_allowed_boxes_are_accepted_however_they_are_rounded(smallest: dict[str, Any]) -> None:
    assert meet(smallest, smallest)


def test_numbers_become_floats_without_negative_zero() -> None:
    zone = check_zone(circle(0, -0.0, 5))
    assert repr(zone) == "{'type': 'circle', 'lat': 0.0, 'lon': 0.0, 'radius_m': 5.0}"


def test_rings_get_the_direction_of_geojson() -> None:
    hole = [[0.2, 0.2], [0.4, 0.2], [0.4, 0.4], [0.2, 0.2]]
    expected = check_zone(polygon(SQUARE, hole[::-1]))
    assert expected["coordinates"] == [SQUARE, hole[::-1]]
    for shell, inside in ((SQUARE, hole), (SQUARE[::-1], hole), (SQUARE[::-1], hole[::-1])):
        assert check_zone(polygon(shell, inside)) == expected


def test_the_bounding_box_and_heights_of_geojson_are_dropped() -> None:
    ring = [[*position, 12.5] for position in SQUARE]
    assert check_zone({**polygon(ring), "bbox": [0, 0, 1, 1]}) == check_zone(polygon(SQUARE))


def test_what_was_given_is_not_changed() -> None:
    given = polygon(SQUARE[::-1])
    check_zone(given)
    assert given == polygon(SQUARE[::-1])


# Geographies


def test_geographies_are_what_they_are_called() -> None:
    assert str(geography(check_zone(point(2, 1)))) == "POINT (1 2)"
    assert str(geography(check_zone(circle(2, 1, 5)))) == "POINT (1 2)"
    assert str(geography(check_zone(polygon(SQUARE)))) == "POLYGON ((0 0, 1 0, 1 1, 0 1, 0 0))"


@pytest.mark.parametrize("latitude", [-89.99, -45, -0.5, 0.001, 30, 45, 60, 85, 89.99])
@pytest.mark.parametrize("width", [0.001, 3, 150, 359])
def test_the_polygons_of_a_box_follow_its_parallels(latitude: float, width: float) -> None:
    zone = check_zone(box(latitude, -180, latitude + 0.005, -180 + width))
    shape = geography(zone)
    beside_deg = 1.01 * BOX_DEVIATION_M_MAX / DEGREE_M
    longitudes = np.linspace(-180, -180 + width, 997)[1:-1]
    for edge, outwards in ((zone["south"], -1), (zone["north"], 1)):
        outside = spherely.points(longitudes, np.full(longitudes.shape, edge + outwards * beside_deg))
        inside = spherely.points(longitudes, np.full(longitudes.shape, edge - outwards * beside_deg))
        assert (spherely.distance(shape, outside) > 0).all()
        assert (spherely.distance(shape, inside) <= 1e-6).all()


@pytest.mark.parametrize("north", [90, math.nextafter(90, 0), 90 - 1e-10, 45, 0, -89.9999998])
@pytest.mark.parametrize("west", [-180, -90, 0, 90, 179.99999995, 33.3])
def test_the_smallest_boxes_have_polygons(north: float, west: float) -> None:
    east = west + 1.1e-7
    zone = check_zone(box(north - 1.1e-7, west, north, east - 360 if east > 180 else east))
    assert spherely.distance(geography(zone), spherely.create_point(west, north)) < 1e-6


@pytest.mark.parametrize(
    ("zone", "share"),
    [
        (WORLD, 1),
        (box(0, -180, 90, 180), 1 / 2),
        (box(-90, -180, 0, 180), 1 / 2),
        (box(-90, 0, 90, 90), 1 / 4),
        (box(-90, 90, 90, 0), 3 / 4),
        (box(30, 170, 90, -170), 20 / 360 / 4),
    ],
)
def test_the_polygons_of_a_box_have_its_area(zone: dict[str, Any], share: float) -> None:
    assert spherely.area(geography(check_zone(zone)), radius=1) == pytest.approx(4 * math.pi * share, rel=1e-6)


# Special places


@pytest.mark.parametrize("lon", [-180, -77.5, 0, 180])
def test_all_longitudes_of_a_pole_are_one_place(lon: float) -> None:
    pole = point(90, lon)
    assert meet(pole, point(90, 12))
    assert meet(pole, box(89, 50, 90, 51))
    assert meet(pole, circle(89, 120, DEGREE_M))
    assert meet(pole, polygon([[0, 80], [120, 80], [-120, 80], [0, 80]]))
    assert meet(box(89, lon if lon < 180 else -180, 90, 7), box(-90, 50, 90, 51))
    assert not meet(pole, box(89, 50, 89.999, 51))
    assert not meet(pole, point(-90, lon))


@pytest.mark.parametrize("lon", [-180, 180])
def test_both_names_of_the_antimeridian_are_one_place(lon: float) -> None:
    place = point(10, lon)
    for other in (
        point(10, -lon),
        circle(10, -lon, 0),
        box(0, 170, 20, 180),
        box(0, 170, 20, -180),
        box(0, -180, 20, -170),
        box(0, 180, 20, -170),
        box(0, 170, 20, -170),
        polygon([[170, 0], [180, 0], [180, 20], [170, 20], [170, 0]]),
        polygon([[-170, 0], [-170, 20], [-180, 20], [-180, 0], [-170, 0]]),
    ):
        assert meet(place, other), other
    assert meet(box(0, 170, 20, 180), box(10, -180, 30, -170))
    assert not meet(place, box(0, -170, 20, 170))


def test_a_circle_reaches_a_wide_box_over_the_pole() -> None:
    high = box(80, 0, 85, 10)
    assert meet(high, circle(88, -175, 7.01 * DEGREE_M))
    assert not meet(high, circle(88, -175, 6.9 * DEGREE_M))


def test_a_polygon_may_hold_both_poles() -> None:
    # A band along the meridian of 90° west, over both poles and ten degrees down on the other side.
    east = [[-80, -60], [-80, 0], [-80, 60]]
    west = [[-100, 60], [-100, 0], [-100, -60]]
    ring = [*east, [90, 80], *west, [90, -80]]
    zone = check_zone(polygon([*ring, ring[0]]))
    assert intersects(zone, check_zone(point(90, 0)))
    assert intersects(zone, check_zone(point(-90, 0)))
    assert not intersects(zone, check_zone(point(0, 90)))
    assert bounds(zone) == [(-90.0, -180.0, 90.0, 180.0)]


def test_everything_meets_the_world() -> None:
    for zone in (point(90, 0), point(0, 180), circle(5, 5, 1), box(1, 170, 2, -170), polygon(SQUARE), WORLD):
        assert meet(zone, WORLD)


# Bounds


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        (point(40.4, -3.7), [(40.4, -3.7, 40.4, -3.7)]),
        (point(1, 180), [(1, -180, 1, -180), (1, 180, 1, 180)]),
        (point(-90, 7), [(-90, -180, -90, 180)]),
        (box(1, 2, 3, 4), [(1, 2, 3, 4)]),
        (box(1, 170.1, 3, -170.1), [(1, 170.1, 3, 180), (1, -180, 3, -170.1)]),
        (box(1, 170, 3, 180), [(1, 170, 3, 180), (1, -180, 3, -180)]),
        (box(1, -180, 3, 5), [(1, -180, 3, 5), (1, 180, 3, 180)]),
        (box(80, 2, 90, 4), [(80, 2, 90, 4), (90, -180, 90, 180)]),
        (WORLD, [(-90, -180, 90, 180)]),
    ],
)
def test_bounds_of_points_and_boxes_are_exact(zone: dict[str, Any], expected: list[tuple[float, ...]]) -> None:
    assert bounds(check_zone(zone)) == expected


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        (circle(0, 0, DEGREE_M), [(-1, -1, 1, 1)]),
        (circle(60, 0, DEGREE_M), [(59, -2.0003, 61, 2.0003)]),
        (circle(0, 180, DEGREE_M), [(-1, 179, 1, 180), (-1, -180, 1, -179)]),
        (circle(89.5, 0, DEGREE_M), [(88.5, -180, 90, 180)]),
        (circle(-89.5, 0, DEGREE_M), [(-90, -180, -88.5, 180)]),
        (polygon(SQUARE), [(0, 0, 1.00004, 1)]),
        (polygon([[0, 40], [60, 40], [60, 50], [0, 50], [0, 40]]), [(40, 0, 53.99479, 60)]),
        (polygon([[175, 0], [-175, 0], [-175, 9], [175, 0]]), [(0, 175, 9, 180), (0, -180, 9, -175)]),
        (polygon([[0, 80], [120, 80], [-120, 80], [0, 80]]), [(80, -180, 90, 180)]),
    ],
)
def test_bounds_of_circles_and_polygons_are_close(zone: dict[str, Any], expected: list[tuple[float, ...]]) -> None:
    given = bounds(check_zone(zone))
    assert len(given) == len(expected)
    for one, other in zip(given, expected, strict=True):
        assert one == pytest.approx(other, abs=0.0001)


# Pairs


def test_no_pairs() -> None:
    assert intersect_pairs([], []).tolist() == []


def test_pairs_must_be_complete() -> None:
    prepared = prepare(check_zone(point(0, 0)))
    with pytest.raises(ValueError, match="not 1 and 2"):
        intersect_pairs([prepared], [prepared, prepared])


def test_pairs_may_be_object_arrays() -> None:
    zones = np.array([prepare(check_zone(zone)) for zone in (point(0, 0), polygon(SQUARE), box(1, 1, 2, 2))])
    first, second = np.triu_indices(3)
    found = intersect_pairs(zones[first], zones[second])
    assert found.dtype == np.bool_
    assert found.tolist() == [True, True, False, True, True, True]


def test_a_polygon_may_reach_farther_than_its_vertices() -> None:
    # Most vertices stand far in the north. The edge in the south bends beyond its ends, away from them.
    north = [150, 148, 146, 144, 142, 140, 100, 50, 0, -50, -100, -140, -142, -144, -146, -148, -150]
    south = [-150, -110, -37, 37, 110, 150]
    ring = [[lon, -10] for lon in south] + [[lon, 60] for lon in north]
    zone, place = check_zone(polygon([*ring, ring[0]])), check_zone(point(-12.4, 0))
    assert intersects(zone, place)
    assert intersect_pairs([prepare(zone)], [prepare(place)]).tolist() == [True]
