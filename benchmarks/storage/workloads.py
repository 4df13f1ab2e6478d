"""Where and when somebody subscribes or publishes: made-up geotagged posts, or recorded positions of taxis.

The parameters are the paper's: a subscription reaches 10 s back and 10 s ahead, a publication expires after 20 s, the
map is cut into 500 x 500 cells. Posts crowd around places, some of them much larger than others, as posts do.
"""

import csv
import gzip
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from services.matcher.storage.keys import list_id
from services.matcher.storage.quadtree import Box
from services.matcher.storage.records import StoredPublication, StoredSubscription

PAST_S = FUTURE_S = 10.0
LIFE_S = 20.0
BEGIN_S = 1_700_000_000.0
TAXIS = "taxis/cabspotting_2008-06-02_to_03.csv.gz"
_CELLS_IN_A_ROW = 500
_PLACES = 400
_USERS = 20_000
_TEXT = (
    "road closed near the bridge after an accident heavy rain on main street long queue at the market concert tonight "
    "smoke over the harbour police at the station free coffee train late again sunset from the tower lost dog"
)


class Point(NamedTuple):
    y: float
    x: float
    who: str


class Operation(msgspec.Struct, frozen=True):
    now_s: float
    record: StoredSubscription | StoredPublication
    point: Point


class Source(msgspec.Struct, frozen=True):
    name: str
    box: Box
    points: list[Point]


def posts(count: int) -> Source:
    """In a box of the size of New York State, around places whose sizes differ as those of towns do."""
    chance = random.Random(17)
    box = Box(40.5, -79.8, 45.0, -71.9)
    places = [(chance.uniform(box.south, box.north), chance.uniform(box.west, box.east)) for _ in range(_PLACES)]
    sizes = [1 / rank for rank in range(1, _PLACES + 1)]
    chosen = chance.choices(places, sizes, k=count)
    points = [
        Point(
            min(max(chance.gauss(y, 0.15), box.south), box.north),
            min(max(chance.gauss(x, 0.2), box.west), box.east),
            f"user-{chance.randrange(_USERS)}",
        )
        for y, x in chosen
    ]
    return Source("posts", box, points)


def taxis(data: Path, count: int) -> Source:
    """In the order of their times; positions far outside of the city are left out."""
    box = Box(37.55, -122.55, 37.85, -122.35)
    points = []
    with gzip.open(data / TAXIS, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            y, x = float(row["lat"]), float(row["lon"])
            if box.south <= y <= box.north and box.west <= x <= box.east:
                points.append(Point(y, x, row["cab_id"]))
                if len(points) == count:
                    break
    return Source("taxis", box, points)


def operations(source: Source, count: int, rate: float, subscriptions: float, distinct: bool) -> Iterator[Operation]:
    """`rate` of them in a second of the clock that they carry; `subscriptions` is the share of these."""
    chance = random.Random(29)
    words = _TEXT.split()
    for number, point in zip(range(count), itertools.cycle(source.points), strict=False):
        now_s = BEGIN_S + number / rate
        if chance.random() < subscriptions:
            record: StoredSubscription | StoredPublication = StoredSubscription(
                f"s{number}", point.who, now_s, now_s - PAST_S, now_s + FUTURE_S, distinct, b"{}"
            )
        else:
            text = " ".join(chance.choices(words, k=14)).encode()
            record = StoredPublication(f"p{number}", now_s, now_s + LIFE_S, text)
        yield Operation(now_s, record, point)


def cell_of(point: Point, box: Box) -> int:
    row = int((point.y - box.south) / (box.north - box.south) * _CELLS_IN_A_ROW)
    column = int((point.x - box.west) / (box.east - box.west) * _CELLS_IN_A_ROW)
    return min(row, _CELLS_IN_A_ROW - 1) * _CELLS_IN_A_ROW + min(column, _CELLS_IN_A_ROW - 1)


def cell_list(point: Point, box: Box) -> tuple[bytes]:
    return (list_id(str(cell_of(point, box))),)
