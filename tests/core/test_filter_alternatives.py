"""Filters as alternatives, and the bound on their number."""

import time

import pytest

from braid.filters import FilterError, Literal, alternatives, from_json, parse, to_json


def shown(text: str) -> list[str]:
    """The alternatives as text, literals joined by commas."""
    return [
        ", ".join(f"not {literal.predicate}" if literal.negated else str(literal.predicate) for literal in alternative)
        for alternative in alternatives(parse(text))
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", ["a = 1"]),
        ("not (a = 1)", ["not a = 1"]),
        ("not not (a = 1)", ["a = 1"]),
        ("a = 1 and b = 2", ["a = 1, b = 2"]),
        ("a = 1 or b = 2", ["a = 1", "b = 2"]),
        ("a in (1, 2) and not (b in (3, 4))", ["a in (1, 2), not b in (3, 4)"]),
        ("not (a between 1 and 2)", ["not a between 1 and 2"]),
        ("not (a = 1 and b = 2)", ["not a = 1", "not b = 2"]),
        ("not (a = 1 or b = 2)", ["not a = 1, not b = 2"]),
        ("not (a = 1 or not (b = 2 or c = 3))", ["not a = 1, b = 2", "not a = 1, c = 3"]),
        ("a = 1 and (b = 2 or c = 3)", ["a = 1, b = 2", "a = 1, c = 3"]),
        (
            "(a = 1 or b = 2) and (c = 3 or d = 4)",
            ["a = 1, c = 3", "a = 1, d = 4", "b = 2, c = 3", "b = 2, d = 4"],
        ),
        ("a = 1 and b = 2 and a = 1", ["a = 1, b = 2"]),
        ("a = 1 and (a = 1 or b = 2)", ["a = 1", "a = 1, b = 2"]),
        ("a = 1 and not (a = 1)", ["a = 1, not a = 1"]),
        ("a = 1 and a = 1.0 and a = true", ["a = 1, a = 1.0, a = true"]),
        ("a = 1 or a = 1", ["a = 1"]),
        ("not (a < prev(a)) or b = 1", ["not a < prev(a)", "b = 1"]),
    ],
)
def test_alternatives(text: str, expected: list[str]) -> None:
    assert shown(text) == expected


def test_literals_hold_the_predicate() -> None:
    node = parse("a = 1")
    assert alternatives(node) == ((Literal(node, False),),)  # type: ignore[arg-type]  # it is a predicate


def product_of_pairs(pairs: int) -> str:
    return " and ".join(f"(a{i} = 1 or b{i} = 1)" for i in range(pairs))


def test_alternatives_up_to_the_limit_are_built() -> None:
    assert len(alternatives(parse(product_of_pairs(10)))) == 1024
    with pytest.raises(FilterError, match="more than 1024 alternatives") as error:
        parse(product_of_pairs(10) + " or c = 1")
    assert str(error.value).startswith(
        "the filter has more than 1024 alternatives when its 'and' is multiplied out over its 'or'; write the values "
        "of one attribute with 'in', or make several subscriptions of it (position 0)\n  (a0 = 1 or b0 = 1) and"
    )


def test_the_limit_can_be_set() -> None:
    text = product_of_pairs(2)
    node = parse(text, max_alternatives=4)
    assert len(alternatives(node, max_alternatives=4)) == 4
    assert from_json(to_json(node), max_alternatives=4) == node
    with pytest.raises(FilterError, match="more than 3 alternatives"):
        alternatives(node, max_alternatives=3)
    with pytest.raises(FilterError, match="more than 3 alternatives"):
        parse(text, max_alternatives=3)
    with pytest.raises(FilterError, match=r"more than 3 alternatives .* \(at \$\)"):
        from_json(to_json(node), max_alternatives=3)


def test_negation_is_counted_as_it_is_expanded() -> None:
    pairs = " or ".join(f"a{i} = 1 and b{i} = 1" for i in range(11))
    assert len(alternatives(parse(pairs))) == 11
    with pytest.raises(FilterError, match="more than 1024 alternatives"):
        parse(f"not ({pairs})")


def test_counting_stays_cheap_where_expanding_would_never_end() -> None:
    text = product_of_pairs(128)
    started = time.process_time()
    with pytest.raises(FilterError, match="more than 1024 alternatives"):
        parse(text)
    assert time.process_time() - started < 1


def test_the_largest_expansion_takes_little_time() -> None:
    node = parse(product_of_pairs(10) + " and " + " and ".join(f"c{i} = 1" for i in range(236)))
    started = time.process_time()
    expanded = alternatives(node)
    assert time.process_time() - started < 1
    assert (len(expanded), {len(alternative) for alternative in expanded}) == (1024, {246})
