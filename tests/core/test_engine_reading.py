"""The engine reads contents as the decoder does: any bytes do no harm, and numbers and texts are exact."""

import json
import math
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.config import Limits
from braid.content import DECODE_ERRORS, check_content, decode_content
from braid.filters import Value
from braid.filters.evaluator import COMPARE
from braid.matching.meaning import accepts, read_publication
from braid.problems import Problem
from tests.core.matching_cases import NOW_S, content, index_of, matched, record
from tests.core.matching_populations import Population, literal
from tests.core.matching_strategies import contents

fixed = settings(derandomize=True, deadline=None, database=None, max_examples=200)

# Only attributes and topics: texts and zones are left to Python, which reads them again.
READERS = [
    *(record(f"one-{place}", filter) for place, filter in enumerate(["a = 1", "a = 'x'", "b = true", "exists c"])),
    *(record(f"two-{place}", filter) for place, filter in enumerate(["a > 0", "b contains 'x'", "c != 1", "d <= 2.5"])),
    record("topic", topic="a/b"),
    record("every"),
]
CANONICAL = Population(seed=3).contents(200)


def is_publication(given: bytes) -> bool:
    """Whether a connection point would have accepted it."""
    try:
        json.loads(given)
        check_content(decode_content(given), Limits(), NOW_S)
    except (*DECODE_ERRORS, ValueError, Problem):
        return False
    return True


def check_reading(given: bytes) -> None:
    """Between two good ones, which must not suffer."""
    before, after = CANONICAL[0], CANONICAL[1]
    matches = index_of(READERS).match([before, given, after], NOW_S)
    first, found, last = matches.ids()
    assert [set(first), set(last)] == [meant(before), meant(after)]
    if is_publication(given):
        assert (set(found), matches.unreadable) == (meant(given), 0)


def meant(given: bytes) -> set[str]:
    publication = read_publication(given)
    return {each.id for each in READERS if accepts(each, publication, None, NOW_S)}


@fixed
@given(st.binary(max_size=60))
def test_any_bytes_do_no_harm(given: bytes) -> None:
    check_reading(given)
    check_reading(b'{"attributes":{' + given)
    check_reading(b'{"attributes":{"a":' + given + b"}}")


@fixed
@given(st.sampled_from(CANONICAL), st.integers(0), st.integers(0, 4), st.binary(max_size=3))
def test_mutilated_contents_do_no_harm(given: bytes, place: int, removed: int, inserted: bytes) -> None:
    at = place % (len(given) + 1)
    check_reading(given[:at] + inserted + given[at + removed :])
    check_reading(given[:at])


@fixed
@given(contents())
def test_any_spelling_is_read(given: bytes) -> None:
    assert is_publication(given)
    check_reading(given)


@pytest.mark.parametrize(
    "given",
    [
        b'{"attributes":{"a":"x","q":[1,{"b":"}"}]}}',
        b'{"id":"\\"}","attributes":{"a":1},"data":{"attributes":{"a":"x"}}}',
        b'{"attributes":{"\\u0061":1}}',
        b'{"attributes":{"a":"\\u0078"}}',
        b'{"attributes":{"a":"\\ud83d\\ude00","b":"\\u00e9x"}}',
        b'{"\\u0061ttributes":{"a":1}}',
        b'{"attributes":{"a":1.0E0,"d":0.25e+1,"c":-0}}',
        b'{"attributes":{"a":1 , "b":true }}',
        b'{"attributes":{},"topic":"a\\/b"}',
        b'{"object":"o","topic":"a/b","id":"p"}',
        b"{}",
        b" {} ",
        b'{"attributes":{"a":9223372036854775808}}',
        b'{"attributes":{"a":1e400}}',
        b'{"attributes":{"a":null}}',
        b'{"attributes":{"a":[1]}}',
        b'{"attributes":{"a":truth}}',
    ],
)
def test_spellings_at_the_edge(given: bytes) -> None:
    check_reading(given)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (b'{"attributes":{"a":1,"a":"x"}}', {"one-1"}),
        (b'{"attributes":{"a":"x","a":1}}', {"one-0", "two-0"}),
        (b'{"attributes":{"d":9,"d":1}}', {"two-3"}),
        (b'{"attributes":{"d":1,"d":"1"}}', set()),
        (b'{"attributes":{"a":1},"attributes":{"b":true}}', {"one-2"}),
        (b'{"topic":"x","topic":"a/b"}', {"topic"}),
        (b'{"attributes":{"a":1},"topic":"a/b"}', {"one-0", "two-0", "topic"}),
    ],
)
def test_members_in_another_order_and_names_that_come_twice(given: bytes, found: set[str]) -> None:
    """The last one counts, as for whoever decodes it."""
    assert meant(given) == {"every", *found}
    check_reading(given)


@pytest.mark.parametrize(
    "bad",
    [
        b'{"attributes":{"z":{"y":1},"a":1}}',
        b'{"attributes":{"z":[],"a":1}}',
        b'{"attributes":{"z":null,"a":1}}',
        b'{"attributes":{"z":truth,"a":1}}',
        b'{"attributes":{"a":1},"unknown":3}',
        b'{"attributes":{"a":01}}',
        b'{"attributes":{"a":1.}}',
        b'{"attributes":{"a":1e}}',
        b'{"attributes":{"b":trux}}',
        b'{"attributes":{"a":1},}',
        b'{"id":5}',
        b'{"object":null}',
        b'{"expires":5,"data":1',
        b'{"data":1, garbage',
    ],
)
def test_what_no_connection_point_accepts_matches_nobody(bad: bytes) -> None:
    matches = index_of(READERS).match([bad], NOW_S)
    assert (matches.ids(), matches.unreadable) == ([[]], 1)


@pytest.mark.parametrize(
    "bad",
    [
        b'{"text":5}',
        b'{"text":null}',
        b'{"text":"\xff"}',
        b'{"zone":5}',
        b'{"zone":{"type":"nonsense"}}',
        b'{"zone":{"type":"point","lat":"x","lon":4}}',
        b'{"topic":5,"attributes":{"a":1}}',
        b'{"id":nonsense,"attributes":{"a":"x"}}',
        b'{"attributes":{"a":"\xff"}}',
    ],
)
def test_what_python_cannot_read_is_unreadable(bad: bytes) -> None:
    index = index_of(
        [
            record("words", words=("x",)),
            record("zone", zone={"type": "circle", "lat": 0, "lon": 0, "radius_m": 1_000}),
            record("back", "a > prev(a)"),
            record("order", "a > 'a'"),
        ]
    )
    good = content({"a": "b"}, text="x", topic="t")
    matches = index.match([good, bad, good], NOW_S)
    assert [sorted(ids) for ids in matches.ids()] == [["order", "words"], [], ["order", "words"]]
    assert matches.unreadable == 1


OPERATORS = ["=", "!=", "<", "<=", ">", ">="]
whole_numbers = st.integers(-(2**63), 2**63 - 1) | st.builds(
    lambda base, more, sign: sign * min(base + more, 2**63 - 1),
    st.sampled_from([2**52, 2**53, 2**54, 2**60, 2**63 - 1024]),
    st.integers(-5, 2_000),
    st.sampled_from([1, -1]),
)
finite = st.floats(allow_nan=False, allow_infinity=False)
SPELLINGS = ["{!r}", "{:e}", "{:E}", "{:.25g}", "{:.17e}", "{:.3f}"]


def neighbours(number: int | float) -> list[int | float]:
    near = float(number)
    close: list[int | float] = [number, near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf), 0, -1.5]
    if isinstance(number, int):
        close += [number - 1, number + 1]
    elif abs(number) < 2**63:
        close += [int(number), int(number) + 1]
    return [each for each in close if math.isfinite(each) and (isinstance(each, float) or -(2**63) <= each < 2**63)]


def check_number(spelled: str) -> None:
    """Held against its neighbours with every operator, it compares as in Python."""
    number: int | float = json.loads(spelled)
    bounds = neighbours(number)
    wanted: dict[str, bool] = {}
    for operator, bound in product(OPERATORS, bounds):
        wanted[f"a {operator} {literal(bound)}"] = COMPARE[operator](number, bound)  # type: ignore[index]  # drawn from it
    for low, high in product(bounds[:4], repeat=2):
        wanted[f"a between {literal(low)} and {literal(high)}"] = low <= number <= high
        wanted[f"not (a between {literal(low)} and {literal(high)})"] = not low <= number <= high
    index = index_of(record(filter, filter) for filter in wanted)
    (found,) = matched(index, b'{"attributes":{"a":%s}}' % spelled.encode())
    assert found == {filter for filter, holds in wanted.items() if holds}


@settings(fixed, max_examples=60)
@given(whole_numbers)
def test_whole_numbers_are_exact(number: int) -> None:
    check_number(str(number))


@settings(fixed, max_examples=60)
@given(finite, st.sampled_from(SPELLINGS))
def test_floats_are_read_as_python_reads_them(number: float, spelling: str) -> None:
    spelled = spelling.format(number)
    if math.isfinite(json.loads(spelled)) and abs(json.loads(spelled)) < 2**63:
        check_number(spelled)
    check_number(repr(number))


@pytest.mark.parametrize(
    "spelled", ["-0", "-0.0", "0e5", "5e-324", "2.2250738585072011e-308", "1.7976931348623157e308"]
)
def test_numbers_at_the_edge(spelled: str) -> None:
    check_number(spelled)


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 31, 32, 62, 63, 64, 65, 100])
@pytest.mark.parametrize("alphabet", ["ab", "é日x", "a"])
def test_beginnings_ends_and_pieces(length: int, alphabet: str) -> None:
    """Up to 63 bytes are one key; of what is longer a part is, and the rest is evaluated."""
    text = "".join(alphabet[place * place % 7 % len(alphabet)] for place in range(150))
    patterns = {text[:length], text[-length:], text[40 : 40 + length], text[1 : 1 + length], text[: length - 1] + "!"}
    known: dict[str, tuple[str, str]] = {}
    for operator, pattern in product(["prefix", "suffix", "contains"], patterns):
        known[f"a {operator} {literal(pattern)}"] = (operator, pattern)
    index = index_of(record(filter, filter) for filter in known)
    index.add_many(record(f"not ({filter})", f"not ({filter})") for filter in known)
    cases: list[Value] = [text, text[:length], text[1:], text[: length - 1], "", 5, text[::-1], text + "!"]

    def holds(value: Value, operator: str, pattern: str) -> bool:
        if not isinstance(value, str):
            return False
        return {"prefix": value.startswith, "suffix": value.endswith, "contains": value.__contains__}[operator](pattern)

    for case, found in zip(cases, matched(index, *(content({"a": case}) for case in cases)), strict=True):
        wanted = {filter for filter, (operator, pattern) in known.items() if holds(case, operator, pattern)}
        assert found == wanted | {f"not ({filter})" for filter in known.keys() - wanted}


def test_a_batch_that_is_read_in_parts_looks_back() -> None:
    """Every place of a long text is a piece of it, and millions of them are more than is read at once."""
    index = index_of([record("rising", "a > prev(a)"), record("piece", "x contains 'z' and b = 1")])
    long = [content({"a": value, "x": "z" * 1_000_000}, topic="t") for value in range(6)]
    assert matched(index, *long) == [set(), *[{"rising"}] * 5]
