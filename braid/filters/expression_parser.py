"""Reads the arithmetic on the right-hand side of a comparison.

The recursion is bounded twice: every minus and every operator is a node of the expression, of which there are at
most `MAX_EXPRESSION_NODES`, and no more parentheses than that may be open at once.
"""

from typing import cast

from braid.filters.cursor import Cursor
from braid.filters.expressions import (
    ARITHMETIC_OPERATORS,
    MAX_EXPRESSION_NODES,
    Arithmetic,
    ArithmeticOperator,
    Expression,
    Negation,
    Previous,
)

# What an expression begins with.
OPERAND = ("number", "prev", "-", "(")


def parse_expression(cursor: Cursor) -> Expression:
    """The expression at the cursor, which is left behind it. `prev(...)` need not occur in it."""
    return _ExpressionParser(cursor).sum(0)


class _ExpressionParser:
    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._nodes = 0

    def sum(self, depth: int) -> Expression:
        result = self._product(depth)
        while (operator := self._operator(("+", "-"))) is not None:
            result = Arithmetic(operator, result, self._product(depth))
        return result

    def _product(self, depth: int) -> Expression:
        result = self._factor(depth)
        while (operator := self._operator(("*", "/"))) is not None:
            result = Arithmetic(operator, result, self._factor(depth))
        return result

    def _operator(self, wanted: tuple[ArithmeticOperator, ...]) -> ArithmeticOperator | None:
        token = self._cursor.token
        if token.kind != "symbol" or token.value not in wanted:
            return None
        self._count_node()
        return cast(ArithmeticOperator, self._cursor.advance().value)

    def _factor(self, depth: int) -> Expression:
        token = self._cursor.token
        if token.is_symbol("("):
            return self._group(depth)
        if token.is_symbol("-"):
            self._count_node()
            self._cursor.advance()
            return Negation(self._factor(depth))
        if token.kind == "number":
            self._count_node()
            return cast(int | float, self._cursor.advance().value)
        return self._previous()

    def _group(self, depth: int) -> Expression:
        if depth == MAX_EXPRESSION_NODES:
            message = f"the expression is nested deeper than {MAX_EXPRESSION_NODES} levels"
            self._cursor.fail(message, self._cursor.token.position)
        self._cursor.advance()
        inner = self.sum(depth + 1)
        self._cursor.skip_symbol(")", (*ARITHMETIC_OPERATORS, ")"))
        return inner

    def _previous(self) -> Previous:
        if self._cursor.token.kind != "prev":
            self._cursor.unexpected(OPERAND)
        self._count_node()
        self._cursor.advance()
        self._cursor.skip_symbol("(")
        attribute = self._cursor.attribute()
        self._cursor.skip_symbol(")")
        return Previous(attribute)

    def _count_node(self) -> None:
        self._nodes += 1
        if self._nodes > MAX_EXPRESSION_NODES:
            message = f"the expression has more than {MAX_EXPRESSION_NODES} numbers, attributes and operators"
            self._cursor.fail(message, self._cursor.token.position)
