"""The meaning of filters, written as plainly as possible.

This is what the language means. The compiled evaluator is faster and must agree with it; tests compare
the two.
"""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from braid.filters.expressions import Arithmetic, ArithmeticOperator, Expression, Negation, Previous
from braid.filters.literals import Value, kind_of
from braid.filters.nodes import (
    And,
    Between,
    Comparison,
    ComparisonWithPrevious,
    Contains,
    Exists,
    Filter,
    In,
    Not,
    Operator,
    Or,
    Prefix,
    Suffix,
    TextPredicate,
    ValuePredicate,
)

COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


_COMPUTE: dict[ArithmeticOperator, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def evaluate(node: Filter, attributes: Mapping[str, Value], previous: Mapping[str, Value] | None = None) -> bool:
    """Whether a publication with these attributes satisfies the filter.

    `previous` are the attributes of the previous publication on the same topic, None where there was none.
    """
    match node:
        case And(parts):
            return all(evaluate(part, attributes, previous) for part in parts)
        case Or(parts):
            return any(evaluate(part, attributes, previous) for part in parts)
        case Not(operand):
            return not evaluate(operand, attributes, previous)
        case ComparisonWithPrevious(attribute, op, expression):
            value, other = attributes.get(attribute), value_of(expression, previous)
            return value is not None and other is not None and _compare(op, value, other)
        case _:
            return node.attribute in attributes and _holds(node, attributes[node.attribute])


def value_of(expression: Expression, previous: Mapping[str, Value] | None) -> Value | None:
    """What the expression amounts to after this previous publication; None where it has no value.

    Integers stay exact and may grow beyond 64 bits; the bound on the size of expressions bounds them too.
    """
    match expression:
        case Previous(attribute):
            return None if previous is None else previous.get(attribute)
        case Negation(operand):
            number = _number_of(operand, previous)
            return None if number is None else -number
        case Arithmetic(op, left, right):
            left_number, right_number = _number_of(left, previous), _number_of(right, previous)
            if left_number is None or right_number is None:
                return None
            return _compute(op, left_number, right_number)
        case _:
            return expression


def _number_of(expression: Expression, previous: Mapping[str, Value] | None) -> int | float | None:
    value = value_of(expression, previous)
    # Not isinstance, which takes booleans for numbers.
    return value if type(value) is int or type(value) is float else None


def _compute(op: ArithmeticOperator, left: int | float, right: int | float) -> int | float | None:
    try:
        result: int | float = _COMPUTE[op](left, right)
    except (ZeroDivisionError, OverflowError):
        return None
    return None if type(result) is float and not math.isfinite(result) else result


def _holds(predicate: ValuePredicate, value: Value) -> bool:
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
