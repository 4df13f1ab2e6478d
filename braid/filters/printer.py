"""Writes a filter as its canonical text.

Reading the text again gives the same filter: parentheses stand where the grammar needs them and around
the operand of `not`, and nowhere else.
"""

from braid.filters.lexer import is_plain_name
from braid.filters.literals import Value
from braid.filters.nodes import (
    TEXT_OPERATORS,
    And,
    Between,
    Comparison,
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


def _grouped(node: Filter, in_parentheses: bool) -> str:
    text = print_filter(node)
    return f"({text})" if in_parentheses else text


def _predicate(node: Predicate) -> str:
    name = _name(node.attribute)
    match node:
        case Comparison(_, operator, value):
            return f"{name} {operator} {_literal(value)}"
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
