"""Properties that hold for all filters, texts and publications."""

import json
import random
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from braid.filters import (
    And,
    Arithmetic,
    Between,
    Comparison,
    ComparisonWithPrevious,
    Contains,
    Exists,
    Expression,
    Filter,
    FilterError,
    In,
    Negation,
    Not,
    Or,
    Prefix,
    Previous,
    Suffix,
    Value,
    alternatives,
    evaluate,
    from_json,
    parse,
    print_filter,
    to_json,
    uses_previous,
)
from braid.filters.expressions import ARITHMETIC_OPERATORS, holds_previous
from braid.filters.lexer import KEYWORDS
from braid.filters.nodes import OPERATORS

T = TypeVar("T")

# The same examples in every run, so that a failure in one place is a failure everywhere.
fixed = settings(derandomize=True, deadline=None, max_examples=150, database=None)

# A few names and values that collide often find more than many that never do.
few_names = st.sampled_from(["a", "b", "c"])
TEXTS = ["", "x", "xy", "yx", "1"]
NUMBERS: list[int | float] = [0, 1, 1.0, -1, 2, 2.5, 2**53 + 1, float(2**53), -0.0]
few_texts, few_numbers = st.sampled_from(TEXTS), st.sampled_from(NUMBERS)
any_texts = st.text(max_size=4) | st.sampled_from(["a-b.c", "and", "In", "prev", "a`b", "x'", "\n"])
any_numbers: st.SearchStrategy[int | float] = st.integers(-(2**63), 2**63 - 1) | st.floats(
    allow_nan=False, allow_infinity=False
)


def expressions(
    names: st.SearchStrategy[str], numbers: st.SearchStrategy[int | float]
) -> st.SearchStrategy[Expression]:
    previous: st.SearchStrategy[Expression] = st.builds(Previous, names)

    def extend(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        # A minus before a number or another minus is where printing and reading differ most easily.
        negations = st.builds(Negation, inner | numbers)
        return negations | st.builds(Arithmetic, st.sampled_from(ARITHMETIC_OPERATORS), inner, inner)

    return st.recursive(previous | numbers, extend, max_leaves=6).filter(holds_previous)


def filters(
    names: st.SearchStrategy[str], texts: st.SearchStrategy[str], numbers: st.SearchStrategy[int | float]
) -> st.SearchStrategy[Filter]:
    values: st.SearchStrategy[Value] = texts | numbers | st.booleans()
    predicates: st.SearchStrategy[Filter] = st.one_of(
        # One for each type, since comparisons have the most cases.
        st.builds(Comparison, names, st.sampled_from(OPERATORS), texts),
        st.builds(Comparison, names, st.sampled_from(OPERATORS), numbers),
        st.builds(Comparison, names, st.sampled_from(OPERATORS), st.booleans()),
        st.builds(In, names, st.lists(values, min_size=1, max_size=4).map(tuple)),
        st.builds(Between, names, numbers, numbers),
        st.builds(Between, names, texts, texts),
        st.builds(Between, names, st.booleans(), st.booleans()),
        st.builds(Prefix, names, texts),
        st.builds(Suffix, names, texts),
        st.builds(Contains, names, texts),
        st.builds(Exists, names),
        st.builds(ComparisonWithPrevious, names, st.sampled_from(OPERATORS), st.builds(Previous, names)),
        st.builds(ComparisonWithPrevious, names, st.sampled_from(OPERATORS), expressions(names, numbers)),
    )

    def extend(inner: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
        parts = st.lists(inner, min_size=2, max_size=5).map(tuple)
        return st.builds(Not, inner) | st.builds(And, parts) | st.builds(Or, parts)

    return st.recursive(predicates, extend, max_leaves=8)


any_filters = filters(any_texts, any_texts, any_numbers)
few_filters = filters(few_names, few_texts, few_numbers)

# Each filter is tried on all of these, which costs less than drawing a few anew and finds more.
chance = random.Random(1)
PUBLICATIONS: list[dict[str, Value]] = [
    {name: chance.choice([*TEXTS, *NUMBERS, True, False]) for name in "abc" if chance.random() < 0.8} for _ in range(80)
]
# Each publication after another, and the first one after none.
PAIRS = list(zip(PUBLICATIONS, [None, *PUBLICATIONS], strict=False))

words = [*sorted(KEYWORDS), "a", "b", "NOT", "prev", "prev(", "prev(a)", "a = 1", "a < prev(a)", "é"]
signs = [*OPERATORS, *ARITHMETIC_OPERATORS, "(", ")", ",", "'x'", "1", "-2.5", "1e9", "0", "9" * 25, "`q`"]
mistakes = ["'", "`", "==", "<>", "&&", "!", "~", "%", "\n", "\x00", "\ud800"]
fragments = st.sampled_from(words + signs) | st.sampled_from(mistakes)


@fixed
@given(any_filters)
def test_reading_the_canonical_text_gives_the_same_filter(node: Filter) -> None:
    again = parse(print_filter(node))
    assert again == node
    assert repr(again) == repr(node)


@fixed
@given(any_filters)
def test_reading_the_json_form_gives_the_same_filter(node: Filter) -> None:
    again = from_json(json.loads(json.dumps(to_json(node))))
    assert again == node
    assert repr(again) == repr(node)


@settings(fixed, max_examples=400)
@given(few_filters)
def test_the_alternatives_mean_what_the_filter_means(node: Filter) -> None:
    parts = alternatives(node)
    for attributes, previous in PAIRS:
        holds = any(
            all(evaluate(predicate, attributes, previous) is not negated for predicate, negated in part)
            for part in parts
        )
        assert holds is evaluate(node, attributes, previous)


@fixed
@given(few_filters)
def test_alternatives_hold_no_literal_twice(node: Filter) -> None:
    parts = alternatives(node)
    assert len(set(parts)) == len(parts)
    assert all(len(set(part)) == len(part) for part in parts)


@fixed
@given(few_filters)
def test_only_filters_with_prev_depend_on_the_previous_publication(node: Filter) -> None:
    assert uses_previous(node) is ("prev(" in print_filter(node))
    if not uses_previous(node):
        assert all(evaluate(node, attributes, previous) is evaluate(node, attributes) for attributes, previous in PAIRS)


def filter_or_error(read: Callable[[T], Filter], source: T) -> Filter | FilterError:
    try:
        return read(source)
    except FilterError as error:
        return error


@st.composite
def damaged_texts(draw: st.DrawFn) -> str:
    """A filter in which a stretch is replaced: most are wrong in one place only, some are still right."""
    text = print_filter(draw(any_filters))
    start = draw(st.integers(0, len(text)))
    return text[:start] + draw(fragments | st.just("")) + text[start + draw(st.integers(0, 8)) :]


token_soups = st.lists(fragments, max_size=25).map(" ".join) | st.lists(fragments).map("".join)


@settings(fixed, max_examples=800)
@given(st.one_of(st.text(max_size=60), token_soups, damaged_texts()))
def test_any_text_is_a_filter_or_an_error(text: str) -> None:
    outcome = filter_or_error(parse, text)
    if isinstance(outcome, FilterError):
        assert 0 <= outcome.position <= len(text)
        assert outcome.text == text
        assert str(outcome).encode()
    else:
        assert parse(print_filter(outcome)) == outcome
        assert from_json(to_json(outcome)) == outcome


KEYS = ["attr", "op", "value", "values", "and", "or", "not", "prev", *ARITHMETIC_OPERATORS, "x"]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS), inner)
        | st.fixed_dictionaries({"attr": st.just("a"), "op": st.sampled_from([*OPERATORS, "in", "x"]), "value": inner})
        | st.fixed_dictionaries({"attr": st.just("a"), "op": st.just("between"), "values": inner})
        | st.fixed_dictionaries({"and": st.lists(inner, max_size=3)})
        | st.fixed_dictionaries({"not": inner})
        | st.fixed_dictionaries({"prev": st.just("a")})
        | st.sampled_from(ARITHMETIC_OPERATORS).flatmap(
            lambda operator: st.fixed_dictionaries({operator: st.lists(inner, max_size=3)})
        )
    ),
    max_leaves=8,
)


@st.composite
def damaged_json(draw: st.DrawFn) -> object:
    """The JSON form of a filter with something else in one place."""
    whole: object = to_json(draw(any_filters))
    place: Any = whole
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or draw(st.booleans()):
            break
        place = place[key]
    place[key] = draw(json_values)
    return whole


@settings(fixed, max_examples=400)
@given(json_values | damaged_json())
def test_any_json_is_a_filter_or_an_error(obj: object) -> None:
    outcome = filter_or_error(from_json, obj)
    if isinstance(outcome, FilterError):
        assert outcome.path is not None
        assert outcome.path.startswith("$")
        assert str(outcome).encode()
    else:
        assert from_json(to_json(outcome)) == outcome
