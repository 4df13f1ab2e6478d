"""Boxes that surely enclose a zone, for finding candidates.

Zones that intersect have boxes that overlap. For that, what touches the antimeridian is given on both sides of it,
and what touches a pole is given at all longitudes.
"""

import math
from typing import Any

import numpy as np
import spherely

from braid.zones.polygons import Ring, polygon_of
from braid.zones.sphere import EARTH_RADIUS_M, longitude_reach_deg, unit_vectors

# Added around circles and polygons. Covers the tolerance, rounding, and the deviation of the boxes they may meet.
# Points and boxes are exact.
BOUNDS_MARGIN_M = 2.0

_MARGIN_RAD = BOUNDS_MARGIN_M / EARTH_RADIUS_M

Bounds = list[tuple[float, float, float, float]]


def bounds(zone: dict[str, Any]) -> Bounds:
    """South, west, north and east of each box; none crosses the antimeridian."""
    match zone["type"]:
        case "point":
            latitude, longitude = zone["lat"], zone["lon"]
            return _pieces(latitude, longitude, latitude, longitude)
        case "circle":
            return _around(zone["lat"], zone["lat"], zone["lon"], zone["lon"], zone["radius_m"] / EARTH_RADIUS_M)
        case "box":
            return _pieces(zone["south"], zone["west"], zone["north"], zone["east"])
        case _:
            return _polygon_bounds(zone["coordinates"])


def _pieces(south: float, west: float, north: float, east: float) -> Bounds:
    """The box, given on both sides of the antimeridian, and at all longitudes of a pole that it touches."""
    if -180 < west <= east < 180 and south > -90 and north < 90:
        return [(south, west, north, east)]
    if west == -180 and east == 180:
        return [(south, west, north, east)]
    pieces = [(south, west, north, east)]
    if west > east:
        pieces = [(south, west, north, 180.0), (south, -180.0, north, east)]
    elif west == -180:
        pieces.append((south, 180.0, north, 180.0))
    elif east == 180:
        pieces.append((south, -180.0, north, -180.0))
    poles = [pole for pole, touched in ((-90.0, south == -90), (90.0, north == 90)) if touched]
    if south == north and poles:
        pieces = []
    return pieces + [(pole, -180.0, pole, 180.0) for pole in poles]


def _around(south: float, north: float, west: float, east: float, reach_rad: float) -> Bounds:
    """West and east may lie beyond the antimeridian."""
    reach_rad += _MARGIN_RAD
    low, high = south - math.degrees(reach_rad), north + math.degrees(reach_rad)
    farther = longitude_reach_deg(max(abs(south), abs(north)), reach_rad)  # the nearer to a pole, the farther
    west, east = west - farther, east + farther
    low, high = max(low, -90.0), min(high, 90.0)
    if low == -90 or high == 90 or east - west >= 360:
        return [(low, -180.0, high, 180.0)]
    return _pieces(low, _wrapped(west), high, _wrapped(east))


def _wrapped(longitude: float) -> float:
    return (longitude + 180) % 360 - 180


def _polygon_bounds(rings: list[Ring]) -> Bounds:
    degrees = np.array(rings[0])
    south, north = _latitudes(degrees)
    polygon = polygon_of(rings[:1])
    if spherely.covers(polygon, spherely.create_point(0, 90)):
        north = 90.0
    if spherely.covers(polygon, spherely.create_point(0, -90)):
        south = -90.0
    # Each edge turns the shorter way; a ring that encloses no pole comes back to where it started.
    turns = (np.diff(degrees[:, 0]) + 180) % 360 - 180
    longitudes = degrees[0, 0] + np.concatenate([[0.0], np.cumsum(turns)])
    return _around(south, north, float(longitudes.min()), float(longitudes.max()), 0.0)


def _latitudes(degrees: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float]:
    """The extreme latitudes of the edges, which may bend beyond their ends."""
    vectors = unit_vectors(degrees[:, 0], degrees[:, 1])
    starts, ends = vectors[:-1], vectors[1:]
    normals = np.cross(starts, ends)
    extremes = np.degrees(np.arctan2(np.hypot(normals[:, 0], normals[:, 1]), np.abs(normals[:, 2])))
    # Whether an edge runs northwards where it starts and where it ends.
    northwards = np.cross(normals, starts)[:, 2], np.cross(normals, ends)[:, 2]
    peaks = extremes[(northwards[0] > 0) & (northwards[1] < 0)]
    troughs = -extremes[(northwards[0] < 0) & (northwards[1] > 0)]
    latitudes = degrees[:, 1]
    return float(min(latitudes.min(), troughs.min(initial=90))), float(max(latitudes.max(), peaks.max(initial=-90)))
