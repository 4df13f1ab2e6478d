"""A filter as alternatives: the disjunctive normal form, in which an index can keep it.

A publication satisfies the filter when it satisfies all literals of at least one alternative. Negations are moved down
to the predicates, then `and` is distributed over `or`. This may multiply, so the alternatives are counted before any
is built, and a filter with too many is refused where it enters.
"""

import itertools
from typing import NamedTuple

from braid.filters.errors import FilterError
from braid.filters.nodes import And, Filter, Not, Or, Predicate
from braid.filters.printer import print_filter

MAX_ALTERNATIVES = 1024


class Literal(NamedTuple):
    """A predicate, or that it does not hold; the latter is also so where the attribute is missing."""

    predicate: Predicate
    negated: bool


def alternatives(node: Filter, *, max_alternatives: int = MAX_ALTERNATIVES) -> tuple[tuple[Literal, ...], ...]:
    """The alternatives in the order of the filter, none twice, with no literal twice in any of them."""
    problem = alternatives_problem(node, max_alternatives)
    if problem is not None:
        raise FilterError(problem, text=print_filter(node))
    expansion = _Expansion()
    numbered = dict.fromkeys(expansion.expand(node, negated=False))
    literals = tuple(expansion.numbers)
    return tuple(tuple(literals[number] for number in alternative) for alternative in numbered)


def alternatives_problem(node: Filter, max_alternatives: int) -> str | None:
    """Why the filter has too many alternatives, or None if it has not."""
    if _count(node, negated=False, most=max_alternatives) <= max_alternatives:
        return None
    return (
        f"the filter has more than {max_alternatives} alternatives when its 'and' is multiplied out over its 'or'; "
        "write the values of one attribute with 'in', or make several subscriptions of it"
    )


def _count(node: Filter, negated: bool, most: int) -> int:
    """How many alternatives expanding would build; counting ends above `most`, so that the number stays small."""
    match node:
        case Not(operand):
            return _count(operand, not negated, most)
        case And(parts) | Or(parts):
            multiplies = isinstance(node, And) is not negated
            total = 1 if multiplies else 0
            for part in parts:
                count = _count(part, negated, most)
                total = total * count if multiplies else total + count
                # No part has less than one alternative, so those to come cannot make it fewer again.
                if total > most:
                    break
            return total
        case _:
            return 1


class _Expansion:
    """Works on numbers of literals, because comparing and hashing predicates costs much more."""

    def __init__(self) -> None:
        self.numbers: dict[Literal, int] = {}

    def expand(self, node: Filter, negated: bool) -> list[tuple[int, ...]]:
        match node:
            case Not(operand):
                return self.expand(operand, not negated)
            case And(parts) | Or(parts):
                expanded = [self.expand(part, negated) for part in parts]
                if isinstance(node, Or) is not negated:
                    return list(itertools.chain.from_iterable(expanded))
                return [
                    tuple(dict.fromkeys(itertools.chain.from_iterable(choice)))
                    for choice in itertools.product(*expanded)
                ]
            case _:
                return [(self.numbers.setdefault(Literal(node, negated), len(self.numbers)),)]
