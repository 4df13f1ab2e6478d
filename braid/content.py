"""The content of a publication: read once where it enters, carried unread, read again by the matcher.

The canonical form is JSON, because it begins and ends as JSON: the connection point that accepts a publication
writes the canonical bytes once, and the one that delivers it splices them into its frame. Its members stand in the
order of `Content`, what was not given is left out, and `data` is always the last.
"""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec

from braid import problems
from braid.config import Limits
from braid.instants import format_instant, parse_instant
from braid.problems import Problem
from braid.topics import canonical_topic, parse_topic

Value = str | bool | int | float
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class Content(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A publication as a client writes it."""

    id: str = ""
    topic: Annotated[str, msgspec.Meta(description="a path (`air/madrid`) or a Dewey number (`1.4.2`)")] = ""
    attributes: dict[str, Value] = {}
    text: Annotated[str, msgspec.Meta(description="what the `words` of subscriptions are looked for in")] = ""
    zone: Annotated[
        dict[str, Any] | None, msgspec.Meta(description="a point, circle or box, or a GeoJSON Point or Polygon")
    ] = None
    object: str = ""
    expires: str | int | float | None = None
    data: msgspec.Raw = msgspec.Raw(b"")  # opaque; never decoded


class _Expiry(msgspec.Struct):
    expires: datetime | None = None


decode_content = msgspec.json.Decoder(Content).decode
decode_contents = msgspec.json.Decoder(list[Content]).decode
encode_content = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines
_decode_expiry = msgspec.json.Decoder(_Expiry).decode
_TO_CHECK = (b'"topic":', b'"zone":', b'"expires":', b'"":')
_AS_ZEROS = bytes.maketrans(b"123456789", 9 * b"0")
_LONG_NUMBER = 19 * b"0"  # those of 64 bits have as many digits, or fewer


def expiry_of(content: bytes) -> float:
    """When what is written canonically expires; most of it does not say."""
    if b'"expires":' not in content:
        return math.inf
    expires = _decode_expiry(content).expires
    return math.inf if expires is None else expires.timestamp()


def check_content(content: Content, limits: Limits, now: float) -> None:
    """Raises the `Problem` that names the first unusable field; writes topic, zone and expiry canonically."""
    if content.topic:
        _check_topic(content, limits)
    attributes = content.attributes
    if len(attributes) > limits.attributes_max:
        raise problems.limit_exceeded("limits.attributes_max", limits.attributes_max, len(attributes), "$.attributes")
    name_max, string_max = limits.name_length_max, limits.string_length_max
    for name, value in attributes.items():
        if len(name) > name_max or not name:
            _bad_name(name, limits, "$.attributes")
        if type(value) is str:
            if len(value) > string_max:
                _too_long(value, limits, f"$.attributes.{name}")
        elif type(value) is int and not INT64_MIN <= value <= INT64_MAX:
            raise problems.invalid(
                f"$.attributes.{name}", "an integer must fit into 64 bits; write larger ones as strings"
            )
    if len(content.text) > string_max:
        _too_long(content.text, limits, "$.text")
    for field in ("id", "object"):
        if len(getattr(content, field)) > name_max:
            _bad_name(getattr(content, field), limits, f"$.{field}")
    if content.zone is not None:
        content.zone = canonical_zone(content.zone)
    if content.expires is not None:
        content.expires = _absolute(content.expires, now, "$.expires")


def finish_content(content: Content, limits: Limits) -> bytes:
    """The canonical bytes of a checked content that has its id."""
    encoded = encode_content(content)
    if len(encoded) > limits.publication_bytes_max:
        raise problems.limit_exceeded("limits.publication_bytes_max", limits.publication_bytes_max, len(encoded), "$")
    return encoded


class ContentWriter:
    """The canonical bytes of checked contents. What is short as a whole has no part that is too long."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # An attribute takes at least five bytes ("":1,), so this also bounds their number.
        self._short = min(
            limits.name_length_max, limits.string_length_max, limits.publication_bytes_max, 5 * limits.attributes_max
        )

    def write(self, content: Content, now: float) -> bytes:
        """Raises the `Problem` that `check_content` or `finish_content` raises."""
        if content.topic:
            _check_topic(content, self._limits)
        if content.expires is None and content.zone is None:
            encoded = encode_content(content)
            if len(encoded) <= self._short and b'"":' not in encoded:
                for value in content.attributes.values():
                    if type(value) is int and not INT64_MIN <= value <= INT64_MAX:
                        break
                else:
                    return encoded
        check_content(content, self._limits, now)
        return finish_content(content, self._limits)

    def write_all(self, contents: Sequence[Content]) -> list[bytes] | None:
        """The same of many, in one go; None when one of them may have to be looked at by itself.

        What is looked for are fields that have to be checked, and numbers that may be too long. It may stand in a text,
        too: then nothing is lost but time.
        """
        lines = _encode_lines(contents)
        if any(part in lines for part in _TO_CHECK) or _LONG_NUMBER in lines.translate(_AS_ZEROS):
            return None
        written = lines.split(b"\n")
        del written[-1]
        if len(written) != len(contents) or max(map(len, written), default=0) > self._short:
            return None
        return written


def canonical_zone(given: dict[str, Any]) -> dict[str, Any]:
    """The one spelling of a zone, of a publication as of a subscription."""
    from braid.zones import ZoneError, check_zone  # a geometry library, which most processes do not need

    try:
        return check_zone(given)
    except ZoneError as error:
        raise problems.invalid(error.path.replace("$", "$.zone", 1), error.message) from None


def explain_decode_error(error: Exception, what: str) -> Problem:
    """A readable problem for whatever the JSON decoder raised."""
    if isinstance(error, RecursionError):
        return problems.malformed(f"{what} is nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return problems.malformed(f"{what} is not UTF-8: {error.reason} at byte {error.start}")
    text = str(error)
    if isinstance(error, msgspec.ValidationError):
        detail, _, path = text.partition(" - at `")
        return problems.invalid(path.rstrip("`") or "$", detail)
    return problems.malformed(f"{what} is not valid JSON: {text}")


DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def _absolute(expires: str | int | float, now: float, field: str) -> str:
    if isinstance(expires, float) and not math.isfinite(expires):
        raise problems.invalid(field, "expected a finite number")
    try:
        return format_instant(parse_instant(expires, now))
    except ValueError as error:
        raise problems.invalid(field, str(error)) from None


def _check_topic(content: Content, limits: Limits) -> None:
    if len(content.topic) > limits.name_length_max:
        _bad_name(content.topic, limits, "$.topic")
    try:
        content.topic = canonical_topic(parse_topic(content.topic))
    except ValueError as error:
        raise problems.invalid("$.topic", str(error)) from None


def _bad_name(name: str, limits: Limits, field: str) -> None:
    if not name:
        raise problems.invalid(field, "an attribute needs a name")
    raise problems.limit_exceeded("limits.name_length_max", limits.name_length_max, len(name), field)


def _too_long(value: str, limits: Limits, field: str) -> None:
    raise problems.limit_exceeded("limits.string_length_max", limits.string_length_max, len(value), field)
