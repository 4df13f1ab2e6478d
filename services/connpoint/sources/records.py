"""What becomes of a record of Kafka: a publication, or a reason why not. Pure, and always the same for the same record.

| format        | the value is                                    | becomes                                           |
|---------------|-------------------------------------------------|---------------------------------------------------|
| `publication` | a publication, as `POST /v1/publications` takes | itself                                            |
| `cloudevents` | a CloudEvent, in structured or in binary mode   | what the same event becomes over HTTP             |
| `attributes`  | a JSON object                                   | its strings, numbers and booleans are attributes, |
|               |                                                 | the whole is `data`                               |

`auto` is `cloudevents` where headers say so, else `publication`. Then, where the value does not say otherwise, the key
and the headers become attributes, the topic is the one of the settings, and the id is the place of the record.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from braid.config import Limits, Source
from braid.content import DECODE_ERRORS, Content, ContentWriter, decode_content, explain_decode_error
from braid.problems import Problem
from services.connpoint.http import cloudevents

EVENT_PREFIX = "ce_"  # of the headers of an event in binary mode
CONTENT_TYPE = "content-type"
_VERSION = f"{EVENT_PREFIX}specversion"

_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_decode_lines = msgspec.json.Decoder(Content).decode_lines


class Record(Protocol):
    """A record as Kafka has it; what is needed of aiokafka's."""

    topic: str
    partition: int
    offset: int
    timestamp: int  # in milliseconds
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


class BadRecordError(ValueError):
    """It cannot be published; the message says why."""


class RecordReader:
    """Reads the records of one source."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self._format = source.format
        self._topic = source.publication_topic
        self._key_attribute = source.key_attribute
        self._writer = ContentWriter(limits)

    def read_all(self, records: Sequence[Record]) -> tuple[list[bytes | None], list[tuple[Record, str]]]:
        """Of each the canonical content; and those that cannot be published, with the reason. Of one partition."""
        contents = self._decoded_together(records)
        if contents is not None:
            self._fill_all(contents, records)
            written = self._writer.write_all(contents)
            if written is not None:
                return [*written], []
        found: list[bytes | None] = []
        bad: list[tuple[Record, str]] = []
        for record in records:
            try:
                found.append(self.read(record))
            except BadRecordError as error:
                found.append(None)
                bad.append((record, str(error)))
        return found, bad

    def _decoded_together(self, records: Sequence[Record]) -> list[Content] | None:
        """Publications without headers that are a line each; None when some are not, or one cannot be read.

        The decoder takes several objects in one line, and one that goes on in the next. So each line has to begin with
        a brace and end with one: nothing that is still open can go on with a brace, so each line has whole objects, one
        at least, and as many objects as there are lines are one in each.
        """
        if self._format not in ("publication", "auto") or any(record.headers for record in records):
            return None
        values = [record.value for record in records if record.value is not None]
        lines = b"\n".join(values)
        joints = len(values) - 1
        if len(values) != len(records) or lines.count(b"\n") != joints or lines.count(b"}\n{") != joints:
            return None
        if not (lines.startswith(b"{") and lines.endswith(b"}")):
            return None
        try:
            contents = _decode_lines(lines.decode())
        except DECODE_ERRORS:
            return None
        return contents if len(contents) == len(records) else None

    def read(self, record: Record) -> bytes:
        """The canonical content. Raises `BadRecordError`."""
        value = record.value
        if value is None:
            raise BadRecordError("the record has no value")
        headers = _texts(record.headers) if record.headers else {}
        try:
            content = self._content(value, headers)
            self._fill(content, record, headers)
            # What is relative is relative to when the record was written: read again, it is the same.
            return self._writer.write(content, record.timestamp / 1000)
        except Problem as problem:
            raise BadRecordError(_reason(problem)) from None
        except DECODE_ERRORS as error:
            raise BadRecordError(_reason(explain_decode_error(error, "the value"))) from None

    def _content(self, value: bytes, headers: dict[str, str]) -> Content:
        format = self._format
        if format == "auto":
            format = "cloudevents" if headers and _is_event(headers) else "publication"
        if format == "publication":
            return decode_content(value.decode())
        if format == "attributes":
            return _of_object(value.decode())
        if _VERSION not in headers:
            return cloudevents.read_event(value.decode())
        attributes = {
            name.removeprefix(EVENT_PREFIX): text for name, text in headers.items() if name.startswith(EVENT_PREFIX)
        }
        content_type = headers.get(CONTENT_TYPE)
        media_type = (content_type or "").partition(";")[0].strip().lower()
        return cloudevents.read_attributes(attributes, EVENT_PREFIX, content_type, media_type, value)

    def _fill_all(self, contents: Sequence[Content], records: Sequence[Record]) -> None:
        """As `_fill` does, of those without headers."""
        name, topic, place = self._key_attribute, self._topic, f"{records[0].topic}-{records[0].partition}-"
        for content, record in zip(contents, records, strict=True):
            key = record.key
            if key is not None and name and name not in content.attributes:
                with_key = _text(key)
                if with_key is not None:
                    content.attributes[name] = with_key
            if topic and not content.topic:
                content.topic = topic
            if not content.id:
                content.id = f"{place}{record.offset}"

    def _fill(self, content: Content, record: Record, headers: dict[str, str]) -> None:
        """What the value says itself comes first, then the headers, then the key."""
        attributes = content.attributes
        for name, text in headers.items():
            if name not in attributes and name != CONTENT_TYPE and not name.startswith(EVENT_PREFIX):
                attributes[name] = text
        name = self._key_attribute
        if name and record.key is not None and name not in attributes and (key := _text(record.key)) is not None:
            attributes[name] = key
        if self._topic and not content.topic:
            content.topic = self._topic
        if not content.id:
            content.id = f"{record.topic}-{record.partition}-{record.offset}"


def _is_event(headers: dict[str, str]) -> bool:
    return _VERSION in headers or headers.get(CONTENT_TYPE, "").lower().startswith(cloudevents.STRUCTURED)


def _of_object(text: str) -> Content:
    attributes = {
        name: value for name, value in _decode_object(text).items() if isinstance(value, str | bool | int | float)
    }
    return Content(attributes=attributes, data=msgspec.Raw(text.encode()))


def _texts(headers: Sequence[tuple[str, bytes]]) -> dict[str, str]:
    """Those that are text; of several with one name, the last."""
    decoded = ((name, _text(value)) for name, value in headers if value is not None)
    return {name: text for name, text in decoded if text is not None}


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _reason(problem: Problem) -> str:
    field = problem.members.get("field")
    return f"{field}: {problem.detail}" if field else problem.detail
