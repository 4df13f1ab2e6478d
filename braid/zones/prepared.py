"""A canonical zone made ready for being compared many times.

Points and circles are a centre and a radius, and cost about two microseconds. What is expensive (the geographies of
spherely and their indexes) is made when it is first needed.
"""

import itertools
import math
import struct
from typing import Any

import numpy as np
import spherely

from braid.zones.polygons import polygon_of
from braid.zones.sphere import EARTH_RADIUS_M, unit_vectors

# The north and south edges of a box are parallels. Against polygons each is replaced with shortest lines that
# leave the parallel by at most this.
BOX_DEVIATION_M_MAX = 1.0
_PIECE_DEGREES_MAX = 10.0  # the longest of these lines
_PART_DEGREES_MAX = 120.0  # wider boxes are put together from parts that are smaller than a hemisphere

POINT, BOX, CIRCLE, POLYGON = range(4)

# What is compared in bulk, for each zone. `x, y, z, reach_rad` is a cap around the zone. `south` to `east` are the
# coordinates of a box; for points and circles they are those of the centre.
ROW = np.dtype(
    [("kind", "i8")]
    + [(name, "f8") for name in ("x", "y", "z", "reach_rad", "radius_m", "south", "west", "north", "east")]
)
ROW_BYTES = ROW.itemsize
_LAYOUT = struct.Struct("=q9d")
_pack, _unpack = _LAYOUT.pack, _LAYOUT.unpack


class PreparedZone:
    """Made by `prepare`. `row` holds the bytes of one `ROW`."""

    __slots__ = ("_geography", "_sides", "row", "zone")

    def __init__(self, zone: dict[str, Any], row: bytes) -> None:
        self.zone = zone
        self.row = row
        self._geography: spherely.Geography | None = None
        self._sides: spherely.Geography | None = None

    @property
    def geography(self) -> spherely.Geography:
        """Of a circle, its centre; of a box, polygons that follow its parallels."""
        if self._geography is None:
            self._geography = geography(self.zone)
            spherely.prepare(self._geography)
        return self._geography

    @property
    def sides(self) -> spherely.Geography:
        """The west and east edges of a box. They are meridians, so these lines are exact."""
        if self._sides is None:
            south, north = self.zone["south"], self.zone["north"]
            latitudes = (south, (south + north) / 2, north)
            self._sides = spherely.create_multilinestring(
                [[(self.zone[side], latitude) for latitude in latitudes] for side in ("west", "east")]
            )
            spherely.prepare(self._sides)
        return self._sides


def prepare(zone: dict[str, Any]) -> PreparedZone:
    """Takes a canonical zone, as `check_zone` returns it."""
    return PreparedZone(zone, row_of(zone))


def row_of(zone: dict[str, Any]) -> bytes:
    match zone["type"]:
        case "point":
            return _disc_row(POINT, zone["lat"], zone["lon"], 0.0)
        case "circle":
            return _disc_row(CIRCLE, zone["lat"], zone["lon"], zone["radius_m"])
        case "box":
            return _box_row(zone)
        case _:
            return _polygon_row(zone)


def zone_of(row: bytes) -> dict[str, Any]:
    """What a row was made of, unless it was a polygon: of that it has no vertices."""
    kind, _, _, _, _, radius_m, south, west, north, east = _unpack(row)
    if kind == POINT:
        return {"type": "point", "lat": south, "lon": west}
    if kind == CIRCLE:
        return {"type": "circle", "lat": south, "lon": west, "radius_m": radius_m}
    if kind == BOX:
        return {"type": "box", "south": south, "west": west, "north": north, "east": east}
    raise ValueError("the row of a polygon does not hold it")


def geography(zone: dict[str, Any]) -> spherely.Geography:
    """What spherely compares: of a circle, its centre; of a box, polygons that follow its parallels."""
    match zone["type"]:
        case "point" | "circle":
            return spherely.create_point(zone["lon"], zone["lat"])
        case "box":
            return _box_geography(zone)
        case _:
            return polygon_of(zone["coordinates"])


def box_width_deg(zone: dict[str, Any]) -> float:
    width: float = zone["east"] - zone["west"]
    return width if width > 0 else width + 360


def _disc_row(kind: int, latitude: float, longitude: float, radius_m: float) -> bytes:
    lat, lon = math.radians(latitude), math.radians(longitude)
    across = math.cos(lat)
    x, y, z = across * math.cos(lon), across * math.sin(lon), math.sin(lat)
    return _pack(kind, x, y, z, radius_m / EARTH_RADIUS_M, radius_m, latitude, longitude, latitude, longitude)


def _box_row(zone: dict[str, Any]) -> bytes:
    south, west, north, east = zone["south"], zone["west"], zone["north"], zone["east"]
    width = box_width_deg(zone)
    lat, lon = math.radians((south + north) / 2), math.radians(west + width / 2)
    across = math.cos(lat)
    # From the centre, every place of the box is reached along a meridian and then along its parallel.
    parallel = 0.0 if south <= 0 <= north else min(abs(south), abs(north))
    reach_rad = math.radians((north - south) / 2 + math.cos(math.radians(parallel)) * width / 2)
    x, y, z = across * math.cos(lon), across * math.sin(lon), math.sin(lat)
    return _pack(BOX, x, y, z, min(reach_rad, math.pi), 0.0, south, west, north, east)


def _polygon_row(zone: dict[str, Any]) -> bytes:
    degrees = np.array(zone["coordinates"][0][:-1])
    vertices = unit_vectors(degrees[:, 0], degrees[:, 1])
    centre = vertices.sum(axis=0)
    length = float(np.linalg.norm(centre))
    centre = centre / length if length > 0 else vertices[0]
    chord = min(4.0, float(((vertices - centre) ** 2).sum(axis=1).max()))
    # A cap that is less than a hemisphere and holds the vertices holds the edges and the inside too. A larger one may
    # not, so it is taken to be the whole earth.
    reach_rad = 2 * math.asin(math.sqrt(chord) / 2)
    if reach_rad >= math.pi / 2:
        reach_rad = math.pi
    return _pack(POLYGON, *centre, reach_rad, 0.0, 0.0, 0.0, 0.0, 0.0)


def _box_geography(zone: dict[str, Any]) -> spherely.Geography:
    width = box_width_deg(zone)
    parts = math.ceil(width / _PART_DEGREES_MAX)
    wests = [zone["west"] + width * part / parts for part in range(parts + 1)]
    polygons = [
        spherely.create_polygon(_box_ring(zone["south"], west, zone["north"], east), oriented=True)
        for west, east in itertools.pairwise(wests)
    ]
    return polygons[0] if parts == 1 else spherely.create_collection(polygons)


def _box_ring(south: float, west: float, north: float, east: float) -> list[tuple[float, float]]:
    """Counter-clockwise, not closed."""
    # The ends of a side may be opposite places of the earth; the shortest line between them needs a third.
    middle = (south + north) / 2
    return [*_parallel(south, west, east), (east, middle), *_parallel(north, west, east)[::-1], (west, middle)]


def _parallel(latitude: float, west: float, east: float) -> list[tuple[float, float]]:
    if abs(latitude) == 90:
        return [(0.0, latitude)]
    # The shortest line between two places of a parallel at an angle `step` is nearest to the pole half-way, where
    # tan(latitude there) = tan(latitude) / cos(step / 2).
    lat = math.radians(abs(latitude))
    highest = lat + BOX_DEVIATION_M_MAX / EARTH_RADIUS_M
    step = _PIECE_DEGREES_MAX
    if highest < math.pi / 2:
        step = min(step, math.degrees(2 * math.acos(math.tan(lat) / math.tan(highest))))
    longitudes = np.linspace(west, east, math.ceil((east - west) / step) + 1)
    return [(longitude, latitude) for longitude in longitudes.tolist()]
