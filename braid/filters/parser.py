"""Reads the text form of a filter.

Recursive descent, one method for each rule of the grammar. Every text gives a filter or a
`FilterError`: the recursion is bounded by `max_depth` and the size of the tree by `max_predicates`.
The length of the text is for the caller to bound.
"""

from typing import Never, cast

from braid.filters.alternatives import MAX_ALTERNATIVES, alternatives_problem
from braid.filters.cursor import Cursor
from braid.filters.expression_parser import OPERAND, parse_expression
from braid.filters.expressions import ARITHMETIC_OPERATORS, holds_previous
from braid.filters.literals import Value, kind_of
from braid.filters.nodes import (
    OPERATORS,
    TEXT_PREDICATES,
    And,
    Between,
    Comparison,
    ComparisonWithPrevious,
    Exists,
    Filter,
    In,
    Not,
    Operator,
    Or,
    Predicate,
    depth_of,
)

MAX_DEPTH = 64
MAX_PREDICATES = 256

_TERM = ("attribute", "exists", "not", "(")
_OPERATOR = (*OPERATORS, "in", "between", *TEXT_PREDICATES)
_LITERAL = ("string", "number", "true", "false")
_RIGHT_HAND_SIDE = (*_LITERAL, *(item for item in OPERAND if item not in _LITERAL))


def parse(
    text: str,
    *,
    max_depth: int = MAX_DEPTH,
    max_predicates: int = MAX_PREDICATES,
    max_alternatives: int = MAX_ALTERNATIVES,
) -> Filter:
    """The filter that the text describes; raises FilterError and nothing else."""
    cursor = Cursor(text)
    result = _Parser(cursor, max_depth, max_predicates).parse()
    problem = alternatives_problem(result, max_alternatives)
    if problem is not None:
        cursor.fail(problem, 0)
    return result


class _Parser:
    def __init__(self, cursor: Cursor, max_depth: int, max_predicates: int) -> None:
        self._cursor = cursor
        self._max_depth = max_depth
        self._max_predicates = max_predicates
        self._predicates = 0

    def parse(self) -> Filter:
        result = self._disjunction(0)
        if self._cursor.token.kind != "end":
            self._cursor.unexpected(("and", "or", "end of filter"))
        # Alternating `and` and `or` makes trees deeper than their parentheses. They are refused too, so
        # that a filter accepted as text is also accepted in its JSON form.
        if depth_of(result) > self._max_depth:
            self._too_deep(0)
        return result

    def _disjunction(self, depth: int) -> Filter:
        first = self._conjunction(depth)
        if not self._cursor.token.is_keyword("or"):
            return first
        parts = [first]
        while self._cursor.token.is_keyword("or"):
            self._cursor.advance()
            parts.append(self._conjunction(depth))
        return Or(tuple(parts))

    def _conjunction(self, depth: int) -> Filter:
        first = self._term(depth)
        if not self._cursor.token.is_keyword("and"):
            return first
        parts = [first]
        while self._cursor.token.is_keyword("and"):
            self._cursor.advance()
            parts.append(self._term(depth))
        return And(tuple(parts))

    def _term(self, depth: int) -> Filter:
        if self._cursor.token.is_keyword("not"):
            if depth == self._max_depth:
                self._too_deep(self._cursor.token.position)
            self._cursor.advance()
            # `not (` is one level, so that the parentheses the printer adds there cost nothing.
            if self._cursor.token.is_symbol("("):
                return Not(self._group(depth + 1))
            return Not(self._term(depth + 1))
        if self._cursor.token.is_symbol("("):
            if depth == self._max_depth:
                self._too_deep(self._cursor.token.position)
            return self._group(depth + 1)
        return self._predicate()

    def _group(self, depth: int) -> Filter:
        self._cursor.advance()
        inner = self._disjunction(depth)
        self._cursor.skip_symbol(")", ("and", "or", ")"))
        return inner

    def _predicate(self) -> Predicate:
        start = self._cursor.token
        if start.kind != "name" and not start.is_keyword("exists"):
            self._cursor.unexpected(_TERM)
        self._predicates += 1
        if self._predicates > self._max_predicates:
            self._cursor.fail(f"the filter has more than {self._max_predicates} predicates", start.position)
        if start.kind == "keyword":
            self._cursor.advance()
            return Exists(self._cursor.attribute())
        attribute = self._cursor.attribute()
        operator = self._operator()
        if operator == "in":
            return In(attribute, self._literals())
        if operator == "between":
            return self._between(attribute)
        if operator in TEXT_PREDICATES:
            return TEXT_PREDICATES[operator](attribute, self._string())
        return self._comparison(attribute, cast(Operator, operator))

    def _comparison(self, attribute: str, operator: Operator) -> Comparison | ComparisonWithPrevious:
        start = self._cursor.token
        if start.kind not in ("number", "prev") and not start.is_symbol("-") and not start.is_symbol("("):
            return Comparison(attribute, operator, self._literal(_RIGHT_HAND_SIDE))
        expression = parse_expression(self._cursor)
        if start.kind == "number" and isinstance(expression, int | float):
            return Comparison(attribute, operator, expression)
        if not holds_previous(expression):
            self._cursor.fail("an expression needs prev(...); without it, write its value", start.position)
        return ComparisonWithPrevious(attribute, operator, expression)

    def _operator(self) -> str:
        token = self._cursor.token
        if token.is_keyword("not"):
            self._cursor.fail("a negation stands before the attribute, as in not (a in (1, 2))", token.position)
        if token.kind == "symbol" and token.value in ARITHMETIC_OPERATORS:
            message = "only an attribute stands on the left-hand side, as in value > prev(value) + 5"
            self._cursor.fail(message, token.position)
        if token.kind not in ("symbol", "keyword") or token.value not in _OPERATOR:
            self._cursor.unexpected(_OPERATOR)
        return cast(str, self._cursor.advance().value)

    def _between(self, attribute: str) -> Between:
        low = self._literal()
        if not self._cursor.token.is_keyword("and"):
            self._cursor.unexpected(("and",))
        self._cursor.advance()
        position = self._cursor.token.position
        high = self._literal()
        if kind_of(low) != kind_of(high):
            self._cursor.fail(f"the bounds differ in type: {kind_of(low)} and {kind_of(high)}", position)
        return Between(attribute, low, high)

    def _literals(self) -> tuple[Value, ...]:
        self._cursor.skip_symbol("(")
        values = [self._literal()]
        while self._cursor.token.is_symbol(","):
            self._cursor.advance()
            values.append(self._literal())
        self._cursor.skip_symbol(")", (",", ")"))
        return tuple(values)

    def _literal(self, expected: tuple[str, ...] = _LITERAL) -> Value:
        token = self._cursor.token
        if token.is_keyword("true") or token.is_keyword("false"):
            return self._cursor.advance().value == "true"
        if token.kind not in ("string", "number"):
            self._cursor.unexpected(expected)
        return self._cursor.advance().value

    def _string(self) -> str:
        if self._cursor.token.kind != "string":
            self._cursor.unexpected(("string",))
        return cast(str, self._cursor.advance().value)

    def _too_deep(self, position: int) -> Never:
        self._cursor.fail(f"the filter is nested deeper than {self._max_depth} levels", position)
