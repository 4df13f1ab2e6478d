"""Subscriptions as the other matchers write them: one JSON object for each, over the same publications.

The attributes of a publication stand under `attributes`, so that is where a rule looks for them.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from braid.filters import And, Between, Comparison, Contains, Not, Or, Predicate, Prefix, Suffix, parse

_SPECIAL = set("*\\")  # in wildcards
_NUMERIC = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte", "=": "eq"}


class UntranslatableError(Exception):
    """The other matcher has no rule that says this; the text says what is missing."""


Translator = Callable[[str], bytes]


def event_ruler(filter: str) -> bytes:
    return _nested(filter, _event_ruler)


def quamina(filter: str) -> bytes:
    return _nested(filter, _quamina)


def hypermatch(filter: str) -> bytes:
    return msgspec.json.encode({f"attributes.{part.attribute}": _hypermatch(part) for part in _parts(filter)})


def _nested(filter: str, write: Callable[[Predicate], Any]) -> bytes:
    return msgspec.json.encode({"attributes": {part.attribute: [write(part)] for part in _parts(filter)}})


def _parts(filter: str) -> list[Predicate]:
    """The conditions, all of which must hold."""
    node = parse(filter)
    found: dict[str, Predicate] = {}
    for part in node.parts if isinstance(node, And) else (node,):
        if isinstance(part, And | Or | Not):
            raise UntranslatableError(f"only conditions joined by 'and' are translated: {filter}")
        if part.attribute in found:
            raise UntranslatableError(f"only one condition on an attribute is translated: {filter}")
        found[part.attribute] = part
    return list(found.values())


def _event_ruler(part: Predicate) -> Any:
    match part:
        case Comparison(_, "=", str(value)):
            return value
        case Comparison(_, "<" | "<=" | ">" | ">=" | "=" as operator, int() | float() as value):
            return {"numeric": [operator, value]}
        case Between(_, int() | float() as low, int() | float() as high):
            return {"numeric": ["=", low] if low == high else [">=", low, "<=", high]}
        case Prefix(_, text):
            return {"prefix": text}
        case Suffix(_, text):
            return {"suffix": text}
        case Contains(_, text):
            return {"wildcard": f"*{_plain(text)}*"}
    raise UntranslatableError(f"event-ruler cannot say: {part}")


def _quamina(part: Predicate) -> Any:
    match part:
        case Comparison(_, "=", value):
            return value
        case Prefix(_, text):
            return {"prefix": text}
        case Suffix(_, text):
            return {"shellstyle": f"*{_plain(text)}"}
        case Contains(_, text):
            return {"shellstyle": f"*{_plain(text)}*"}
    raise UntranslatableError(f"quamina cannot say: {part}")


def _hypermatch(part: Predicate) -> Any:
    match part:
        case Comparison(_, "=", str(value)):
            return {"equals": value}
        case Comparison(_, "<" | "<=" | ">" | ">=" | "=" as operator, int() | float() as value):
            return {_NUMERIC[operator]: value}
        case Between(_, int() | float() as low, int() | float() as high):
            return {"between": [{"gte": low}, {"lte": high}]}
        case Prefix(_, text):
            return {"prefix": text}
        case Suffix(_, text):
            return {"suffix": text}
        case Contains(_, text):
            return {"wildcard": f"*{_plain(text)}*"}
    raise UntranslatableError(f"hypermatch cannot say: {part}")


def _plain(text: str) -> str:
    if _SPECIAL & set(text):
        raise UntranslatableError(f"'{text}' holds a character that stands for others")
    return text
