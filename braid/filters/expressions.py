"""Arithmetic with the attributes of the previous publication: the right-hand side of `price < prev(price) * 0.9`.

An expression is a number, an attribute of the previous publication, or arithmetic on expressions. Its tree is kept as
it was written: sums of floats depend on their order, so nothing is rearranged or computed in advance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

ArithmeticOperator: TypeAlias = Literal["+", "-", "*", "/"]
ARITHMETIC_OPERATORS: tuple[ArithmeticOperator, ...] = ("+", "-", "*", "/")

# Numbers, attributes and operators of one expression. Integers grow without bound in Python; with this many factors
# of 64 bits they stay small.
MAX_EXPRESSION_NODES = 32


class ByText:
    """What is equal when its canonical text is.

    The comparison that Python would generate takes 1 for 1.0 and for true, which would be a wrong answer in any table
    keyed by filter.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class _Term(ByText):
    __slots__ = ()

    def __str__(self) -> str:
        # The printer knows the terms, hence the terms can only know the printer when they are used.
        from braid.filters.printer import print_expression

        return print_expression(cast("Expression", self))


@dataclass(frozen=True, eq=False, slots=True)
class Previous(_Term):
    """`prev(attribute)`: its value in the previous publication on the same topic."""

    attribute: str


@dataclass(frozen=True, eq=False, slots=True)
class Negation(_Term):
    operand: Expression


@dataclass(frozen=True, eq=False, slots=True)
class Arithmetic(_Term):
    operator: ArithmeticOperator
    left: Expression
    right: Expression


# Numbers stand for themselves; booleans are no numbers here.
Expression: TypeAlias = int | float | Previous | Negation | Arithmetic


def previous_terms(expression: Expression) -> Iterator[Previous]:
    """Every `prev(...)` of the expression in the order it is written."""
    match expression:
        case Previous():
            yield expression
        case Negation(operand):
            yield from previous_terms(operand)
        case Arithmetic(_, left, right):
            yield from previous_terms(left)
            yield from previous_terms(right)


def holds_previous(expression: Expression) -> bool:
    return any(True for _ in previous_terms(expression))
