"""A quad tree over a box of the map, its cells numbered after Dewey: `1.4` is the fourth quarter of the first.

Quarters are 1 north-west, 2 north-east, 3 south-west, 4 south-east. With variable granularity something lies in one
cell, the smallest that encloses it, or in up to four that cover it, and is found along the lines of these; with fixed
granularity it lies in all cells of the lowest level that it touches, and is found only there.
"""

import itertools
import math
from typing import NamedTuple

from services.matcher.storage.keys import list_id

Cell = tuple[int, ...]  # the quarter taken on each level; empty for the whole box


class Box(NamedTuple):
    south: float
    west: float
    north: float
    east: float


class Circle(NamedTuple):
    """In the units of the box: a flat map."""

    y: float
    x: float
    radius: float


class QuadTree:
    def __init__(self, box: Box, depth: int) -> None:
        if depth < 0 or box.south >= box.north or box.west >= box.east:
            raise ValueError("a quad tree needs a box with an inside, and no negative depth")
        self.box = box
        self.depth = depth
        self._side = 1 << depth  # cells of the lowest level in a row

    @property
    def leaf_height(self) -> float:
        return (self.box.north - self.box.south) / self._side

    @property
    def leaf_width(self) -> float:
        return (self.box.east - self.box.west) / self._side

    def cell_at(self, y: float, x: float, depth: int | None = None) -> Cell:
        """The cell of a point; what is outside of the box belongs to the nearest cell."""
        return self._cell(*self._row_and_column(y, x), self.depth if depth is None else depth)

    def enclosing(self, circle: Circle) -> Cell:
        """The smallest cell that encloses the circle."""
        top, left = self._row_and_column(circle.y + circle.radius, circle.x - circle.radius)
        bottom, right = self._row_and_column(circle.y - circle.radius, circle.x + circle.radius)
        different = max((top ^ bottom).bit_length(), (left ^ right).bit_length())
        return self._cell(top, left, self.depth - different)

    def covering(self, circle: Circle) -> list[Cell]:
        """At most four cells that enclose the circle together, as small as their sides are not below its diameter.

        Across the middle of the map the smallest enclosing cell is the whole map, but four small ones cover a circle.
        """
        y, x, radius = circle
        return self.covering_box(Box(y - radius, x - radius, y + radius, x + radius))

    def covering_box(self, box: Box) -> list[Cell]:
        """The same for a box."""
        top, left = self._row_and_column(box.north, box.west)
        bottom, right = self._row_and_column(box.south, box.east)
        leaves = max((box.north - box.south) / self.leaf_height, (box.east - box.west) / self.leaf_width)
        depth = max(0, self.depth - max(0, math.ceil(math.log2(leaves)) if leaves > 0 else 0))
        corners = itertools.product((top, bottom), (left, right))
        return list(dict.fromkeys(self._cell(row, column, depth) for row, column in corners))

    def leaves_touched(self, circle: Circle) -> list[Cell]:
        """The cells of the lowest level that the circle touches."""
        top, left = self._row_and_column(circle.y + circle.radius, circle.x - circle.radius)
        bottom, right = self._row_and_column(circle.y - circle.radius, circle.x + circle.radius)
        return [
            self._cell(row, column, self.depth)
            for row, column in itertools.product(range(top, bottom + 1), range(left, right + 1))
            if self._distance(circle, row, column) <= circle.radius
        ]

    def leaves_below(self, cell: Cell) -> list[Cell]:
        """The cells of the lowest level inside of a cell."""
        return [cell + rest for rest in itertools.product((1, 2, 3, 4), repeat=self.depth - len(cell))]

    def _row_and_column(self, y: float, x: float) -> tuple[int, int]:
        """Counted from the north and from the west."""
        row = math.floor((self.box.north - y) / self.leaf_height)
        column = math.floor((x - self.box.west) / self.leaf_width)
        return min(max(row, 0), self._side - 1), min(max(column, 0), self._side - 1)

    def _cell(self, row: int, column: int, depth: int) -> Cell:
        """The ancestor at this depth of a cell of the lowest level."""
        return tuple(
            1 + (row >> level & 1) * 2 + (column >> level & 1)
            for level in range(self.depth - 1, self.depth - 1 - depth, -1)
        )

    def _distance(self, circle: Circle, row: int, column: int) -> float:
        """From the middle of the circle to the nearest point of the cell; cells at the border reach on without end."""
        north = self.box.north - row * self.leaf_height if row else math.inf
        south = self.box.north - (row + 1) * self.leaf_height if row < self._side - 1 else -math.inf
        west = self.box.west + column * self.leaf_width if column else -math.inf
        east = self.box.west + (column + 1) * self.leaf_width if column < self._side - 1 else math.inf
        return math.hypot(max(south - circle.y, circle.y - north, 0), max(west - circle.x, circle.x - east, 0))


def cell_list(cell: Cell, *names: str) -> bytes:
    """The list of a cell, below `names`: several trees may share a storage."""
    return list_id(*names, *map(str, cell))
