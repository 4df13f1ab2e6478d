"""Reads the text form of a filter.

Recursive descent, one method for each rule of the grammar. Every text gives a filter or a
`FilterError`: the recursion is bounded by `max_depth` and the size of the tree by `max_predicates`.
The length of the text is for the caller to bound.
"""

from typing import Never, cast

from braid.filters.errors import FilterError
from braid.filters.lexer import Token, tokens
from braid.filters.literals import Value, kind_of
from braid.filters.nodes import (
    OPERATORS,
    TEXT_PREDICATES,
    And,
    Between,
    Comparison,
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


def parse(text: str, *, max_depth: int = MAX_DEPTH, max_predicates: int = MAX_PREDICATES) -> Filter:
    """The filter that the text describes; raises FilterError and nothing else."""
    return _Parser(text, max_depth, max_predicates).parse()


class _Parser:
    def __init__(self, text: str, max_depth: int, max_predicates: int) -> None:
        self._text = text
        self._max_depth = max_depth
        self._max_predicates = max_predicates
        self._predicates = 0
        self._tokens = tokens(text)
        self._token = next(self._tokens)

    def parse(self) -> Filter:
        result = self._disjunction(0)
        if self._token.kind != "end":
            self._unexpected(("and", "or", "end of filter"))
        # Alternating `and` and `or` makes trees deeper than their parentheses. They are refused too, so
        # that a filter accepted as text is also accepted in its JSON form.
        if depth_of(result) > self._max_depth:
            self._too_deep(0)
        return result

    def _disjunction(self, depth: int) -> Filter:
        first = self._conjunction(depth)
        if not self._token.is_keyword("or"):
            return first
        parts = [first]
        while self._token.is_keyword("or"):
            self._advance()
            parts.append(self._conjunction(depth))
        return Or(tuple(parts))

    def _conjunction(self, depth: int) -> Filter:
        first = self._term(depth)
        if not self._token.is_keyword("and"):
            return first
        parts = [first]
        while self._token.is_keyword("and"):
            self._advance()
            parts.append(self._term(depth))
        return And(tuple(parts))

    def _term(self, depth: int) -> Filter:
        if self._token.is_keyword("not"):
            if depth == self._max_depth:
                self._too_deep(self._token.position)
            self._advance()
            # `not (` is one level, so that the parentheses the printer adds there cost nothing.
            if self._token.is_symbol("("):
                return Not(self._group(depth + 1))
            return Not(self._term(depth + 1))
        if self._token.is_symbol("("):
            if depth == self._max_depth:
                self._too_deep(self._token.position)
            return self._group(depth + 1)
        return self._predicate()

    def _group(self, depth: int) -> Filter:
        self._advance()
        inner = self._disjunction(depth)
        if not self._token.is_symbol(")"):
            self._unexpected(("and", "or", ")"))
        self._advance()
        return inner

    def _predicate(self) -> Predicate:
        start = self._token
        if start.kind != "name" and not start.is_keyword("exists"):
            self._unexpected(_TERM)
        self._predicates += 1
        if self._predicates > self._max_predicates:
            self._fail(f"the filter has more than {self._max_predicates} predicates", start.position)
        if start.kind == "keyword":
            self._advance()
            return Exists(self._attribute())
        attribute = self._attribute()
        operator = self._operator()
        if operator == "in":
            return In(attribute, self._literals())
        if operator == "between":
            return self._between(attribute)
        if operator in TEXT_PREDICATES:
            return TEXT_PREDICATES[operator](attribute, self._string())
        return Comparison(attribute, cast(Operator, operator), self._literal())

    def _operator(self) -> str:
        token = self._token
        if token.is_keyword("not"):
            self._fail("a negation stands before the attribute, as in not (a in (1, 2))", token.position)
        if token.kind not in ("symbol", "keyword") or token.value not in _OPERATOR:
            self._unexpected(_OPERATOR)
        return cast(str, self._advance().value)

    def _attribute(self) -> str:
        if self._token.kind != "name":
            self._unexpected(("attribute",))
        return cast(str, self._advance().value)

    def _between(self, attribute: str) -> Between:
        low = self._literal()
        if not self._token.is_keyword("and"):
            self._unexpected(("and",))
        self._advance()
        position = self._token.position
        high = self._literal()
        if kind_of(low) != kind_of(high):
            self._fail(f"the bounds differ in type: {kind_of(low)} and {kind_of(high)}", position)
        return Between(attribute, low, high)

    def _literals(self) -> tuple[Value, ...]:
        if not self._token.is_symbol("("):
            self._unexpected(("(",))
        self._advance()
        values = [self._literal()]
        while self._token.is_symbol(","):
            self._advance()
            values.append(self._literal())
        if not self._token.is_symbol(")"):
            self._unexpected((",", ")"))
        self._advance()
        return tuple(values)

    def _literal(self) -> Value:
        token = self._token
        if token.is_keyword("true") or token.is_keyword("false"):
            return self._advance().value == "true"
        if token.kind not in ("string", "number"):
            self._unexpected(_LITERAL)
        return self._advance().value

    def _string(self) -> str:
        if self._token.kind != "string":
            self._unexpected(("string",))
        return cast(str, self._advance().value)

    def _advance(self) -> Token:
        """Moves past the current token and returns it; the end stays where it is."""
        token = self._token
        if token.kind != "end":
            self._token = next(self._tokens)
        return token

    def _unexpected(self, expected: tuple[str, ...]) -> Never:
        token = self._token
        message = f"unexpected {token}"
        if token.kind == "name" and "string" in expected:
            message += " (strings are written in single quotes)"
        self._fail(message, token.position, expected)

    def _too_deep(self, position: int) -> Never:
        self._fail(f"the filter is nested deeper than {self._max_depth} levels", position)

    def _fail(self, message: str, position: int, expected: tuple[str, ...] = ()) -> Never:
        raise FilterError(message, position, expected, self._text)
