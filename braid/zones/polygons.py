"""Reads the rings of a GeoJSON polygon.

Edges are the shortest lines on the sphere. A ring encloses the smaller of the two parts into which it divides the
earth, so its direction says nothing; the canonical one is that of GeoJSON: the outer ring runs counter-clockwise
and holes run clockwise.
"""

import math

import numpy as np
import spherely

from braid.zones.errors import ZoneError
from braid.zones.positions import check_position
from braid.zones.sphere import EARTH_RADIUS_M, unit_vectors

POLYGON_VERTICES_MAX = 1000  # of all rings together, without the closing ones
# The shortest line between two nearly opposite places is not determined.
POLYGON_EDGE_M_MAX = 10_000_000
# Of the surface of the earth; the smaller part must be recognisable.
POLYGON_SHARE_MAX = 0.499
# Smaller areas are lost in rounding.
POLYGON_AREA_M2_MIN = 1.0

_EARTH_M2 = 4 * math.pi * EARTH_RADIUS_M**2

Position = list[float]
Ring = list[Position]


def check_rings(given: object) -> list[Ring]:
    """The canonical coordinates of a polygon."""
    if not isinstance(given, list | tuple) or not given:
        raise ZoneError("expected an array of rings, the outer one first", "$.coordinates")
    vertices = sum(len(ring) - 1 for ring in given if isinstance(ring, list | tuple))
    if vertices > POLYGON_VERTICES_MAX:
        raise ZoneError(f"at most {POLYGON_VERTICES_MAX} vertices allowed, this has {vertices}", "$.coordinates")
    rings, areas_m2 = [], []
    for index, ring in enumerate(given):
        path = f"$.coordinates[{index}]"
        positions = _positions(ring, path)
        _check_edges(positions, path)
        area_m2, counter_clockwise = _area(positions, path)
        rings.append(positions if counter_clockwise is (index == 0) else positions[::-1])
        areas_m2.append(area_m2)
    if len(rings) > 1:
        _check_holes(rings, areas_m2)
    return rings


def polygon_of(rings: list[Ring]) -> spherely.Geography:
    return spherely.create_polygon(rings[0], rings[1:] or None)


def _positions(ring: object, path: str) -> Ring:
    if not isinstance(ring, list | tuple) or len(ring) < 4:
        raise ZoneError("expected a ring of at least four positions, of which the last repeats the first", path)
    positions = [list(check_position(position, f"{path}[{index}]")) for index, position in enumerate(ring)]
    if positions[0] != positions[-1]:
        raise ZoneError("the ring is not closed; repeat its first position at the end", path)
    return positions


def _check_edges(positions: Ring, path: str) -> None:
    degrees = np.array(positions)
    repeated = np.flatnonzero((degrees[1:] == degrees[:-1]).all(axis=1))
    if repeated.size:
        raise ZoneError(
            "the position is the same place as the one before it; leave one out", f"{path}[{repeated[0] + 1}]"
        )
    vectors = unit_vectors(degrees[:, 0], degrees[:, 1])
    cosines = (vectors[1:] * vectors[:-1]).sum(axis=1)
    too_long = np.flatnonzero(cosines < math.cos(POLYGON_EDGE_M_MAX / EARTH_RADIUS_M))
    if too_long.size:
        raise ZoneError(
            f"the edge to this position is longer than {POLYGON_EDGE_M_MAX // 1000} km; add positions on the way",
            f"{path}[{too_long[0] + 1}]",
        )


def _area(positions: Ring, path: str) -> tuple[float, bool]:
    """The area of the smaller side in square metres, and whether the ring runs counter-clockwise around it."""
    try:
        left = spherely.area(spherely.create_polygon(positions, oriented=True))
    except ValueError as error:
        raise ZoneError(f"the ring crosses or touches itself ({_reason(error)})", path) from error
    counter_clockwise = left <= _EARTH_M2 / 2
    area_m2 = left if counter_clockwise else _EARTH_M2 - left
    if area_m2 > POLYGON_SHARE_MAX * _EARTH_M2:
        raise ZoneError("the ring divides the earth into two halves; it must be clear which one is meant", path)
    if area_m2 < POLYGON_AREA_M2_MIN:
        raise ZoneError(
            f"the ring encloses less than {POLYGON_AREA_M2_MIN} m²; write a point or a circle instead", path
        )
    return area_m2, counter_clockwise


def _check_holes(rings: list[Ring], areas_m2: list[float]) -> None:
    try:
        polygon = polygon_of(rings)
    except ValueError as error:
        raise ZoneError(f"two rings cross or share an edge ({_reason(error)})", "$.coordinates") from error
    # A hole that is not inside becomes a polygon of its own; one that is around the outer ring trades places with it.
    within = spherely.get_type_id(polygon) == spherely.GeographyType.POLYGON.value
    if not within or sum(areas_m2[1:]) >= areas_m2[0]:
        raise ZoneError("every hole must be inside the first ring and outside the other holes", "$.coordinates")


def _reason(error: ValueError) -> str:
    return str(error).removeprefix("polygon is not valid: ").lower()
