"""What an index may rely on: the equalities that every matching publication must carry."""

from typing import TypeAlias

from braid.filters.literals import Value
from braid.filters.nodes import And, Comparison, Filter, In

# A boolean's key is longer than the others, so it never equals the key of a number.
EqualityKey: TypeAlias = tuple[str, Value] | tuple[str, bool, str]


def required_equalities(node: Filter) -> tuple[tuple[str, Value], ...]:
    """Pairs of attribute and value without which no publication matches, in the order of the filter.

    The list need not be complete, but every pair in it is necessary: an index may file the filter under
    any one of them.
    """
    found: dict[EqualityKey, tuple[str, Value]] = {}
    for part in node.parts if isinstance(node, And) else (node,):
        match part:
            case Comparison(attribute, "=", value):
                found.setdefault(equality_key(attribute, value), (attribute, value))
            case In(attribute, values) if len({equality_key(attribute, value) for value in values}) == 1:
                found.setdefault(equality_key(attribute, values[0]), (attribute, values[0]))
    return tuple(found.values())


def equality_key(attribute: str, value: Value) -> EqualityKey:
    """A dictionary key for `attribute = value` that agrees with the language.

    1 and 1.0 have the same key, 1 and true have not. Python's own equality and hashing of numbers do the
    first part; only booleans need care.
    """
    if type(value) is bool:
        return (attribute, value, "boolean")
    return (attribute, value)
