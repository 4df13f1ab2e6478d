"""One request body, in any of the accepted forms, as a list of publications."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from starlette.datastructures import Headers

from braid.config import Limits
from braid.content import DECODE_ERRORS, Content, decode_content, decode_contents
from braid.problems import Problem
from services.connpoint.http import cloudevents
from services.connpoint.http.bodies import as_text
from services.connpoint.http.decoding import (
    check_batch_size,
    check_not_huge,
    explain,
    moved,
    split_index,
)

JSON = "application/json"
LINES = ("application/x-ndjson", "application/jsonl")
ACCEPTED = (JSON, *LINES, cloudevents.STRUCTURED, cloudevents.STRUCTURED_BATCH)

Place = Callable[[int, str], dict[str, Any]]


class Batch(NamedTuple):
    contents: list[Content]
    place: Place  # where the client wrote it: index and path inside a publication → members of a problem

    def blame(self, problem: Problem) -> Problem:
        """A problem that was found behind the door, in the words of what the client sent."""
        field = problem.members.get("field")
        if not isinstance(field, str) or not field.startswith("$"):
            return problem
        return moved(problem, **self.place(*split_index(field)))


def read_batch(body: bytes, headers: Headers, limits: Limits) -> Batch:
    """Raises the `Problem` that says what is wrong and where."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    batch_max = limits.batch_publications_max
    if media_type == cloudevents.STRUCTURED:
        return Batch([cloudevents.read_event(as_text(body))], _place_in_event)
    if media_type == cloudevents.STRUCTURED_BATCH:
        text = as_text(body)
        check_not_huge(text, batch_max, list[msgspec.Raw], "$")
        events = cloudevents.read_events(text)
        check_batch_size(len(events), batch_max)
        return Batch(events, _place_in_events)
    if cloudevents.is_binary(headers):
        return Batch([cloudevents.read_binary(headers, media_type, body)], _place_in_headers)
    if media_type in LINES:
        return _read_lines(as_text(body), batch_max)
    if media_type in (JSON, ""):
        return _read_json(as_text(body), batch_max)
    detail = f"'{media_type}' is not accepted; send one of {', '.join(ACCEPTED)}, or a CloudEvent in binary mode"
    raise Problem(
        415, "unsupported-media-type", "Unsupported media type", detail, accepted=list(ACCEPTED), field="Content-Type"
    )


def _read_json(text: str, batch_max: int) -> Batch:
    try:
        if text.lstrip(" \t\r\n").startswith("["):
            check_not_huge(text, batch_max, list[msgspec.Raw], "$")
            contents = decode_contents(text)
            check_batch_size(len(contents), batch_max)
            return Batch(contents, _place_in_array)
        return Batch([decode_content(text)], _place_in_object)
    except DECODE_ERRORS as error:
        raise explain(error, text) from None


def _read_lines(text: str, batch_max: int) -> Batch:
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line and not line.isspace()]
    check_batch_size(len(lines), batch_max)

    def place(index: int, path: str) -> dict[str, Any]:
        return {"field": f"${path}", "line": lines[index][0]}

    contents: list[Content] = []
    for number, line in lines:
        try:
            contents.append(decode_content(line))
        except DECODE_ERRORS as error:
            problem = explain(error, line, f"line {number}")
            raise moved(problem, problem.members.get("field", "$"), line=number) from None
    return Batch(contents, place)


def _place_in_object(_index: int, path: str) -> dict[str, Any]:
    return {"field": f"${path}"}


def _place_in_array(index: int, path: str) -> dict[str, Any]:
    return {"field": f"$[{index}]{path}"}


def _place_in_event(_index: int, path: str) -> dict[str, Any]:
    return {"field": f"${path.removeprefix('.attributes')}"}


def _place_in_events(index: int, path: str) -> dict[str, Any]:
    return {"field": f"$[{index}]{path.removeprefix('.attributes')}"}


def _place_in_headers(_index: int, path: str) -> dict[str, Any]:
    """Data is the body; everything else came in a header."""
    name = path.removeprefix(".attributes").removeprefix(".")
    return {"field": f"{cloudevents.HEADER_PREFIX}{name}" if name else "$"}
