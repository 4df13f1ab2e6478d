"""Cells of a quad tree: numbered after Dewey, enclosing, covering and touching circles."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.matcher.storage.quadtree import Box, Cell, Circle, QuadTree, cell_list

TREE = QuadTree(Box(0, 0, 32, 32), 5)
inside = st.floats(0.01, 31.99)
circles = st.builds(Circle, inside, inside, st.floats(0.01, 8))


def box_of(cell: Cell) -> Box:
    south, west, side = 0.0, 0.0, 32.0
    for quarter in cell:
        side /= 2
        south += side if quarter in (1, 2) else 0
        west += side if quarter in (2, 4) else 0
    return Box(south, west, south + side, west + side)


def distance(circle: Circle, box: Box) -> float:
    return math.hypot(
        max(box.south - circle.y, circle.y - box.north, 0), max(box.west - circle.x, circle.x - box.east, 0)
    )


def fits(circle: Circle, box: Box) -> bool:
    """What reaches over the border of the map is cut there."""
    return (
        max(circle.y - circle.radius, 0) >= box.south - 1e-9
        and min(circle.y + circle.radius, 32) <= box.north + 1e-9
        and max(circle.x - circle.radius, 0) >= box.west - 1e-9
        and min(circle.x + circle.radius, 32) <= box.east + 1e-9
    )


def test_numbers_of_quarters() -> None:
    corners = {(31, 1): (1,), (31, 31): (2,), (1, 1): (3,), (1, 31): (4,)}
    assert {place: TREE.cell_at(*place, 1) for place in corners} == corners
    assert TREE.cell_at(31.9, 31.9) == (2, 2, 2, 2, 2)
    assert cell_list((1, 4), "map") == b"map\x011\x014\x01"


def test_what_is_outside_belongs_to_the_nearest_cell() -> None:
    assert TREE.cell_at(-5, 99) == TREE.cell_at(0.1, 31.9)


@given(circles)
def test_the_enclosing_cell_is_the_smallest(circle: Circle) -> None:
    cell = TREE.enclosing(circle)
    assert fits(circle, box_of(cell))
    if len(cell) < TREE.depth:
        assert not any(fits(Circle(circle.y, circle.x, circle.radius + 1e-6), box_of((*cell, q))) for q in (1, 2, 3, 4))


@given(circles)
def test_leaves_touched_are_those_within_the_radius(circle: Circle) -> None:
    touched = set(TREE.leaves_touched(circle))
    for leaf in TREE.leaves_below(()):
        away = distance(circle, box_of(leaf))
        if abs(away - circle.radius) > 1e-6:
            assert (leaf in touched) == (away < circle.radius)


@given(circles)
def test_at_most_four_cells_cover_a_circle(circle: Circle) -> None:
    cells = TREE.covering(circle)
    assert 1 <= len(cells) <= 4
    for leaf in TREE.leaves_touched(Circle(circle.y, circle.x, circle.radius - 1e-6)):
        assert any(leaf[: len(cell)] == cell for cell in cells)
    side = 32 / 2 ** len(cells[0])
    assert side >= 2 * circle.radius - 1e-9 or not cells[0]
    assert side < 4 * circle.radius + 1e-9 or len(cells[0]) == TREE.depth


def test_a_box_needs_an_inside() -> None:
    with pytest.raises(ValueError, match="inside"):
        QuadTree(Box(0, 0, 0, 1), 5)
