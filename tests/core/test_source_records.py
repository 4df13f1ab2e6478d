"""What becomes of a record of Kafka: a publication in each format, or the reason why it is none."""

import base64
import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.config import Limits, Source
from services.connpoint.sources.letters import dead_letter, without_value
from services.connpoint.sources.records import BadRecordError, Record, RecordReader


class ARecord(msgspec.Struct):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


EVENT = {"specversion": "1.0", "id": "e-1", "source": "/stations/4", "type": "air.reading"}


def record(value: Any, key: bytes | None = None, headers: dict[str, str | bytes] | None = None) -> Record:
    encoded = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    given = [(name, text if isinstance(text, bytes) else text.encode()) for name, text in (headers or {}).items()]
    return ARecord("air", 2, 41, 1_700_000_000_000, key, encoded, given)


def read(one: Record, limits: Limits | None = None, **source: Any) -> Any:
    return json.loads(RecordReader(Source(topic="air", **source), limits or Limits()).read(one))


def reason(one: Record, limits: Limits | None = None, **source: Any) -> str:
    with pytest.raises(BadRecordError) as raised:
        read(one, limits, **source)
    return str(raised.value)


# Publications


def test_a_publication_keeps_what_it_says_and_gets_its_place_as_id() -> None:
    given = {"topic": "air/madrid", "attributes": {"value": 41.5}, "text": "high", "data": [1, {"a": None}]}
    assert read(record(given)) == {"id": "air-2-41", **given}
    assert read(record({"id": "mine"})) == {"id": "mine"}


def test_key_and_headers_are_attributes_where_the_publication_does_not_say_otherwise() -> None:
    given = {"attributes": {"value": 1, "unit": "µg"}}
    headers: dict[str, str | bytes] = {"unit": "ppm", "trace": "abc", "content-type": "application/json"}
    assert read(record(given, b"station-4", headers))["attributes"] == {
        "key": "station-4",
        "trace": "abc",
        "unit": "µg",
        "value": 1,
    }


def test_the_key_has_the_name_that_the_source_gives_it_or_none() -> None:
    assert read(record({}, b"4"), key_attribute="station")["attributes"] == {"station": "4"}
    assert "attributes" not in read(record({}, b"4"), key_attribute="")


def test_key_and_headers_that_are_no_text_are_left_out() -> None:
    assert read(record({}, b"\xff", {"binary": b"\xfe", "text": "a"}))["attributes"] == {"text": "a"}


def test_the_topic_of_the_source_is_for_those_without_one() -> None:
    assert read(record({}), publication_topic="air/madrid")["topic"] == "air/madrid"
    assert read(record({"topic": "noise"}), publication_topic="air/madrid")["topic"] == "noise"


def test_a_relative_time_counts_from_when_the_record_was_written() -> None:
    assert read(record({"expires": "+10m"}))["expires"] == "2023-11-14T22:23:20.000Z"


# Objects


def test_plain_members_of_an_object_are_attributes_and_the_whole_is_data() -> None:
    given = {"station": "4", "value": 41.5, "ok": True, "n": 3, "where": {"lat": 1}, "tags": ["a"], "gone": None}
    assert read(record(given), format="attributes") == {
        "id": "air-2-41",
        "attributes": {"station": "4", "value": 41.5, "ok": True, "n": 3},
        "data": given,
    }


# CloudEvents


def test_a_structured_event() -> None:
    given = {**EVENT, "topic": "air/madrid", "pollutant": "NO2", "data": {"value": 41.5}}
    structured: dict[str, str | bytes] = {"content-type": "application/cloudevents+json; charset=UTF-8"}
    assert read(record(given, b"4", structured)) == {
        "id": "e-1",
        "topic": "air/madrid",
        "attributes": {"source": "/stations/4", "type": "air.reading", "pollutant": "NO2", "key": "4"},
        "data": {"value": 41.5},
    }
    assert read(record(given), format="cloudevents")["id"] == "e-1"


def test_an_event_in_binary_mode() -> None:
    headers: dict[str, str | bytes] = {f"ce_{name}": text for name, text in EVENT.items()}
    headers |= {"ce_pollutant": "NO2 100%25", "content-type": "application/json", "trace": "abc"}
    assert read(record({"value": 41.5}, None, headers)) == {
        "id": "e-1",
        "attributes": {
            "source": "/stations/4",
            "type": "air.reading",
            "pollutant": "NO2 100%25",  # nothing is escaped in the headers of Kafka
            "datacontenttype": "application/json",
            "trace": "abc",
        },
        "data": {"value": 41.5},
    }


@pytest.mark.parametrize(
    ("content_type", "value", "data"),
    [
        ("text/plain", "ozón".encode(), "ozón"),
        ("application/octet-stream", b"\xff\x00", base64.b64encode(b"\xff\x00").decode()),
    ],
)
def test_the_data_of_an_event_in_binary_mode(content_type: str, value: bytes, data: str) -> None:
    headers: dict[str, str | bytes] = {f"ce_{name}": text for name, text in EVENT.items()}
    assert read(record(value, None, {**headers, "content-type": content_type}))["data"] == data


# Bad ones


@pytest.mark.parametrize(
    ("one", "source", "expected"),
    [
        (record(None, b"4"), {}, "the record has no value"),
        (record(b"{"), {}, "the value is not valid JSON"),
        (record(b'{"id": "\xff"}'), {}, "the value is not UTF-8"),
        (record(b"[" * 5000), {}, "nested too deeply|not valid JSON|Expected `object`"),
        (record([1]), {}, "Expected `object`, got `array`"),
        (record({"station": 4}), {}, r"\$: Object contains unknown field `station`"),
        (record({"attributes": {"a": [1]}}), {}, r"\$.attributes"),
        (record({"attributes": {"a": 2**64}}), {}, "64 bits"),
        (record({"topic": "a//b"}), {}, r"\$.topic"),
        (record({"zone": {"type": "circle"}}), {}, r"\$.zone"),
        (record({"expires": "soon"}), {}, r"\$.expires"),
        (record([1]), {"format": "attributes"}, "Expected `object`, got `array`"),
        (record({"n": 2**70}), {"format": "attributes"}, "64 bits"),
        (record({}), {"format": "cloudevents"}, r"\$.specversion: a CloudEvent needs this"),
        (record({**EVENT, "source": ""}), {"format": "cloudevents"}, r"\$.source"),
        (record({}, None, {"ce_specversion": "1.0", "ce_id": "1"}), {}, "ce_source: a CloudEvent needs this"),
        (record(b"{", None, {f"ce_{name}": text for name, text in EVENT.items()}), {}, "not valid JSON"),
    ],
)
def test_a_bad_record_says_why(one: Record, source: dict[str, Any], expected: str) -> None:

    assert re.search(expected, reason(one, **source))


def test_a_record_beyond_a_limit_is_bad() -> None:
    assert "limits.publication_bytes_max" in reason(record({"data": "x" * 300}), Limits(publication_bytes_max=256))
    assert "limits.attributes_max" in reason(record({}, b"k", {"a": "1", "b": "2"}), Limits(attributes_max=2))


# Dead letters


def test_a_dead_letter_is_the_record_with_where_it_was_and_why() -> None:
    one = record(b"{", b"4", {"trace": "abc", "braid-reason": "of an earlier life"})
    letter = dead_letter(one, "the value is not valid JSON", "air.dead-letter")
    assert (letter.topic, letter.key, letter.value, letter.timestamp_ms) == (
        "air.dead-letter",
        b"4",
        b"{",
        1_700_000_000_000,
    )
    assert letter.headers == [
        ("trace", b"abc"),
        ("braid-reason", b"the value is not valid JSON"),
        ("braid-topic", b"air"),
        ("braid-partition", b"2"),
        ("braid-offset", b"41"),
    ]


def test_a_dead_letter_always_has_a_key_or_a_value_and_no_endless_reason() -> None:
    letter = dead_letter(record(None), "x" * 5000, "dead")
    assert (letter.key, letter.value) == (None, b"")
    assert len(dict(letter.headers)["braid-reason"]) == 1000


def test_one_that_is_too_large_for_its_topic_goes_without_its_value() -> None:
    letter = without_value(dead_letter(record(b"x" * 100, b"4"), "why", "dead"))
    assert (letter.key, letter.value) == (b"4", b"")
    assert dict(letter.headers)["braid-value-bytes"] == b"100"


def test_where_dead_letters_go() -> None:
    assert Source(topic="air").dead_letter_topic == "air.dead-letter"
    assert Source(topic="air", dead_letters="morgue").dead_letter_topic == "morgue"


# Many at once


def read_both(records: Sequence[Record], **source: Any) -> list[Any]:
    """Together and one by one it is the same."""
    reader = RecordReader(Source(topic="air", **source), Limits())
    contents, bad = reader.read_all(records)
    reasons = iter(bad)
    together = [next(reasons)[1] if one is None else one for one in contents]
    alone: list[Any] = []
    for one in records:
        try:
            alone.append(reader.read(one))
        except BadRecordError as error:
            alone.append(str(error))
    assert together == alone
    return together


def test_many_are_read_at_once() -> None:
    found = read_both([record({"attributes": {"n": n}}, b"k%d" % n) for n in range(10)])
    assert [json.loads(one)["attributes"] for one in found] == [{"key": f"k{n}", "n": n} for n in range(10)]


@pytest.mark.parametrize(
    "values",
    [
        [b"{}", b"{", b'{"id":"a"}'],
        [b"{}", b"", b"{}"],
        [b"{}", None, b"{}"],
        [b'{"id":"a"}', b'{\n"id":"b"}', b'{"id":"c"}\n'],
        [b'{"attributes":', b"{}}", b"{}\n{}"],  # bad ones that look like good ones when they are put together
        [b'{"id":"a"}{"id":"b"}', b'{"id":"c"}', b""],
        [b'{"id":"a"}{"id":"b"}', b'{"id":"c"}', b" ", b'{"id":"d"}'],
        [b'{"id":"a"', b'}{"id":"b"}'],
        [b'{"id":"a"}{"id":"b"}', b'{"attributes":{}', b"}"],
        [b'{"id":"a"}{"id":"b"}', b'{"attributes":{}', b'{"id":"c"}'],
        [b'{"text":"}', b'{"}'],
        [b' {"id":"a"}', b'{"id":"b"} '],
        [b'{"data":[{}', b"{}]}", b"{},{}"],
        [b'{"data":"\xff"}', b"{}"],
        [b'{"attributes":{"":1}}', b"{}"],
        [b'{"expires":"+10m"}', b'{"expires":"soon"}'],
        [b"[]", b"1", b'"a"'],
        [b'{"attributes":{"n":9223372036854775807}}', b'{"attributes":{"n":9223372036854775808}}'],
        [b'{"topic":"a//b"}', b'{"topic":"air"}', b"{}"],
        [b'{"text":"%b"}' % (b"x" * 100_000), b"{}"],
        [b'{"attributes":{"%b":1}}' % (b"n" * 300), b"{}"],
        [b'{"zone":{"type":"point","lat":1,"lon":2}}', b'{"zone":{}}'],
        [b'{"\\u0065xpires":"soon"}', b'{"text":"\\"expires\\":"}'],
    ],
)
@pytest.mark.parametrize("format", ["auto", "publication", "attributes"])
def test_bad_ones_among_them_are_the_same_as_alone(values: list[bytes | None], format: str) -> None:
    read_both([record(value, b"k") for value in values], format=format)


_WHOLE = ('{"id":"a"}', '{"id":"b"}{"id":"c"}', '{"data":[{},{"a":"}"}]}', "{}", "", " ", "[]")
_PIECES = ("{", "}", '"data":', '"id":"x"', "[", "]", ",", '"', "\n", " ", "1", "{}")
_values = st.one_of(st.sampled_from(_WHOLE), st.lists(st.sampled_from(_PIECES), max_size=6).map("".join))


@given(st.lists(_values, min_size=1, max_size=5))
def test_together_is_as_one_by_one_whatever_they_are(values: list[str]) -> None:
    read_both([record(value.encode(), b"k") for value in values])


@given(st.lists(st.sampled_from(_WHOLE[:4]), min_size=1, max_size=5), st.data())
def test_also_where_whole_ones_are_cut_elsewhere(values: list[str], data: st.DataObject) -> None:
    """As many values as there are objects, of which some go on in the next one."""
    text = "".join(values)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=len(values) - 1, max_size=len(values) - 1)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    read_both([record(piece.encode(), b"k") for piece in pieces])


def test_events_among_publications_are_read_at_once() -> None:
    headers: dict[str, str | bytes] = {"content-type": "application/cloudevents+json"}
    found = read_both([record({"id": "a"}), record(EVENT, headers=headers), record({"id": "b"}, headers={"x": "y"})])
    assert [json.loads(one)["id"] for one in found] == ["a", "e-1", "b"]
