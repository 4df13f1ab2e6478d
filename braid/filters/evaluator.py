"""The meaning of filters, written as plainly as possible.

This is what the language means. The compiled evaluator is faster and must agree with it; tests compare
the two.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any

from braid.filters.literals import Value, kind_of
from braid.filters.nodes import (
    And,
    Between,
    Comparison,
    Contains,
    Exists,
    Filter,
    In,
    Not,
    Operator,
    Or,
    Predicate,
    Prefix,
    Suffix,
    TextPredicate,
)

COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(node: Filter, attributes: Mapping[str, Value]) -> bool:
    """Whether a publication with these attributes satisfies the filter."""
    match node:
        case And(parts):
            return all(evaluate(part, attributes) for part in parts)
        case Or(parts):
            return any(evaluate(part, attributes) for part in parts)
        case Not(operand):
            return not evaluate(operand, attributes)
        case _:
            return node.attribute in attributes and _holds(node, attributes[node.attribute])


def _holds(predicate: Predicate, value: Value) -> bool:
    match predicate:
        case Exists():
            return True
        case Comparison(_, op, literal):
            return _compare(op, value, literal)
        case In(_, literals):
            return any(_compare("=", value, literal) for literal in literals)
        case Between(_, low, high):
            return _compare(">=", value, low) and _compare("<=", value, high)
        case Prefix() | Suffix() | Contains():
            return isinstance(value, str) and _occurs(predicate, value)


def _occurs(predicate: TextPredicate, value: str) -> bool:
    match predicate:
        case Prefix(_, text):
            return value.startswith(text)
        case Suffix(_, text):
            return value.endswith(text)
        case Contains(_, text):
            return text in value


def _compare(op: Operator, value: Value, literal: Value) -> bool:
    return kind_of(value) == kind_of(literal) and COMPARE[op](value, literal)
