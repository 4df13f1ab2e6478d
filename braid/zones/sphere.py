"""The earth as a sphere: its radius, the tolerance of touching, and unit vectors.

Unit vectors are used only for bounds and limits. Whether two zones meet is asked of spherely.
"""

import math

import numpy as np
import spherely
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The mean radius of the earth that S2 uses (after NASA): 6,371,010 m.
EARTH_RADIUS_M: float = spherely.EARTH_RADIUS_METERS


# Coordinates are rounded, so that a point on an edge lies some nanometres beside it. Zones that come this close touch.
TOLERANCE_M = 0.001


def unit_vectors(longitudes: Floats, latitudes: Floats) -> Floats:
    """One row `(x, y, z)` for each pair of degrees."""
    lon, lat = np.radians(longitudes), np.radians(latitudes)
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)


def squared_chords(angles_rad: Floats) -> Floats:
    """The squared straight distance between two unit vectors at each angle; angles are cut to 0 and half a turn."""
    halves: Floats = np.sin(np.clip(angles_rad, 0, math.pi) / 2)
    return 4 * halves * halves


def longitude_reach_deg(latitude: float, angle_rad: float) -> float:
    """How far east and west a circle of this angle reaches; everywhere (180) where it reaches a pole."""
    if abs(math.radians(latitude)) + angle_rad >= math.pi / 2:
        return 180.0
    return math.degrees(math.asin(min(1.0, math.sin(angle_rad) / math.cos(math.radians(latitude)))))
