"""Writes a filter as its canonical text.

Reading the text again gives the same filter: parentheses stand where the grammar needs them and around
the operand of `not` and of a minus, and nowhere else.
"""

from braid.filters.expressions import Arithmetic, Expression, Negation, Previous
from braid.filters.lexer import is_plain_name
from braid.filters.literals import Value
from braid.filters.nodes import (
    TEXT_OPERATORS,
    And,
    Between,
    Comparison,
    ComparisonWithPrevious,
    Contains,
    Exists,
    Filter,
    In,
    Not,
    Or,
    Predicate,
    Prefix,
    Suffix,
)


def print_filter(node: Filter) -> str:
    """The canonical text of the filter, which is also its `str`."""
    match node:
        case Or(parts):
            return " or ".join(print_filter(part) for part in parts)
        case And(parts):
            return " and ".join(_grouped(part, isinstance(part, Or)) for part in parts)
        case Not(operand):
            return f"not {_grouped(operand, not isinstance(operand, Exists | Not))}"
        case _:
            return _predicate(node)


def print_expression(expression: Expression) -> str:
    """The canonical text of the right-hand side of a comparison with the previous publication."""
    match expression:
        case Previous(attribute):
            return f"prev({_name(attribute)})"
        case Negation(operand):
            # A number too: `-5` is the number, `-(5)` its negation.
            return f"-{_operand(operand, not isinstance(operand, Previous))}"
        case Arithmetic(operator, left, right):
            # Equal operators are read from the left, hence a right-hand side that binds no tighter is grouped.
            binds = _binding(expression)
            left_text = _operand(left, _binding(left) < binds)
            return f"{left_text} {operator} {_operand(right, _binding(right) <= binds)}"
        case _:
            return _literal(expression)


def _operand(expression: Expression, in_parentheses: bool) -> str:
    text = print_expression(expression)
    return f"({text})" if in_parentheses else text


def _binding(expression: Expression) -> int:
    """How tightly the parts of an expression hold together."""
    if not isinstance(expression, Arithmetic):
        return 3
    return 1 if expression.operator in ("+", "-") else 2


def _grouped(node: Filter, in_parentheses: bool) -> str:
    text = print_filter(node)
    return f"({text})" if in_parentheses else text


def _predicate(node: Predicate) -> str:
    name = _name(node.attribute)
    match node:
        case Comparison(_, operator, value):
            return f"{name} {operator} {_literal(value)}"
        case ComparisonWithPrevious(_, operator, expression):
            return f"{name} {operator} {print_expression(expression)}"
        case In(_, values):
            return f"{name} in ({', '.join(map(_literal, values))})"
        case Between(_, low, high):
            return f"{name} between {_literal(low)} and {_literal(high)}"
        case Prefix(_, text) | Suffix(_, text) | Contains(_, text):
            return f"{name} {TEXT_OPERATORS[type(node)]} {_literal(text)}"
        case Exists():
            return f"exists {name}"


def _name(attribute: str) -> str:
    return attribute if is_plain_name(attribute) else "`" + attribute.replace("`", "``") + "`"


def _literal(value: Value) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return "true" if value else "false"
    # The shortest text that reads back as the same number, for integers and floats alike.
    return repr(value)
