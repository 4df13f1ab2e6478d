"""The JSON form of filters: the same trees, for programs that build filters rather than write them.

A predicate is an object with `attr`, `op` and, depending on the operator, `value` or `values`. The
others have one key: `and` and `or` with a list, `not` with one filter. Unknown keys are errors, since a
misspelt key would otherwise silently change what a subscription receives.

The `value` of a comparison may be an expression: `prev` with an attribute, or an operator with the list of
what it joins. A minus with a list of one is a negation.
"""

from collections.abc import Mapping
from typing import Any, Never, cast

from braid.filters.alternatives import MAX_ALTERNATIVES, alternatives_problem
from braid.filters.errors import FilterError, quoted
from braid.filters.expressions import (
    ARITHMETIC_OPERATORS,
    MAX_EXPRESSION_NODES,
    Arithmetic,
    ArithmeticOperator,
    Expression,
    Negation,
    Previous,
    holds_previous,
)
from braid.filters.literals import Value, kind_of, literal_problem
from braid.filters.nodes import (
    OPERATORS,
    TEXT_OPERATORS,
    TEXT_PREDICATES,
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
    Predicate,
    Prefix,
    Suffix,
)
from braid.filters.parser import MAX_DEPTH, MAX_PREDICATES

_ALL_OPERATORS = (*OPERATORS, "in", "between", *TEXT_PREDICATES, "exists")
_EXPRESSION_KEYS = ("prev", *ARITHMETIC_OPERATORS)


def from_json(
    obj: object,
    *,
    max_depth: int = MAX_DEPTH,
    max_predicates: int = MAX_PREDICATES,
    max_alternatives: int = MAX_ALTERNATIVES,
) -> Filter:
    """The filter that decoded JSON describes; raises FilterError with the path of the wrong part."""
    result = _Reader(max_depth, max_predicates).read(obj, "$", 0)
    problem = alternatives_problem(result, max_alternatives)
    if problem is not None:
        _fail(problem, "$")
    return result


def to_json(node: Filter) -> dict[str, Any]:
    """The JSON form of the filter, ready to be encoded."""
    match node:
        case And(parts):
            return {"and": [to_json(part) for part in parts]}
        case Or(parts):
            return {"or": [to_json(part) for part in parts]}
        case Not(operand):
            return {"not": to_json(operand)}
        case _:
            return {"attr": node.attribute, **_argument_to_json(node)}


def _argument_to_json(node: Predicate) -> dict[str, Any]:
    match node:
        case Comparison(_, operator, value):
            return {"op": operator, "value": value}
        case ComparisonWithPrevious(_, operator, expression):
            return {"op": operator, "value": _expression_to_json(expression)}
        case In(_, values):
            return {"op": "in", "values": list(values)}
        case Between(_, low, high):
            return {"op": "between", "values": [low, high]}
        case Prefix(_, text) | Suffix(_, text) | Contains(_, text):
            return {"op": TEXT_OPERATORS[type(node)], "value": text}
        case Exists():
            return {"op": "exists"}


def _expression_to_json(expression: Expression) -> object:
    match expression:
        case Previous(attribute):
            return {"prev": attribute}
        case Negation(operand):
            return {"-": [_expression_to_json(operand)]}
        case Arithmetic(operator, left, right):
            return {operator: [_expression_to_json(left), _expression_to_json(right)]}
        case _:
            return expression


class _Reader:
    def __init__(self, max_depth: int, max_predicates: int) -> None:
        self._max_depth = max_depth
        self._max_predicates = max_predicates
        self._predicates = 0

    def read(self, obj: object, path: str, depth: int) -> Filter:
        if not isinstance(obj, Mapping):
            _fail("a filter is an object", path)
        if "attr" in obj or "op" in obj:
            self._predicates += 1
            if self._predicates > self._max_predicates:
                _fail(f"the filter has more than {self._max_predicates} predicates", path)
            return _predicate(obj, path)
        if len(obj) != 1:
            _fail("a filter has attr and op, or one of and, or, not", path)
        if depth == self._max_depth:
            _fail(f"the filter is nested deeper than {self._max_depth} levels", path)
        ((key, inner),) = obj.items()
        if key == "not":
            return Not(self.read(inner, f"{path}.not", depth + 1))
        if key not in ("and", "or"):
            _unknown_key(key, path, ("attr", "op", "and", "or", "not"))
        items = _list(inner, f"{path}.{key}")
        parts = tuple(self.read(item, f"{path}.{key}[{i}]", depth + 1) for i, item in enumerate(items))
        # Programs that collect parts in a list often collect just one.
        if len(parts) == 1:
            return parts[0]
        return And(parts) if key == "and" else Or(parts)


def _predicate(obj: Mapping[object, object], path: str) -> Predicate:
    attribute = _string(_required(obj, "attr", path), f"{path}.attr")
    operator = _string(_required(obj, "op", path), f"{path}.op")
    if operator not in _ALL_OPERATORS:
        _fail(f"unknown operator {quoted(operator)}", f"{path}.op", _ALL_OPERATORS)
    argument = {"exists": None, "in": "values", "between": "values"}.get(operator, "value")
    for key in obj:
        if key not in ("attr", "op", argument):
            _unknown_key(key, path, ("attr", "op", *([argument] if argument else ())))
    if argument is None:
        return Exists(attribute)
    given, path = _required(obj, argument, path), f"{path}.{argument}"
    if operator in TEXT_PREDICATES:
        return TEXT_PREDICATES[operator](attribute, _string(given, path))
    if argument == "value":
        return _comparison(attribute, cast(Operator, operator), given, path)
    values = tuple(_literal(value, f"{path}[{i}]") for i, value in enumerate(_list(given, path)))
    if operator == "in":
        return In(attribute, values)
    if len(values) != 2:
        _fail("between takes the lower and the upper bound", path)
    low, high = values
    if kind_of(low) != kind_of(high):
        _fail(f"the bounds differ in type: {kind_of(low)} and {kind_of(high)}", path)
    return Between(attribute, low, high)


def _comparison(attribute: str, operator: Operator, given: object, path: str) -> Comparison | ComparisonWithPrevious:
    if not isinstance(given, Mapping):
        return Comparison(attribute, operator, _literal(given, path))
    expression = _ExpressionReader().read(given, path)
    if not holds_previous(expression):
        _fail("an expression needs prev; without it, write its value", path)
    return ComparisonWithPrevious(attribute, operator, expression)


class _ExpressionReader:
    def __init__(self) -> None:
        self._nodes = 0

    def read(self, obj: object, path: str) -> Expression:
        self._nodes += 1
        if self._nodes > MAX_EXPRESSION_NODES:
            _fail(f"the expression has more than {MAX_EXPRESSION_NODES} numbers, attributes and operators", path)
        if not isinstance(obj, Mapping):
            value = _literal(obj, path)
            if kind_of(value) != "number":
                _fail("arithmetic takes numbers and prev", path)
            return cast(int | float, value)
        if len(obj) != 1:
            _fail("an expression has exactly one key", path, _EXPRESSION_KEYS)
        ((key, inner),) = obj.items()
        if key == "prev":
            return Previous(_string(inner, f"{path}.prev"))
        if key not in ARITHMETIC_OPERATORS:
            _unknown_key(key, path, _EXPRESSION_KEYS)
        path = f"{path}.{key}"
        items = _list(inner, path)
        if len(items) != 2 and (key, len(items)) != ("-", 1):
            _fail("an operator takes a list of two; a minus also takes a list of one", path)
        operands = [self.read(item, f"{path}[{i}]") for i, item in enumerate(items)]
        if len(operands) == 1:
            return Negation(operands[0])
        return Arithmetic(cast(ArithmeticOperator, key), *operands)


def _required(obj: Mapping[object, object], key: str, path: str) -> object:
    if key not in obj:
        _fail(f"{key} is missing", path)
    return obj[key]


def _string(value: object, path: str) -> str:
    if type(value) is not str:
        _fail("must be a string", path, ("string",))
    problem = literal_problem(value)
    if problem is not None:
        _fail(problem, path)
    return value


def _list(value: object, path: str) -> list[object] | tuple[object, ...]:
    if not isinstance(value, list | tuple) or not value:
        _fail("must be a list with at least one element", path)
    return value


def _literal(value: object, path: str) -> Value:
    problem = literal_problem(value)
    if problem is not None:
        _fail(problem, path)
    return cast(Value, value)


def _unknown_key(key: object, path: str, expected: tuple[str, ...]) -> Never:
    _fail(f"unknown key {quoted(str(key))}", path, expected)


def _fail(message: str, path: str, expected: tuple[str, ...] = ()) -> Never:
    raise FilterError(message, expected=expected, path=path)
