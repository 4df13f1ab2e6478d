"""The engine's own reader of plain filters reads what the parser reads."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.filters import Filter, FilterError, parse, print_filter
from braid.matching.changes import Changes
from braid.matching.compiling import Given
from braid.matching.index import MatchIndex
from braid.subscription import SubscriptionRecord
from tests.core.matching_cases import matched, record, remove_everything
from tests.core.matching_populations import Population
from tests.core.matching_strategies import plain_filters
from tests.core.test_filter_properties import any_numbers, any_texts, filters

fixed = settings(derandomize=True, deadline=None, database=None, max_examples=150)
PUBLISHED = Population(seed=2).contents(150)


class NothingIsPlain(Changes):
    def add(self, record: SubscriptionRecord, number: int, home: int, flags: int, rows: bytes) -> bool:
        return False


class ParsingIndex(MatchIndex):
    """One that leaves nothing to the engine's reader of filters."""

    def __init__(self) -> None:
        super().__init__()
        self._changes = NothingIsPlain(self._memory)


class NotingIndex(MatchIndex):
    """One that says what the engine has left to the parser."""

    def __init__(self) -> None:
        super().__init__()
        self.parsed: list[str] = []

    def _add_compiled(self, record: SubscriptionRecord, number: int, home: int, parts: Given) -> Given:
        self.parsed.append(record.filter)
        return super()._add_compiled(record, number, home, parts)


def is_plain(filter: str) -> bool:
    """Whether the engine reads it itself, alone and in the middle of others."""
    alone, among = NotingIndex(), NotingIndex()
    alone.add(record("s", filter))
    among.add_many([record("before", "a = 1"), record("s", filter), record("behind", "e5 = 1")])
    assert alone.parsed == among.parsed
    return not alone.parsed


def both(filters: list[str]) -> tuple[MatchIndex, MatchIndex]:
    """The filter at each place is that of the subscription of this number."""
    reading, parsing = MatchIndex(), ParsingIndex()
    for number, filter in enumerate(filters):
        each = SubscriptionRecord(f"s-{number}", "anna", "connpoint-1", filter, 0.0)
        reading.add(each)
        parsing.add(each)
    return reading, parsing


@fixed
@given(st.lists(plain_filters, min_size=1, max_size=8))
def test_plain_filters_match_alike(filters: list[str]) -> None:
    reading, parsing = both(filters)
    assert matched(reading, *PUBLISHED) == matched(parsing, *PUBLISHED)
    remove_everything(reading)


@fixed
@given(filters(any_texts.filter(bool), any_texts, any_numbers))
def test_filters_of_any_text_and_number_match_alike(node: Filter) -> None:
    """Read in the middle of others: what stands behind a filter is none of its business."""
    text = print_filter(node)
    reading, parsing = both([text])
    batched = MatchIndex()
    batched.add_many(
        SubscriptionRecord(f"s-{number}", "anna", "connpoint-1", filter, 0.0)
        for number, filter in enumerate([text, "e1 = 1", text, "a = 1", text])
    )
    wanted = matched(parsing, *PUBLISHED)
    assert matched(reading, *PUBLISHED) == wanted
    thrice = {"s-0", "s-2", "s-4"}
    assert [found & thrice for found in matched(batched, *PUBLISHED)] == [
        thrice if found else set() for found in wanted
    ]


@pytest.mark.parametrize(
    "filter",
    [
        "a = 1",
        "a = -2.5 and b = 'x'",
        "größe != true",
        "a != 'x'",
        "a < 1",
        "a <= 1e+300",
        "a > -1",
        "a >= 0.5",
        "a between 1 and 2.5",
        "a in (1, 'x', true, 'y')",
        "a in (false)",
        "a prefix 'x' and b suffix 'é' and c contains 'yes'",
        "exists a",
        "a = 9007199254740993",
        "a = ''",
        "x-y.z_1 = 1",
    ],
)
def test_what_is_plain(filter: str) -> None:
    assert print_filter(parse(filter)) == filter
    assert is_plain(filter)


@pytest.mark.parametrize(
    "filter",
    [
        "a = 1 or b = 2",
        "not (a = 1)",
        "a > prev(a)",
        "a = 'it''s'",
        "`in` = 1",
        "a > 'x'",
        "a between 'x' and 'y'",
        "a > true",
        "a < 9007199254740993",
        "a between 1 and 9007199254740993",
        "a prefix ''",
        f"a contains '{'x' * 64}'",
    ],
)
def test_what_is_left_to_the_parser(filter: str) -> None:
    assert print_filter(parse(filter)) == filter
    assert not is_plain(filter)


@fixed
@given(st.text(max_size=30) | plain_filters.map(lambda text: text[:-1]) | plain_filters.map(lambda text: text + " "))
def test_any_text_does_no_harm(text: str) -> None:
    index = MatchIndex()
    index.add(record("good", "a = 1"))
    try:
        index.add(SubscriptionRecord("s", "anna", "connpoint-1", text, 0.0))
    except (FilterError, UnicodeEncodeError):
        assert len(index) == 1
    assert "good" in matched(index, b'{"attributes":{"a":1}}')[0]
    remove_everything(index)
