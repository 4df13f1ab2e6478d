"""Properties that hold for all filters, texts and publications."""

import json
import random
from collections.abc import Callable
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from braid.filters import (
    And,
    Between,
    Comparison,
    Contains,
    Exists,
    Filter,
    FilterError,
    In,
    Not,
    Or,
    Prefix,
    Suffix,
    Value,
    compile_filter,
    equality_key,
    evaluate,
    from_json,
    parse,
    print_filter,
    required_equalities,
    to_json,
)
from braid.filters.nodes import OPERATORS

T = TypeVar("T")

# The same examples in every run, so that a failure in one place is a failure everywhere.
fixed = settings(derandomize=True, deadline=None, max_examples=150, database=None)

# A few names and values that collide often find more than many that never do.
few_names = st.sampled_from(["a", "b", "c"])
TEXTS = ["", "x", "xy", "yx", "1"]
NUMBERS: list[int | float] = [0, 1, 1.0, -1, 2, 2.5, 2**53 + 1, float(2**53), -0.0]
few_texts, few_numbers = st.sampled_from(TEXTS), st.sampled_from(NUMBERS)
few_values: st.SearchStrategy[Value] = few_texts | few_numbers | st.booleans()
any_texts = st.text(max_size=4) | st.sampled_from(["a-b.c", "and", "In", "prev", "a`b", "x'", "\n"])
any_numbers: st.SearchStrategy[int | float] = st.integers(-(2**63), 2**63 - 1) | st.floats(
    allow_nan=False, allow_infinity=False
)


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

words = ["a", "b", "and", "or", "not", "in", "between", "exists", "prefix", "true", "prev", "prev(", "é"]
signs = ["(", ")", ",", "=", "<", "'x'", "1", "-2.5", "1e9", "9" * 25, "`q`", "'", "`", "==", "~", "\n", "\x00"]
fragments = st.sampled_from(words + signs)


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


def subtrees(node: Filter) -> list[Filter]:
    match node:
        case And(parts) | Or(parts):
            return [node, *(inner for part in parts for inner in subtrees(part))]
        case Not(operand):
            return [node, *subtrees(operand)]
        case _:
            return [node]


@settings(fixed, max_examples=400)
@given(few_filters)
def test_the_compiled_filter_agrees_with_the_plain_one(node: Filter) -> None:
    # The parts are tried on their own too, because a wrong part seldom changes what the whole answers.
    for part in subtrees(node):
        compiled = compile_filter(part)
        for attributes in PUBLICATIONS:
            assert compiled(attributes) is evaluate(part, attributes)


@fixed
@given(few_filters)
def test_matching_publications_carry_the_required_equalities(node: Filter) -> None:
    required = {equality_key(*pair) for pair in required_equalities(node)}
    for attributes in PUBLICATIONS:
        if evaluate(node, attributes):
            assert required <= {equality_key(name, value) for name, value in attributes.items()}


@fixed
@given(few_values, few_values)
def test_equality_keys_are_equal_when_the_language_says_so(one: Value, other: Value) -> None:
    same = evaluate(Comparison("a", "=", one), {"a": other})
    assert (equality_key("a", one) == equality_key("a", other)) is same


def filter_or_error(read: Callable[[T], Filter], source: T) -> Filter | FilterError:
    try:
        return read(source)
    except FilterError as error:
        return error


@settings(fixed, max_examples=800)
@given(st.text(max_size=60) | st.lists(fragments, max_size=25).map(" ".join) | st.lists(fragments).map("".join))
def test_any_text_is_a_filter_or_an_error(text: str) -> None:
    outcome = filter_or_error(parse, text)
    if isinstance(outcome, FilterError):
        assert 0 <= outcome.position <= len(text)
        assert outcome.text == text
        assert str(outcome).encode()
    else:
        assert parse(print_filter(outcome)) == outcome


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["attr", "op", "value", "values", "and", "or", "not", "x"]), inner)
        | st.fixed_dictionaries({"attr": st.just("a"), "op": st.sampled_from([*OPERATORS, "in", "x"]), "value": inner})
        | st.fixed_dictionaries({"attr": st.just("a"), "op": st.just("between"), "values": inner})
        | st.fixed_dictionaries({"and": st.lists(inner, max_size=3)})
        | st.fixed_dictionaries({"not": inner})
    ),
    max_leaves=8,
)


@settings(fixed, max_examples=400)
@given(json_values)
def test_any_json_is_a_filter_or_an_error(obj: object) -> None:
    outcome = filter_or_error(from_json, obj)
    if isinstance(outcome, FilterError):
        assert outcome.path is not None
        assert outcome.path.startswith("$")
        assert str(outcome).encode()
    else:
        assert from_json(to_json(outcome)) == outcome
