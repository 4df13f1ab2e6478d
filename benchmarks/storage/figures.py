"""The figures of the paper: which operations, and which ways to store are held against one another."""

import random
from collections import defaultdict, deque
from collections.abc import Iterator

import msgspec

from benchmarks.storage.running import Step
from benchmarks.storage.workloads import PAST_S, Operation, Source, cell_list, operations
from services.matcher.storage.quadtree import Cell, Circle, QuadTree
from services.matcher.storage.quadtree import cell_list as tree_list
from services.matcher.storage.records import Reach

DEPTH = 5
RADII = {"R/4": 0.25, "R/2": 0.5, "R": 1.0, "2R": 2.0, "4R": 4.0}
VARIABLE, FIXED, COVERING = "variable", "fixed", "covering"
FOUND = ("0 found", "1", "2 to 3", "4 to 7", "8 to 15", "16 to 31", "32 or more")


class Figure(msgspec.Struct, frozen=True):
    number: str
    title: str
    subscriptions: float  # their share
    variants: tuple[str, ...]
    paper: str
    self_join: bool = False
    shape: str = "cells"  # or "levels" or "circles" of a quad tree
    share: float = 1.0  # of the number of operations that is asked for; those of a hierarchy are larger

    def reach(self, variant: str) -> Reach:
        return Reach.LINE if self.shape != "cells" and variant != FIXED else Reach.SELF

    def layout(self, variant: str) -> str:
        return "DualDB" if variant in (VARIABLE, FIXED, COVERING) else variant

    def rate(self, asked: float) -> float:
        return asked * self.share


_SIMPLE = ("DualDB", "TwoDB", "RepQueries")
FIGURES = {
    figure.number: figure
    for figure in (
        Figure(
            "10", "simple, 3 subscriptions for 1 publication", 0.75, _SIMPLE, "RepQueries / DualDB: 10; TwoDB: 1.05"
        ),
        Figure("11", "simple, 1 subscription for 3 publications", 0.25, _SIMPLE, "RepQueries / DualDB: 3; TwoDB: 1.0"),
        Figure("12", "self-joining, 3 for 1", 0.75, ("DualDB", "TwoDB"), "TwoDB / DualDB: 1.20", self_join=True),
        Figure("13", "self-joining, 1 for 3", 0.25, ("DualDB", "TwoDB"), "TwoDB / DualDB: 1.12", self_join=True),
        Figure(
            "14",
            "cells of all levels (16: by level)",
            0.5,
            (VARIABLE, FIXED),
            "fixed / variable: 3",
            shape="levels",
            share=0.05,
        ),
        Figure(
            "15",
            "circles (17: by radius)",
            0.5,
            (VARIABLE, FIXED, COVERING),
            "fixed / variable: 2",
            shape="circles",
            share=0.05,
        ),
    )
}


def steps(figure: Figure, variant: str, source: Source, count: int, rate: float) -> Iterator[Step]:
    """The same operations for every variant."""
    stream = operations(source, count, rate, figure.subscriptions, figure.self_join)
    match figure.shape:
        case "levels":
            return _levels(stream, variant, QuadTree(source.box, DEPTH))
        case "circles":
            return _circles(stream, variant, QuadTree(source.box, DEPTH))
        case _ if figure.self_join:
            return _by_found(Step(operation, cell_list(operation.point, source.box)) for operation in stream)
        case _:
            return (Step(operation, cell_list(operation.point, source.box)) for operation in stream)


def _by_found(stream: Iterator[Step]) -> Iterator[Step]:
    """By how many records a self-join finds in its list: all of the last seconds, of both kinds."""
    before: defaultdict[bytes, deque[float]] = defaultdict(deque)
    for step in stream:
        (name,), now_s = step.lists, step.operation.now_s
        recent = before[name]
        while recent and recent[0] <= now_s - PAST_S:
            recent.popleft()
        yield Step(step.operation, step.lists, FOUND[min(len(recent).bit_length(), len(FOUND) - 1)])
        recent.append(now_s)


def _levels(stream: Iterator[Operation], variant: str, tree: QuadTree) -> Iterator[Step]:
    """Each level is taken half as often as the one below it."""
    chance = random.Random(31)
    levels = list(range(1, DEPTH + 1))
    weights = [2.0**level for level in levels]
    for operation in stream:
        (level,) = chance.choices(levels, weights)
        cell = tree.cell_at(operation.point.y, operation.point.x, level)
        cells = [cell] if variant == VARIABLE else tree.leaves_below(cell)
        yield Step(operation, _lists(cells), f"level {level}")


def _circles(stream: Iterator[Operation], variant: str, tree: QuadTree) -> Iterator[Step]:
    chance = random.Random(37)
    for operation in stream:
        name = chance.choice(list(RADII))
        circle = Circle(operation.point.y, operation.point.x, RADII[name] * tree.leaf_height)
        match variant:
            case "variable":
                cells = [tree.enclosing(circle)]
            case "covering":
                cells = tree.covering(circle)
            case _:
                cells = tree.leaves_touched(circle)
        yield Step(operation, _lists(cells), name)


def _lists(cells: list[Cell]) -> tuple[bytes, ...]:
    return tuple(tree_list(cell) for cell in cells)
