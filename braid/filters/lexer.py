"""Cuts the text of a filter into tokens.

Tokens are produced on demand, so that the first error in reading order is the one that is reported,
be it one of spelling or one of grammar.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias, TypeVar, cast

from braid.filters.errors import FilterError, quoted
from braid.filters.literals import Value, literal_problem

KEYWORDS = frozenset({"and", "or", "not", "in", "between", "prefix", "suffix", "contains", "exists", "true", "false"})

_Literal = TypeVar("_Literal", str, int | float)
TokenKind: TypeAlias = Literal["name", "keyword", "string", "number", "symbol", "prev", "end"]


class Token(NamedTuple):
    """`value` is the unquoted name, the lower-case keyword, the literal's value or the symbol.

    `prev` is a token of its own before an opening parenthesis and a name elsewhere.
    """

    kind: TokenKind
    value: Value
    position: int
    source: str

    def is_keyword(self, keyword: str) -> bool:
        return self.kind == "keyword" and self.value == keyword

    def is_symbol(self, symbol: str) -> bool:
        return self.kind == "symbol" and self.value == symbol

    def __str__(self) -> str:
        return "end of filter" if self.kind == "end" else quoted(self.source)


# Letters are those of Unicode; `-` and `.` stand only between two other name characters. Among the characters of words
# are more digits than this leaves out at the beginning (², Ⅷ): `_begins_name` does.
_NAME = r"[^\W\d]\w*(?:[.\-]\w+)*"
_PLAIN_NAME = re.compile(_NAME)

# The quantifiers in quoted parts are possessive: a text without its closing quote must fail at its
# opening quote instead of being tried again as a shorter text.
_TOKEN = re.compile(
    rf"""
      (?P<space>   [ \t\r\n]+ )
    | (?P<mistake> == | <> | && | \|\| | !(?!=) | " )
    | (?P<symbol>  <= | >= | != | [=<>(),*/] )
    | (?P<prev>    (?i:prev) (?= [ \t\r\n]*\( ) )
    | (?P<name>    {_NAME} )
    | (?P<number>  [+-]?[0-9]+ (?: \.[0-9]+ )? (?: [eE][+-]?[0-9]+ )? )
    | (?P<sign>    [+-] )
    | '(?P<string> [^']*+ (?: ''[^']*+ )*+ )'
    | `(?P<quoted> [^`]*+ (?: ``[^`]*+ )*+ )`
    """,
    re.VERBOSE,
)
_SIGNS = "+-"
_NUMBER_TAIL = re.compile(r"[\w.]*")

_HINTS = {
    "==": "equality is written =",
    "<>": "inequality is written !=",
    "&&": "a conjunction is written and",
    "||": "a disjunction is written or",
    "!": "a negation is written not",
    '"': "strings are written in single quotes",
}


def is_plain_name(name: str) -> bool:
    """Whether an attribute's name can be written without backticks."""
    return _PLAIN_NAME.fullmatch(name) is not None and _begins_name(name) and name.lower() not in KEYWORDS


def tokens(text: str) -> Iterator[Token]:
    """The tokens of the text, ended by a token of kind `end`."""
    position = 0
    after_operand = False
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unreadable(text, position)
        kind, source = cast(str, match.lastgroup), match.group()
        if kind == "number" and after_operand and source[0] in _SIGNS:
            # A sign is part of a number only where no operand stands before it: `prev(a) -1` is a difference.
            kind, source = "sign", source[0]
        start, position = position, position + len(source)
        if kind != "space":
            token = _token(kind, source, start, text)
            after_operand = token.kind in ("name", "number") or token.is_symbol(")")
            yield token
    yield Token("end", "", position, "")


def _token(kind: str, source: str, position: int, text: str) -> Token:
    match kind:
        case "name":
            if not _begins_name(source):
                raise _unreadable(text, position)
            word = source.lower()
            return (
                Token("keyword", word, position, source)
                if word in KEYWORDS
                else Token("name", source, position, source)
            )
        case "quoted":
            return Token("name", _checked(source[1:-1].replace("``", "`"), position, text), position, source)
        case "string":
            return Token("string", _checked(source[1:-1].replace("''", "'"), position, text), position, source)
        case "number":
            return Token("number", _number(text, source, position), position, source)
        case "symbol" | "sign":
            return Token("symbol", source, position, source)
        case "prev":
            return Token("prev", "prev", position, source)
        case _:
            raise FilterError(f"unexpected {quoted(source)}: {_HINTS[source]}", position, text=text)


def _begins_name(name: str) -> bool:
    return name[0] == "_" or name[0].isalpha()


def _number(text: str, source: str, position: int) -> int | float:
    tail = _NUMBER_TAIL.match(text, position + len(source))
    if tail is not None and tail.group():
        raise FilterError(f"malformed number {quoted(source + tail.group())}", position, text=text)
    number: int | float
    if source.lstrip("+-").isdecimal():
        # Twenty digits are out of range already, and Python refuses to read thousands of them.
        digits = source.lstrip("+-0")[:20] or "0"
        number = -int(digits) if source.startswith("-") else int(digits)
    else:
        number = float(source)
    return _checked(number, position, text)


def _checked(value: _Literal, position: int, text: str) -> _Literal:
    problem = literal_problem(value)
    if problem is not None:
        raise FilterError(problem, position, text=text)
    return value


def _unreadable(text: str, position: int) -> FilterError:
    first = text[position]
    if first == "'":
        message = "the string has no closing quote"
    elif first == "`":
        message = "the attribute name has no closing backtick"
    else:
        message = f"unexpected {quoted(first)}"
    return FilterError(message, position, text=text)
