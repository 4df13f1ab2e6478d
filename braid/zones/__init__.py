"""Zones on the earth: reading them, and whether two of them share a point.

The meaning is defined in `docs/zones.md`. This package is pure: it knows nothing of subscriptions,
publications or the broker. Geometry on the sphere is that of S2, through spherely.
"""

from braid.zones.bounding import bounds
from braid.zones.checking import BOX_SIDE_DEGREES_MIN, RADIUS_M_MAX, ZONE_TYPES, check_zone
from braid.zones.errors import ZoneError
from braid.zones.intersecting import ZoneArray, ZoneStore, intersect_pairs, intersects
from braid.zones.polygons import POLYGON_AREA_M2_MIN, POLYGON_EDGE_M_MAX, POLYGON_SHARE_MAX, POLYGON_VERTICES_MAX
from braid.zones.prepared import BOX_DEVIATION_M_MAX, PreparedZone, geography, prepare
from braid.zones.sphere import EARTH_RADIUS_M, TOLERANCE_M

__all__ = [
    "BOX_DEVIATION_M_MAX",
    "BOX_SIDE_DEGREES_MIN",
    "EARTH_RADIUS_M",
    "POLYGON_AREA_M2_MIN",
    "POLYGON_EDGE_M_MAX",
    "POLYGON_SHARE_MAX",
    "POLYGON_VERTICES_MAX",
    "RADIUS_M_MAX",
    "TOLERANCE_M",
    "ZONE_TYPES",
    "PreparedZone",
    "ZoneArray",
    "ZoneError",
    "ZoneStore",
    "bounds",
    "check_zone",
    "geography",
    "intersect_pairs",
    "intersects",
    "prepare",
]
