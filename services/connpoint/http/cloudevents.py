"""CloudEvents 1.0: structured and binary events become publications.

`id` stays the id; `source`, `type`, `subject`, `time`, `dataschema`, `datacontenttype` and all extensions become
attributes of the same name, except the extensions named in `_FIELDS`, which fill the field of a publication.
"""

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.datastructures import Headers

from braid import problems
from braid.content import DECODE_ERRORS, Content
from services.connpoint.http.bodies import as_text
from services.connpoint.http.decoding import explain

STRUCTURED = "application/cloudevents+json"
STRUCTURED_BATCH = "application/cloudevents-batch+json"
HEADER_PREFIX = "ce-"

Event = dict[str, msgspec.Raw]

_REQUIRED = ("specversion", "id", "source", "type")
_FIELDS = {"topic": "topic", "object": "object", "text": "text", "expires": "expires", "expirytime": "expires"}
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')

_decode_event = msgspec.json.Decoder(Event).decode
_decode_events = msgspec.json.Decoder(list[Event]).decode
_decode_attribute: Callable[[msgspec.Raw], str | bool | int | None]
_decode_attribute = msgspec.json.Decoder(str | bool | int | None).decode
_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode
_encode = msgspec.json.encode


def read_event(text: str) -> Content:
    try:
        event = _decode_event(text)
    except DECODE_ERRORS as error:
        raise explain(error, text) from None
    return _content(event, "$")


def read_events(text: str) -> list[Content]:
    try:
        events = _decode_events(text)
    except DECODE_ERRORS as error:
        raise explain(error, text) from None
    return [_content(event, f"$[{index}]") for index, event in enumerate(events)]


def is_binary(headers: Headers) -> bool:
    return any(name.startswith(HEADER_PREFIX) for name in headers)


def read_binary(headers: Headers, media_type: str, body: bytes) -> Content:
    """Attributes stand in `ce-` headers, always as strings; the body is the data."""
    attributes = {
        name.removeprefix(HEADER_PREFIX): _header_value(value)
        for name, value in headers.items()
        if name.startswith(HEADER_PREFIX)
    }
    return read_attributes(attributes, HEADER_PREFIX, headers.get("content-type"), media_type, body)


def read_attributes(
    given: Mapping[str, str], prefix: str, content_type: str | None, media_type: str, body: bytes
) -> Content:
    """An event in binary mode, of whatever protocol; `prefix` is what its names have there."""
    attributes: dict[str, str | bool | int] = dict(given)
    _check_required(attributes, prefix)
    if content_type is not None:
        attributes["datacontenttype"] = content_type
    content = _fill(attributes, prefix)
    if body:
        content.data = msgspec.Raw(_binary_data(media_type, body))
    return content


def _content(event: Event, where: str) -> Content:
    data, encoded = event.pop("data", None), event.pop("data_base64", None)
    attributes: dict[str, str | bool | int] = {}
    for name, raw in event.items():
        value = _attribute(raw, f"{where}.{name}")
        if value is not None:  # null is the same as absent
            attributes[name] = value
    _check_required(attributes, f"{where}.")
    content = _fill(attributes, f"{where}.")
    if encoded is not None:
        if data is not None:
            raise problems.invalid(f"{where}.data_base64", "an event has either 'data' or 'data_base64'")
        content.data = msgspec.Raw(_encode({"data_base64": _checked_base64(encoded, f"{where}.data_base64")}))
    elif data is not None:
        content.data = data
    return content


def _attribute(raw: msgspec.Raw, field: str) -> str | bool | int | None:
    try:
        return _decode_attribute(raw)
    except DECODE_ERRORS:
        raise problems.invalid(field, "an attribute of a CloudEvent is a string, an integer or a boolean") from None


def _check_required(attributes: dict[str, Any], where: str) -> None:
    for name in _REQUIRED:
        value = attributes.get(name)
        if not isinstance(value, str) or not value:
            raise problems.invalid(f"{where}{name}", "a CloudEvent needs this, as a string that is not empty")
    if attributes["specversion"] != "1.0":
        raise problems.invalid(f"{where}specversion", "expected '1.0'")


def _fill(attributes: dict[str, Any], where: str) -> Content:
    """Moves what has a field of its own there; the rest stays attributes."""
    del attributes["specversion"]
    content = Content(id=attributes.pop("id"), attributes=attributes)
    for name, field in _FIELDS.items():
        if name not in attributes:
            continue
        value = attributes.pop(name)
        if not isinstance(value, str) and not (field == "expires" and type(value) is int):
            raise problems.invalid(f"{where}{name}", "expected a string")
        setattr(content, field, value)
    return content


def _checked_base64(raw: msgspec.Raw, field: str) -> str:
    text = _attribute(raw, field)
    try:
        if not isinstance(text, str):
            raise ValueError
        base64.b64decode(text, validate=True)
    except ValueError:
        raise problems.invalid(field, "expected base64") from None
    return text


def _binary_data(media_type: str, body: bytes) -> bytes:
    if not media_type or media_type == "application/json" or media_type.endswith("+json"):
        text = as_text(body)
        try:
            return bytes(_decode_raw(text))
        except DECODE_ERRORS as error:
            raise explain(error, text) from None
    if media_type.startswith("text/"):
        return _encode(as_text(body))
    return _encode(base64.b64encode(body).decode())


def _header_value(value: str) -> str:
    """Undoes the quoting and percent-encoding of the HTTP binding."""
    if quoted := _QUOTED.fullmatch(value):
        value = re.sub(r"\\(.)", r"\1", quoted[1])
    return unquote(value, errors="replace")
