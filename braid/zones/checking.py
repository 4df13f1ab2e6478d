"""Reads a zone as a client writes it; returns the canonical zone, which is the one that is stored and carried.

Canonical zones hold floats only. A longitude of 180 becomes -180, and a pole has the longitude 0, so that one place
is written in one way. The east of a box is the exception: there -180 becomes 180.
"""

from collections.abc import Set
from typing import Any

from braid.zones.errors import ZoneError
from braid.zones.polygons import check_rings
from braid.zones.positions import check_number, check_position, one_longitude

ZONE_TYPES = ("point", "circle", "box", "Point", "Polygon")
# A little less than a quarter of the circumference: the sum of two radii stays clear of the antipode.
RADIUS_M_MAX = 10_000_000
# About a centimetre; thinner boxes are lost in rounding.
BOX_SIDE_DEGREES_MIN = 1e-7
_SIDE_DEGREES_MIN = BOX_SIDE_DEGREES_MIN * (1 - 1e-5)  # what is written as 0.0000001 may be less when it is computed

_POINT = frozenset({"type", "lat", "lon"})
_CIRCLE = frozenset({"type", "lat", "lon", "radius_m"})
_BOX = frozenset({"type", "south", "west", "north", "east"})
_GEOJSON = frozenset({"type", "coordinates"})


def check_zone(given: object) -> dict[str, Any]:
    """The canonical zone. Raises the `ZoneError` that names the first part that cannot be used."""
    if not isinstance(given, dict):
        raise ZoneError(
            f"expected an object, for example {{'type': 'point', 'lat': 40.4, 'lon': -3.7}}, not {given!r:.40}"
        )
    match given.get("type"):
        case "point":
            _check_members(given, _POINT)
            lat, lon = _place(given)
            return {"type": "point", "lat": lat, "lon": lon}
        case "circle":
            _check_members(given, _CIRCLE)
            lat, lon = _place(given)
            radius_m = check_number(given["radius_m"], 0, RADIUS_M_MAX, "$.radius_m")
            return {"type": "circle", "lat": lat, "lon": lon, "radius_m": radius_m}
        case "box":
            _check_members(given, _BOX)
            return _box(given)
        case "Point":
            _check_members(given, _GEOJSON, optional=frozenset({"bbox"}))
            lon, lat = check_position(given["coordinates"], "$.coordinates")
            return {"type": "point", "lat": lat, "lon": lon}
        case "Polygon":
            _check_members(given, _GEOJSON, optional=frozenset({"bbox"}))
            return {"type": "Polygon", "coordinates": check_rings(given["coordinates"])}
        case other:
            known = ", ".join(f"'{name}'" for name in ZONE_TYPES)
            raise ZoneError(f"expected one of {known}, not {other!r:.40}", "$.type")


def _check_members(given: dict[str, Any], names: Set[str], optional: Set[str] = frozenset()) -> None:
    members = given.keys()
    if members == names:
        return
    if missing := sorted(names - members):
        raise ZoneError(f"'{missing[0]}' is missing", "$")
    if unknown := sorted(map(str, members - names - optional)):
        expected = ", ".join(f"'{name}'" for name in sorted(names))
        raise ZoneError(f"unknown member {unknown[0]!r:.40}; expected {expected}", "$")


def _place(given: dict[str, Any]) -> tuple[float, float]:
    lat = check_number(given["lat"], -90, 90, "$.lat")
    lon = check_number(given["lon"], -180, 180, "$.lon")
    return lat, one_longitude(lat, lon)


def _box(given: dict[str, Any]) -> dict[str, Any]:
    south, north = (check_number(given[name], -90, 90, f"$.{name}") for name in ("south", "north"))
    west, east = (check_number(given[name], -180, 180, f"$.{name}") for name in ("west", "east"))
    if north - south < _SIDE_DEGREES_MIN:
        raise ZoneError(f"north must be greater than south by at least {BOX_SIDE_DEGREES_MIN} degrees", "$.north")
    all_around = west == -180 and east == 180
    if not all_around and (east - west) % 360 < _SIDE_DEGREES_MIN:
        raise ZoneError(
            f"east must differ from west by at least {BOX_SIDE_DEGREES_MIN} degrees; "
            "to go all around, write west -180 and east 180",
            "$.east",
        )
    return {
        "type": "box",
        "south": south,
        "west": -180.0 if west == 180 else west,
        "north": north,
        "east": 180.0 if east == -180 else east,
    }
