"""Comparisons with the previous publication that are found by ranges: what is found is what is meant."""

import random
from itertools import product

import pytest

from braid.filters import Filter, Value, evaluate, parse
from braid.matching import checking, relations
from braid.matching.chains import Attributes
from tests.core.matching_cases import NOW_S, content, index_of, matched, record, remove_everything
from tests.core.matching_populations import NUMBERS, literal

OPERATORS = ["<", "<=", ">", ">=", "=", "!="]
VALUES: list[Value] = [*NUMBERS, -1, -2, 0.3, 1e9, 1e9 + 1, -1e-99, 1e-101, 1e100, 1e101, "x", "y", "", True, False]
# The last ones have no range.
FORMS = [
    *("prev(b)", "prev(b) * 2", "3 * prev(b)", "prev(b) * -0.5", "prev(b) / 3", "prev(b) / -7", "prev(b) * 1e300"),
    *("prev(b) + 1", "2.5 + prev(b)", "prev(b) - 1", "prev(b) + 1e12", "prev(b) * 9007199254740993", "prev(b) * 0"),
    *("prev(b) * 2 + 1", "-prev(b)", "prev(b) + prev(b)", "2 / prev(b)", "1 - prev(b)", "prev(b) / 0"),
]


@pytest.mark.parametrize("operator", OPERATORS)
def test_what_is_found_is_what_is_meant(operator: str) -> None:
    filters = {f"a {operator} {form}": parse(f"a {operator} {form}") for form in FORMS}
    filters |= {f"not ({text})": parse(f"not ({text})") for text in filters}
    index = index_of(record(text, text) for text in filters)
    pairs = list(product(VALUES, VALUES))
    published = [
        each
        for number, (before, value) in enumerate(pairs)
        for each in (content({"b": before}, topic=f"t{number}"), content({"a": value}, topic=f"t{number}"))
    ]
    for (before, value), found in zip(pairs, matched(index, *published)[1::2], strict=True):
        wanted = {text for text, node in filters.items() if evaluate(node, {"a": value}, {"b": before})}
        assert found == wanted, (before, value)
    remove_everything(index)


@pytest.mark.slow
def test_numbers_close_to_the_bound() -> None:
    """Where rounding decides, the language does, not the quotient."""
    chance = random.Random(1)
    factors = [chance.choice([chance.random(), chance.uniform(1, 1e6), -chance.random()]) for _ in range(60)]
    filters = {
        f"a {operator} prev(a) {sign} {literal(factor)}": (operator, sign, factor)
        for factor in factors
        for operator, sign in product(OPERATORS[:5], "*+")
    }
    nodes = {text: parse(text) for text in filters}
    index = index_of(record(text, text) for text in filters)
    for factor in factors:
        before = chance.choice([chance.random(), chance.randint(-(10**6), 10**6), chance.uniform(-1e8, 1e8)])
        for exact in (before * factor, before + factor):
            for value in (exact, exact * (1 + 2e-16), exact * (1 - 2e-16)):
                published = [content({"a": before}, topic="t"), content({"a": value}, topic="t")]
                wanted = {text for text, node in nodes.items() if evaluate(node, {"a": value}, {"a": before})}
                assert matched(index, *published)[1] == wanted, (before, value)


def test_hardly_anything_is_evaluated_that_does_not_match(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[Filter] = []

    def noting(node: Filter, attributes: Attributes, previous: Attributes | None) -> bool:
        evaluated.append(node)
        return evaluate(node, attributes, previous)

    monkeypatch.setattr(checking, "evaluate", noting)
    index = index_of(
        record(f"s-{number}", f"price < prev(price) * {0.00001 * (number + 1)}") for number in range(1_000)
    )
    index.match([content({"price": 100}, topic="t")], NOW_S)
    assert matched(index, content({"price": 0.99755}, topic="t")) == [{"s-997", "s-998", "s-999"}]
    assert len(evaluated) == 3


def test_more_relations_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relations, "RELATIONS_MAX", 5)
    filters = [f"a{number} > prev(a{number}) {form}" for number in range(8) for form in ("* 2", "+ 1", "")]
    filters.append(" or ".join(f"b{number} > prev(b{number}) * 2" for number in range(8)))
    index = index_of(record(text, text) for text in filters)
    names = [f"{letter}{number}" for letter in "ab" for number in range(8)]
    low, high = (content(dict.fromkeys(names, value), topic="t") for value in (1, 3))
    assert matched(index, low, high, high) == [set(), set(filters), set()]
    for text in filters[::2]:
        index.remove(text)
    assert matched(index, low, high) == [set(), set(filters[1::2])]
    remove_everything(index)


@pytest.mark.parametrize(
    "spelled",
    [
        b'{"topic":"t","attributes":{"a":5}}',
        b'{"topic":"t", "attributes": {"a": 5}}',
        b'{"attributes":{"a":5},"topic":"t"}',
        b'{"id":"\\"attributes\\":{","topic":"t","attributes":{"a":5},"data":{"attributes":{"a":1}}}',
        b'{"topic":"t","attributes":{"a":1,"a":5}}',
    ],
)
def test_any_spelling_is_related_to_what_came_before(spelled: bytes) -> None:
    index = index_of([record("s", "a > prev(a) * 2"), record("t", "a > prev(a) * 3")])
    assert matched(index, content({"a": 2}, topic="t"), spelled, content({"a": 11}, topic="t")) == [set(), {"s"}, {"s"}]
