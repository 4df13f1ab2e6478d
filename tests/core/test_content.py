"""Publications where they enter: every limit and every bad value gives the problem that names it."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.config import Limits
from braid.content import (
    DECODE_ERRORS,
    Content,
    ContentWriter,
    check_content,
    decode_content,
    decode_contents,
    explain_decode_error,
    finish_content,
)
from braid.matching.meaning import read_publication
from braid.problems import Problem

NOW = 1_777_636_800.0  # 2026-05-01T12:00:00Z
LIMITS = Limits(attributes_max=3, name_length_max=5, string_length_max=10, publication_bytes_max=200)
PAGE = (Path(__file__).parents[2] / "docs" / "subscriptions.md").read_text(encoding="utf-8")


def problem_of(content: Content) -> dict[str, Any]:
    with pytest.raises(Problem) as raised:
        check_content(content, LIMITS, NOW)
    with pytest.raises(Problem) as written:
        ContentWriter(LIMITS).write(content, NOW)
    assert written.value.document() == raised.value.document()
    return raised.value.document()


def decode_problem(body: bytes) -> dict[str, Any]:
    with pytest.raises(DECODE_ERRORS) as raised:
        decode_content(body)
    return explain_decode_error(raised.value, "the body").document()


@pytest.mark.parametrize(
    ("content", "limit", "maximum", "actual", "field"),
    [
        (Content(attributes={"a": 1, "b": 2, "c": 3, "d": 4}), "attributes_max", 3, 4, "$.attributes"),
        (Content(attributes={"abcdef": 1}), "name_length_max", 5, 6, "$.attributes"),
        (Content(attributes={"a": "x" * 11}), "string_length_max", 10, 11, "$.attributes.a"),
        (Content(text="x" * 11), "string_length_max", 10, 11, "$.text"),
        (Content(id="abcdef"), "name_length_max", 5, 6, "$.id"),
        (Content(topic="abcdef"), "name_length_max", 5, 6, "$.topic"),
        (Content(object="abcdef"), "name_length_max", 5, 6, "$.object"),
    ],
)
def test_limits(content: Content, limit: str, maximum: int, actual: int, field: str) -> None:
    assert problem_of(content) == {
        "type": "urn:braid:problem:limit-exceeded",
        "title": "A limit was exceeded",
        "status": 422,
        "detail": f"at most {maximum} allowed by the limit 'limits.{limit}', this is {actual}",
        "limit": f"limits.{limit}",
        "maximum": maximum,
        "actual": actual,
        "field": field,
    }


def test_exactly_at_every_limit() -> None:
    content = Content(
        id="abcde",
        topic="abcde",
        object="abcde",
        text="é" * 10,
        attributes={"abcde": "é" * 10, "b": 2**63 - 1, "c": -(2**63)},
        zone={"type": "point", "lat": 1, "lon": 2},
    )
    limits = LIMITS.model_copy(update={"publication_bytes_max": 1000})
    check_content(content, limits, NOW)
    assert ContentWriter(limits).write(content, NOW) == finish_content(content, limits)


@given(
    st.builds(
        Content,
        id=st.text(max_size=7),
        topic=st.text(alphabet="a1./+", max_size=7),
        text=st.text(max_size=12),
        attributes=st.dictionaries(
            st.text(max_size=7),
            st.text(max_size=12) | st.booleans() | st.integers() | st.floats(allow_nan=False),
            max_size=5,
        ),
    ),
    st.integers(1, 8),
    st.integers(1, 14),
    st.integers(1, 6),
)
@settings(derandomize=True, deadline=None, max_examples=500)
def test_short_contents_are_judged_as_all_others(content: Content, name_max: int, string_max: int, count: int) -> None:
    limits = Limits(name_length_max=name_max, string_length_max=string_max, attributes_max=count)
    try:
        check_content(content, limits, NOW)
    except Problem as problem:
        with pytest.raises(Problem, match=re.escape(problem.detail)):
            ContentWriter(limits).write(content, NOW)
    else:
        assert ContentWriter(limits).write(content, NOW) == finish_content(content, limits)


@pytest.mark.parametrize(
    ("content", "field", "detail"),
    [
        (Content(attributes={"": 1}), "$.attributes", "an attribute needs a name"),
        (Content(attributes={"a": 2**63}), "$.attributes.a", "an integer must fit into 64 bits"),
        (Content(attributes={"a": -(2**63) - 1}), "$.attributes.a", "an integer must fit into 64 bits"),
        (Content(topic="/a"), "$.topic", "the level 1 of '/a' is empty"),
        (Content(topic="a//b"), "$.topic", "the level 2 of 'a//b' is empty"),
        (Content(topic="a/+"), "$.topic", "a publication has one topic"),
        (Content(topic="#"), "$.topic", "a publication has one topic"),
        (Content(topic="a", zone={}), "$.zone.type", "expected one of 'point', 'circle', 'box', 'Point', 'Polygon'"),
        (Content(zone={"type": 1}), "$.zone.type", "expected one of 'point', 'circle', 'box', 'Point', 'Polygon'"),
        (Content(zone={"type": "point", "lat": 91, "lon": 0}), "$.zone.lat", "expected a number from -90 to 90"),
        (Content(zone={"type": "point", "lat": 2**64, "lon": 0}), "$.zone.lat", "expected a number from -90 to 90"),
        (Content(zone={"type": "Point", "coordinates": [1]}), "$.zone.coordinates", "expected [longitude, latitude]"),
        (Content(expires="soon"), "$.expires", "expected a time such as"),
        (Content(expires=""), "$.expires", "expected a time such as"),
        (Content(expires="2026-05-01T12:00:00"), "$.expires", "expected a time zone"),
        (Content(expires=-1), "$.expires", "expected a time between the years 1970 and 9999"),
        (Content(expires=10**400), "$.expires", "expected a time between the years 1970 and 9999"),
        (Content(expires=float("inf")), "$.expires", "expected a finite number"),
        (Content(expires=float("nan")), "$.expires", "expected a finite number"),
    ],
)
def test_bad_values(content: Content, field: str, detail: str) -> None:
    problem = problem_of(content)
    assert (problem["status"], problem["type"], problem["field"]) == (422, "urn:braid:problem:invalid-field", field)
    assert problem["detail"].startswith(detail)


@pytest.mark.parametrize(
    ("written", "absolute"),
    [
        ("+10m", "2026-05-01T12:10:00.000Z"),
        ("-1s", "2026-05-01T11:59:59.000Z"),
        ("2026-05-01T14:00:00+02:00", "2026-05-01T12:00:00.000Z"),
        (0, "1970-01-01T00:00:00.000Z"),
        (1_777_636_800.25, "2026-05-01T12:00:00.250Z"),
    ],
)
def test_expires_becomes_absolute(written: str | float, absolute: str) -> None:
    content = Content(id="p", expires=written)
    check_content(content, LIMITS, NOW)
    assert content.expires == absolute
    expires = read_publication(finish_content(content, LIMITS)).expires
    assert expires is not None
    assert expires.timestamp() == pytest.approx(
        {"+10m": NOW + 600, "-1s": NOW - 1}.get(str(written), expires.timestamp()), abs=1e-3
    )


def test_the_canonical_bytes() -> None:
    given = b'{ "attributes": {"n": 1, "f": 1.0, "t": true, "s": "\\u00e9"}, "data": { "any": [1,  2] }, "id": "p" }'
    content = decode_content(given)
    check_content(content, Limits(), NOW)
    assert finish_content(content, Limits()) == (
        '{"id":"p","attributes":{"n":1,"f":1.0,"t":true,"s":"é"},"data":{ "any": [1,  2] }}'.encode()
    )


def test_what_is_not_given_is_not_written() -> None:
    assert finish_content(Content(), LIMITS) == b"{}"
    assert finish_content(decode_content(b'{"data":null}'), LIMITS) == b'{"data":null}'


def test_a_publication_too_long_in_its_canonical_form() -> None:
    content = Content(id="p", data=msgspec.Raw(b'"' + b"x" * 200 + b'"'))
    with pytest.raises(Problem) as raised:
        finish_content(content, LIMITS)
    assert raised.value.document() == {
        "type": "urn:braid:problem:limit-exceeded",
        "title": "A limit was exceeded",
        "status": 413,
        "detail": "at most 200 allowed by the limit 'limits.publication_bytes_max', this is 220",
        "limit": "limits.publication_bytes_max",
        "maximum": 200,
        "actual": 220,
        "field": "$",
    }


@pytest.mark.parametrize(
    ("topic", "canonical"), [("1/4", "1.4"), ("1.4", "1.4"), ("a/1", "a/1"), ("a.b", "a.b"), ("7", "7")]
)
def test_a_topic_is_written_canonically(topic: str, canonical: str) -> None:
    content = Content(topic=topic)
    expected = b'{"topic":"%b"}' % canonical.encode()
    assert ContentWriter(Limits()).write(Content(topic=topic), NOW) == expected
    check_content(content, LIMITS, NOW)
    assert finish_content(content, LIMITS) == expected


def test_a_zone_is_written_canonically() -> None:
    body = b'{"data":1,"zone":{"coordinates":[180,40],"type":"Point"},"expires":0,"object":"o","text":"t"}'
    assert ContentWriter(Limits()).write(decode_content(body), NOW) == (
        b'{"text":"t","zone":{"type":"point","lat":40.0,"lon":-180.0},"object":"o",'
        b'"expires":"1970-01-01T00:00:00.000Z","data":1}'
    )


def test_the_order_of_the_members() -> None:
    assert Content.__struct_fields__ == ("id", "topic", "attributes", "text", "zone", "object", "expires", "data")
    stated = re.search(r"members in the order ([^.]*)\.", PAGE)
    assert stated
    assert tuple(re.findall(r"`(\w+)`", stated[1])) == Content.__struct_fields__


def canonical_examples() -> list[list[str]]:
    (block,) = re.findall(r"^```content-canonical\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [[cell.strip() for cell in line.split(" | ")] for line in block.splitlines()]


@pytest.mark.parametrize(("written", "canonical"), canonical_examples())
def test_canonical_example(written: str, canonical: str) -> None:
    encoded = ContentWriter(Limits()).write(decode_content(written), NOW)
    assert encoded == canonical.encode()
    assert ContentWriter(Limits()).write(decode_content(encoded), NOW) == encoded


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b".5", b"01"])
def test_only_finite_numbers_get_in(number: bytes) -> None:
    problem = decode_problem(b'{"attributes":{"a":' + number + b"}}")
    assert problem["status"] in (400, 422)
    assert decode_problem(b'{"expires":' + number + b"}")["status"] in (400, 422)


@pytest.mark.parametrize(
    ("body", "status", "field", "detail"),
    [
        (b'{"subject":1}', 422, "$", "Object contains unknown field `subject`"),
        (b'{"attributes":{"a":null}}', 422, "$.attributes[...]", "Expected `bool | int | float | str`, got `null`"),
        (b'{"attributes":{"a":[1]}}', 422, "$.attributes[...]", "Expected `bool | int | float | str`, got `array`"),
        (b'{"attributes":[]}', 422, "$.attributes", "Expected `object`, got `array`"),
        (b'{"id":7}', 422, "$.id", "Expected `str`, got `int`"),
        (b'{"expires":true}', 422, "$.expires", "Expected `int | float | str | null`, got `bool`"),
        (b'{"zone":"here"}', 422, "$.zone", "Expected `object | null`, got `str`"),
        (b"[]", 422, "$", "Expected `object`, got `array`"),
        (b"", 400, None, "the body is not valid JSON: Input data was truncated"),
        (b"{", 400, None, "the body is not valid JSON: Input data was truncated"),
        (b"{} {}", 400, None, "the body is not valid JSON: JSON is malformed: trailing characters (byte 4)"),
        (b'{"data":' + b"[" * 9999 + b"]" * 9999 + b"}", 400, None, "the body is nested too deeply"),
        (b'{"id":"\xff"}', 400, None, "the body is not UTF-8: invalid start byte at byte 0"),
    ],
)
def test_what_the_decoder_refuses(body: bytes, status: int, field: str | None, detail: str) -> None:
    problem = decode_problem(body)
    assert (problem["status"], problem.get("field"), problem["detail"]) == (status, field, detail)


def test_the_place_in_an_array() -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        decode_contents(b'[{}, {"id": 7}]')
    assert explain_decode_error(raised.value, "the body").members["field"] == "$[1].id"


def test_the_matcher_skips_what_it_does_not_look_at() -> None:
    readable = read_publication(b'{"id":"p","attributes":{"a":1},"data":{"b":[2]},"from a later version":true}')
    assert readable.attributes == {"a": 1}
    assert readable.expires is None
