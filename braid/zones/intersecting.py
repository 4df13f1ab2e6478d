"""Whether two zones share at least one point; boundaries count.

Points and boxes are compared by their coordinates. Wherever a circle or a polygon takes part, the zones meet when the
distance between them, or between the centre of a circle and the other zone, is at most the radii and a tolerance.
In bulk, pairs that are clearly apart, or clearly together, are found by the caps around the zones; only the rest is
asked of spherely.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import spherely
from numpy.typing import NDArray

from braid.zones.prepared import (
    BOX,
    CIRCLE,
    POINT,
    POLYGON,
    ROW,
    ROW_BYTES,
    PreparedZone,
    prepare,
    row_of,
    zone_of,
)
from braid.zones.sphere import EARTH_RADIUS_M, TOLERANCE_M, squared_chords

# Far more than rounding and tolerance together, and than the deviation of boxes: caps decide only beyond it.
_CAP_MARGIN_RAD = 10 / EARTH_RADIUS_M
_DISC_MARGIN_RAD = 0.1 / EARTH_RADIUS_M  # between points and circles only rounding and tolerance count

Objects = NDArray[np.object_]
Booleans = NDArray[np.bool_]
Places = NDArray[np.int64]


class ZoneArray(NamedTuple):
    """Zones in the form in which many are compared at once."""

    zones: Objects
    rows: NDArray[np.void]

    @classmethod
    def of(cls, zones: Sequence[PreparedZone] | Objects) -> Self:
        objects = np.empty(len(zones), dtype=object)
        objects[:] = zones
        return cls(objects, np.frombuffer(b"".join([zone.row for zone in objects]), ROW))

    def take(self, indices: NDArray[np.intp]) -> Self:
        return self._replace(zones=self.zones[indices], rows=self.rows[indices])

    def geographies(self, part: str = "geography") -> Objects:
        objects = np.empty(len(self.zones), dtype=object)
        objects[:] = [getattr(zone, part) for zone in self.zones]
        return objects


class ZoneStore:
    """Zones by number, for many that come and go: their rows, in memory that is given; all else is made when needed."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self.rows = np.frombuffer(memory, ROW)
        self._prepared: dict[int, PreparedZone] = {}

    def put(self, number: int, zone: dict[str, Any]) -> None:
        row = row_of(zone)
        self._memory[number * ROW_BYTES : (number + 1) * ROW_BYTES] = row
        if zone["type"] == "Polygon":
            self._prepared[number] = PreparedZone(zone, row)

    def remove(self, number: int) -> None:
        self._prepared.pop(number, None)

    def take(self, numbers: NDArray[np.intp]) -> ZoneArray:
        zones = np.empty(len(numbers), dtype=object)
        zones[:] = [self._at(number) for number in numbers.tolist()]
        return ZoneArray(zones, self.rows[numbers])

    def _at(self, number: int) -> PreparedZone:
        prepared = self._prepared.get(number)
        if prepared is None:
            row = bytes(self._memory[number * ROW_BYTES : (number + 1) * ROW_BYTES])
            prepared = self._prepared[number] = PreparedZone(zone_of(row), row)
        return prepared


Zones = Sequence[PreparedZone] | Objects | ZoneArray | ZoneStore


def intersects(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """The meaning, for two canonical zones."""
    return bool(_meet(ZoneArray.of([prepare(a)]), ZoneArray.of([prepare(b)]))[0])


def intersect_pairs(a: Zones, b: Zones, a_places: Places | None = None, b_places: Places | None = None) -> Booleans:
    """Element by element, the same as `intersects`; with places, of the zones that stand there."""
    left, right = _as_array(a), _as_array(b)
    if a_places is None or b_places is None:
        a_places, b_places = np.arange(len(left.rows)), np.arange(len(right.rows))
    if len(a_places) != len(b_places):
        raise ValueError(f"expected as many zones on both sides, not {len(a_places)} and {len(b_places)}")
    one, other = left.rows[a_places], right.rows[b_places]
    x, y, z = (one[axis] - other[axis] for axis in ("x", "y", "z"))
    chords = x * x + y * y + z * z
    reach_rad = one["reach_rad"] + other["reach_rad"]
    # The caps of points and circles are themselves; those of other zones only enclose them.
    exact = _is_disc(one["kind"]) & _is_disc(other["kind"])
    margin_rad = np.where(exact, _DISC_MARGIN_RAD, _CAP_MARGIN_RAD)
    found: Booleans = exact & (chords < squared_chords(reach_rad - margin_rad))
    # No chord is longer than that between opposite points, but rounded it may be.
    may_reach = (chords <= squared_chords(reach_rad + margin_rad)) | (reach_rad + margin_rad >= math.pi)
    undecided = np.flatnonzero(~found & may_reach)
    if undecided.size:
        found[undecided] = _meet(left.take(a_places[undecided]), right.take(b_places[undecided]))
    return found


def _as_array(zones: Zones) -> ZoneArray | ZoneStore:
    return zones if isinstance(zones, ZoneArray | ZoneStore) else ZoneArray.of(zones)


def _is_disc(kinds: NDArray[np.int64]) -> Booleans:
    discs: Booleans = (kinds == POINT) | (kinds == CIRCLE)
    return discs


def _meet(a: ZoneArray, b: ZoneArray) -> Booleans:
    first, second = _lesser_first(a, b)
    lesser, greater = first.rows["kind"], second.rows["kind"]
    found = np.zeros(len(first.zones), dtype=np.bool_)
    remaining = ~found
    for chosen, meet in (
        (greater <= BOX, _coordinates_meet),
        ((lesser == BOX) & (greater == CIRCLE), _box_meets_circle),
        (_is_disc(lesser) & (greater == POLYGON), _disc_meets_polygon),
        (remaining, _distance_reaches),
    ):
        if chosen.all():
            return meet(first, second)
        indices = np.flatnonzero(chosen)
        if indices.size:
            found[indices] = meet(first.take(indices), second.take(indices))
            remaining[indices] = False
    return found


def _lesser_first(a: ZoneArray, b: ZoneArray) -> tuple[ZoneArray, ZoneArray]:
    """Exchanges the zones of the pairs whose first kind is the greater one, which leaves fewer combinations."""
    exchange = a.rows["kind"] > b.rows["kind"]
    if not exchange.any():
        return a, b
    if exchange.all():
        return b, a
    first, second = (ZoneArray(side.zones.copy(), side.rows.copy()) for side in (a, b))
    for of_first, of_second, of_a, of_b in zip(first, second, a, b, strict=True):
        of_first[exchange], of_second[exchange] = of_b[exchange], of_a[exchange]
    return first, second


def _coordinates_meet(a: ZoneArray, b: ZoneArray) -> Booleans:
    """Points and boxes. A point is a box without extent."""
    p, q = a.rows, b.rows
    latitudes: Booleans = (p["south"] <= q["north"]) & (q["south"] <= p["north"])
    longitudes = _holds(p, q["west"]) | _holds(q, p["west"])
    at_pole = ((p["north"] == 90) & (q["north"] == 90)) | ((p["south"] == -90) & (q["south"] == -90))
    found: Booleans = latitudes & (longitudes | at_pole)
    return found


def _holds(box: NDArray[np.void], longitude: NDArray[np.float64]) -> Booleans:
    from_west, to_east = longitude >= box["west"], longitude <= box["east"]
    crossing = box["west"] > box["east"]
    # A canonical longitude is never 180, but an eastern edge may be.
    at_edge = (longitude == -180) & (box["east"] == 180)
    held: Booleans = np.where(crossing, from_west | to_east, from_west & to_east) | at_edge
    return held


def _box_meets_circle(boxes: ZoneArray, circles: ZoneArray) -> Booleans:
    box, circle = boxes.rows, circles.rows
    latitude = circle["south"]
    away_deg = np.maximum(0, np.maximum(box["south"] - latitude, latitude - box["north"]))
    reach_m = circle["radius_m"] + TOLERANCE_M
    # No way is shorter than along the meridian. Where the centre's meridian misses the box, the nearest place of
    # every latitude, and so of the box, is on its west or east side.
    found: Booleans = away_deg * (math.pi / 180 * EARTH_RADIUS_M) <= reach_m
    beside = np.flatnonzero(found & ~_holds(box, circle["west"]))
    if beside.size:
        distances = spherely.distance(circles.take(beside).geographies(), boxes.take(beside).geographies("sides"))
        found[beside] = distances <= reach_m[beside]
    return found


def _disc_meets_polygon(discs: ZoneArray, polygons: ZoneArray) -> Booleans:
    # To be inside is decided much faster than a distance.
    found: Booleans = spherely.covers(polygons.geographies(), discs.geographies())
    outside = np.flatnonzero(~found)
    if outside.size:
        found[outside] = _distance_reaches(discs.take(outside), polygons.take(outside))
    return found


def _distance_reaches(a: ZoneArray, b: ZoneArray) -> Booleans:
    reach_m = a.rows["radius_m"] + b.rows["radius_m"] + TOLERANCE_M
    found: Booleans = spherely.distance(a.geographies(), b.geographies()) <= reach_m
    return found
