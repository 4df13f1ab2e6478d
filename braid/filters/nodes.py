"""Filters as trees.

Invariants, kept by the constructors: a conjunction has at least two parts, none of which is itself a
conjunction; the same holds for disjunctions. So `(a and b) and c` is the same tree as `a and b and c`,
and each tree has exactly one canonical text. Two filters are equal when their canonical texts are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from braid.filters.expressions import ByText, Expression, holds_previous, previous_terms
from braid.filters.literals import Value

Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]
OPERATORS: tuple[Operator, ...] = ("=", "!=", "<", "<=", ">", ">=")


class _Node(ByText):
    __slots__ = ()

    def __str__(self) -> str:
        # The printer knows the nodes, hence the nodes can only know the printer when they are used.
        from braid.filters.printer import print_filter

        return print_filter(cast("Filter", self))


@dataclass(frozen=True, eq=False, slots=True)
class Comparison(_Node):
    attribute: str
    operator: Operator
    value: Value


@dataclass(frozen=True, eq=False, slots=True)
class ComparisonWithPrevious(_Node):
    """A comparison with something that depends on the previous publication: `prev(...)` occurs in the expression."""

    attribute: str
    operator: Operator
    expression: Expression

    def __post_init__(self) -> None:
        if not holds_previous(self.expression):
            raise ValueError("a comparison with the previous publication refers to it at least once")


@dataclass(frozen=True, eq=False, slots=True)
class In(_Node):
    attribute: str
    values: tuple[Value, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Between(_Node):
    """Both bounds are of one kind, and both belong to the range."""

    attribute: str
    low: Value
    high: Value


@dataclass(frozen=True, eq=False, slots=True)
class Prefix(_Node):
    attribute: str
    text: str


@dataclass(frozen=True, eq=False, slots=True)
class Suffix(_Node):
    attribute: str
    text: str


@dataclass(frozen=True, eq=False, slots=True)
class Contains(_Node):
    attribute: str
    text: str


@dataclass(frozen=True, eq=False, slots=True)
class Exists(_Node):
    attribute: str


@dataclass(frozen=True, eq=False, slots=True)
class Not(_Node):
    operand: Filter


@dataclass(frozen=True, eq=False, slots=True)
class And(_Node):
    parts: tuple[Filter, ...]

    def __post_init__(self) -> None:
        flat: list[Filter] = []
        for part in self.parts:
            flat.extend(part.parts if isinstance(part, And) else (part,))
        object.__setattr__(self, "parts", _at_least_two(flat))


@dataclass(frozen=True, eq=False, slots=True)
class Or(_Node):
    parts: tuple[Filter, ...]

    def __post_init__(self) -> None:
        flat: list[Filter] = []
        for part in self.parts:
            flat.extend(part.parts if isinstance(part, Or) else (part,))
        object.__setattr__(self, "parts", _at_least_two(flat))


# Predicates whose answer depends on nothing but the value of their attribute.
ValuePredicate: TypeAlias = Comparison | In | Between | Prefix | Suffix | Contains | Exists
Predicate: TypeAlias = ValuePredicate | ComparisonWithPrevious
TextPredicate: TypeAlias = Prefix | Suffix | Contains
Filter: TypeAlias = Predicate | Not | And | Or

# The operators that take a string, spelled alike in text and JSON.
TEXT_OPERATORS: dict[type[TextPredicate], str] = {Prefix: "prefix", Suffix: "suffix", Contains: "contains"}
TEXT_PREDICATES = {operator: predicate for predicate, operator in TEXT_OPERATORS.items()}


def depth_of(node: Filter) -> int:
    """How many `and`, `or` and `not` stand above the deepest predicate."""
    match node:
        case And(parts) | Or(parts):
            return 1 + max(depth_of(part) for part in parts)
        case Not(operand):
            return 1 + depth_of(operand)
        case _:
            return 0


def uses_previous(node: Filter) -> bool:
    """Whether the answer may depend on the previous publication."""
    match node:
        case And(parts) | Or(parts):
            return any(uses_previous(part) for part in parts)
        case Not(operand):
            return uses_previous(operand)
        case _:
            return isinstance(node, ComparisonWithPrevious)


def attributes_before(node: Filter) -> frozenset[str]:
    """The attributes of the previous publication that the answer may depend on."""
    match node:
        case And(parts) | Or(parts):
            return frozenset[str]().union(*map(attributes_before, parts))
        case Not(operand):
            return attributes_before(operand)
        case ComparisonWithPrevious(_, _, expression):
            return frozenset(term.attribute for term in previous_terms(expression))
        case _:
            return frozenset()


def _at_least_two(parts: list[Filter]) -> tuple[Filter, ...]:
    if len(parts) < 2:
        raise ValueError("a conjunction or disjunction has at least two parts")
    return tuple(parts)
