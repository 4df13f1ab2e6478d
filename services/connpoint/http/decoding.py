"""Turns what the JSON decoder complains about into problems that name the very field."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from braid import problems
from braid.content import DECODE_ERRORS, Value, explain_decode_error
from braid.problems import Problem

T = TypeVar("T")

_NAMED_FIELD = re.compile(r"Object (?:missing required|contains unknown) field `(.*)`", re.DOTALL)
_INDEX = re.compile(r"\$\[(\d+)\](.*)", re.DOTALL)
_UNNAMED = "[...]"
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[\.\.\.\]")

_decode_value = msgspec.json.Decoder(Value).decode
_decode_anything = msgspec.json.Decoder().decode
_decode_names = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode


def decoded(text: str, decode: Callable[[str], T]) -> T:
    """The body, or the `Problem` that says where it is wrong."""
    try:
        return decode(text)
    except DECODE_ERRORS as error:
        raise explain(error, text) from None


def explain(error: Exception, text: str, what: str = "the body") -> Problem:
    """As `explain_decode_error`, but `$[3].attributes[...]` becomes `$[3].attributes.x`, and so on."""
    problem = explain_decode_error(error, what)
    field = problem.members.get("field")
    if field is None:
        return problem
    if named := _NAMED_FIELD.match(problem.detail):
        return moved(problem, f"{field}.{named[1]}")
    if _UNNAMED in field:
        return moved(problem, _with_names(text, field))
    return problem


def moved(problem: Problem, field: str, **members: Any) -> Problem:
    """The same problem, found elsewhere."""
    return Problem(
        problem.status,
        problem.kind,
        problem.title,
        problem.detail,
        **{**problem.members, **members, "field": field},
    )


def split_index(field: str) -> tuple[int, str]:
    """`$[3].attributes.x` → 3 and `.attributes.x`; a path without an index speaks of the first."""
    indexed = _INDEX.fullmatch(field)
    return (int(indexed[1]), indexed[2]) if indexed else (0, field.removeprefix("$"))


def check_not_huge(text: str, batch_max: int, elements: type[Any], field: str, what: str = "the body") -> None:
    """Refuses an oversized batch before millions of objects are made of it.

    A publication has at least an opening brace and three characters with its comma, so most need no closer look.
    `elements` is how to find the list: `list[Raw]`, or a structure that has it in `publications`.
    """
    if len(text) <= 3 * batch_max or text.count("{") <= batch_max:
        return
    try:
        counted = msgspec.json.decode(text, type=elements)
    except DECODE_ERRORS as error:
        raise explain(error, text, what) from None
    size = len(getattr(counted, "publications", counted))
    if size > batch_max:
        check_batch_size(size, batch_max, field)


def check_batch_size(size: int, batch_max: int, field: str = "$") -> None:
    if size > batch_max:
        raise problems.limit_exceeded("limits.batch_publications_max", batch_max, size, field)
    if not size:
        raise problems.invalid(field, "expected at least one publication")


def _with_names(text: str, path: str) -> str:
    """The decoder does not say under which name the wrong value stood, so the way is walked once more."""
    raw: Any = text
    walked, at = "$", ""
    try:
        for step in _STEP.finditer(path):
            name, index = step.groups()
            if index is not None:
                raw = _decode_elements(raw)[int(index)]
                walked += step[0]
                continue
            members = _decode_names(raw)
            if name is None:
                decode = _decode_value if at == "attributes" else _decode_anything
                name = next(member for member, value in members.items() if not _is_decoded_by(decode, value))
            raw, at = members[name], name
            walked += f".{name}"
    except (*DECODE_ERRORS, LookupError, StopIteration):
        return path
    return walked


def _is_decoded_by(decode: Callable[[msgspec.Raw], Any], value: msgspec.Raw) -> bool:
    try:
        decode(value)
    except DECODE_ERRORS:
        return False
    return True
