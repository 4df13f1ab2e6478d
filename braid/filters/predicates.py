"""One fast closure for each kind of predicate.

The type of a value is asked as seldom as the meaning allows: a string equals only strings, a number
other than 0 and 1 equals no boolean. Where it must be asked, it is asked by identity, because values are
exactly `str`, `bool`, `int` or `float`. A missing attribute is None here, which is of no such type.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from braid.filters.evaluator import COMPARE
from braid.filters.literals import Value
from braid.filters.nodes import (
    Between,
    Comparison,
    Contains,
    Exists,
    In,
    Operator,
    Predicate,
    Prefix,
    Suffix,
    TextPredicate,
)

Attributes: TypeAlias = Mapping[str, Value]
Test: TypeAlias = Callable[[Attributes], bool]


def compile_predicate(predicate: Predicate) -> Test:
    match predicate:
        case Comparison(attribute, operator, value):
            return _compare(attribute, operator, value)
        case In(attribute, values):
            return _member(attribute, values)
        case Between(attribute, low, high):
            return _range(attribute, low, high)
        case Prefix() | Suffix() | Contains():
            return _text(predicate)
        case Exists(attribute):
            return lambda attributes: attribute in attributes


def is_plain_equality(value: Value) -> bool:
    """Whether Python's `==` with this literal already means what the language means."""
    return isinstance(value, str) or value not in (0, 1)


def _compare(attribute: str, operator: Operator, literal: Value) -> Test:
    if operator == "=":
        return _equal(attribute, literal)
    if isinstance(literal, str | bool):
        return _compare_same_type(attribute, operator, literal)
    return _compare_number(attribute, operator, literal)


def _equal(attribute: str, literal: Value) -> Test:
    if is_plain_equality(literal):
        return lambda attributes: attributes.get(attribute) == literal
    if isinstance(literal, bool):
        return lambda attributes: attributes.get(attribute) is literal

    def zero_or_one(attributes: Attributes) -> bool:
        value = attributes.get(attribute)
        return value == literal and type(value) is not bool

    return zero_or_one


def _compare_number(attribute: str, operator: Operator, literal: int | float) -> Test:
    def differs(attributes: Attributes) -> bool:
        value = attributes.get(attribute)
        return (type(value) is float or type(value) is int) and value != literal

    def less(attributes: Attributes) -> bool:
        value = attributes.get(attribute)
        return (type(value) is float or type(value) is int) and value < literal

    def at_most(attributes: Attributes) -> bool:
        value = attributes.get(attribute)
        return (type(value) is float or type(value) is int) and value <= literal

    def greater(attributes: Attributes) -> bool:
        value = attributes.get(attribute)
        return (type(value) is float or type(value) is int) and value > literal

    def at_least(attributes: Attributes) -> bool:
        value = attributes.get(attribute)
        return (type(value) is float or type(value) is int) and value >= literal

    by_operator: dict[Operator, Test] = {
        "!=": differs,
        "<": less,
        "<=": at_most,
        ">": greater,
        ">=": at_least,
    }
    return by_operator[operator]


def _compare_same_type(attribute: str, operator: Operator, literal: str | bool) -> Test:
    """Strings and booleans are ordered rarely enough to share one closure for all operators."""
    compare = COMPARE[operator]
    literal_type = type(literal)

    def test(attributes: Attributes) -> bool:
        value = attributes.get(attribute)
        return type(value) is literal_type and compare(value, literal)

    return test


def _range(attribute: str, low: Any, high: Any) -> Test:
    def numbers(attributes: Attributes) -> bool:
        value = attributes.get(attribute)
        return (type(value) is float or type(value) is int) and low <= value <= high

    def same_type(attributes: Attributes) -> bool:
        value = attributes.get(attribute)
        return type(value) is bound_type and low <= value <= high

    bound_type = type(low)
    return same_type if bound_type in (str, bool) else numbers


def _member(attribute: str, literals: tuple[Value, ...]) -> Test:
    if len(literals) == 1:
        return _equal(attribute, literals[0])
    if all(is_plain_equality(literal) for literal in literals):
        values = frozenset(literals)
        return lambda attributes: attributes.get(attribute) in values
    booleans = frozenset(literal for literal in literals if isinstance(literal, bool))
    others = frozenset(literal for literal in literals if not isinstance(literal, bool))

    def mixed(attributes: Attributes) -> bool:
        value = attributes.get(attribute)
        return value in (booleans if type(value) is bool else others)

    return mixed


def _text(predicate: TextPredicate) -> Test:
    attribute, text = predicate.attribute, predicate.text

    def prefix(attributes: Attributes) -> bool:
        value = attributes.get(attribute)
        return type(value) is str and value.startswith(text)

    def suffix(attributes: Attributes) -> bool:
        value = attributes.get(attribute)
        return type(value) is str and value.endswith(text)

    def contains(attributes: Attributes) -> bool:
        value = attributes.get(attribute)
        return type(value) is str and text in value

    match predicate:
        case Prefix():
            return prefix
        case Suffix():
            return suffix
        case Contains():
            return contains
