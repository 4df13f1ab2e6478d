"""Seeds in parts that run side by side, and what to call them."""

import math
import os
from collections.abc import Callable, Iterable

from tests.simulation.checks import is_excused
from tests.simulation.cluster import Simulation

SEEDS_UNTIL_CAUGHT_MAX = 100


def parts(first: int, last: int) -> list[range]:
    return [range(start, min(start + 50, last + 1)) for start in range(first, last + 1, 50)]


def name_of(seeds: range) -> str:
    return f"{seeds[0]}-{seeds[-1]}"


def problems_of(kind: Callable[[int], Simulation], seeds: Iterable[int]) -> list[str]:
    """The message says how to see it again; the order of sets of strings is part of a story.

    That some of them are excused from the orders of a scaling is a problem too, where there are more than the kind has.
    """
    name = f"PYTHONHASHSEED={os.environ.get('PYTHONHASHSEED', 'random')} {getattr(kind, '__name__', str(kind))}"
    found: list[str] = []
    excused: list[int] = []
    excused_max = 0.0
    for seed in seeds:
        simulation = kind(seed)
        found += [f"{name}({seed}): {problem}" for problem in simulation.run()]
        excused += [seed] if is_excused(simulation) else []
        excused_max += simulation.excused_max
    return found if len(excused) <= math.ceil(excused_max) else [*found, f"{name}: too many are excused: {excused}"]


def is_caught(kind: Callable[[int], Simulation], problem: str) -> bool:
    """Whether some seed shows a problem of this kind, where a rule was taken away."""
    seeds = range(1, SEEDS_UNTIL_CAUGHT_MAX + 1)
    return any(text.startswith(f"{problem}:") for seed in seeds for text in kind(seed).run())


def from_seed(first: int, kind: Callable[[int], Simulation]) -> Callable[[int], Simulation]:
    """Few seeds show what a rule is for, and this is the first of them."""

    def later(seed: int) -> Simulation:
        return kind(seed + first - 1)

    return later
