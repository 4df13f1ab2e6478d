"""Reads numbers and `[longitude, latitude]` positions."""

from braid.zones.errors import ZoneError


def check_number(value: object, low: float, high: float, path: str) -> float:
    # A boolean is an int for Python, but not for a reader of coordinates.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ZoneError(f"expected a number, not {value!r:.40}", path)
    if not low <= value <= high:  # also refuses what is not a number
        raise ZoneError(f"expected a number from {low} to {high}, not {value!r:.40}", path)
    return float(value) + 0.0  # no negative zero


def check_position(given: object, path: str) -> tuple[float, float]:
    """Longitude and latitude; a height is dropped."""
    if not isinstance(given, list | tuple) or len(given) not in (2, 3):
        raise ZoneError(f"expected [longitude, latitude], not {given!r:.40}", path)
    longitude = check_number(given[0], -180, 180, f"{path}[0]")
    latitude = check_number(given[1], -90, 90, f"{path}[1]")
    return one_longitude(latitude, longitude), latitude


def one_longitude(latitude: float, longitude: float) -> float:
    """Of the longitudes that name the same place, the one that canonical zones use."""
    if abs(latitude) == 90:
        return 0.0
    return -180.0 if longitude == 180 else longitude
