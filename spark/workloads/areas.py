"""A part of the earth between two parallels and two meridians, and how large it is."""

import math
from typing import NamedTuple

from braid.zones import EARTH_RADIUS_M

__all__ = ["EARTH_RADIUS_M", "Area"]


class Area(NamedTuple):
    """In degrees. It does not cross the antimeridian and is far from the poles."""

    south: float
    west: float
    north: float
    east: float

    def size_m2(self) -> float:
        height = math.sin(math.radians(self.north)) - math.sin(math.radians(self.south))
        return EARTH_RADIUS_M**2 * math.radians(self.east - self.west) * height

    def grown(self, margin_m: float) -> "Area":
        """By so much to each side; measured in longitude where a degree is shortest."""
        lat = math.degrees(margin_m / EARTH_RADIUS_M)
        widest = max(abs(self.south - lat), abs(self.north + lat))
        lon = lat / math.cos(math.radians(widest))
        return Area(self.south - lat, self.west - lon, self.north + lat, self.east + lon)
