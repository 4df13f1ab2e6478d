"""A place in the text of a filter: what the parsers read from, and how they say what is wrong there."""

from typing import Never, cast

from braid.filters.errors import FilterError
from braid.filters.lexer import Token, tokens

_PREV_HINT = "prev(attribute) stands to the right of = != < <= > >="


class Cursor:
    """The tokens of a text, one at a time."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = tokens(text)
        self.token = next(self._tokens)

    def advance(self) -> Token:
        """Moves past the current token and returns it; the end stays where it is."""
        token = self.token
        if token.kind != "end":
            self.token = next(self._tokens)
        return token

    def skip_symbol(self, symbol: str, expected: tuple[str, ...] = ()) -> None:
        if not self.token.is_symbol(symbol):
            self.unexpected(expected or (symbol,))
        self.advance()

    def attribute(self) -> str:
        if self.token.kind != "name":
            self.unexpected(("attribute",))
        return cast(str, self.advance().value)

    def unexpected(self, expected: tuple[str, ...]) -> Never:
        token = self.token
        message = f"unexpected {token}"
        if token.kind == "prev":
            message += f" ({_PREV_HINT})"
        elif token.kind == "name" and "string" in expected:
            message += " (strings are written in single quotes)"
        elif token.kind == "name" and "prev" in expected:
            message += " (arithmetic takes numbers and prev(attribute))"
        self.fail(message, token.position, expected)

    def fail(self, message: str, position: int, expected: tuple[str, ...] = ()) -> Never:
        raise FilterError(message, position, expected, self.text)
