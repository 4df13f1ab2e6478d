"""What a comparison with the previous publication answers, and what its expression amounts to."""

import pytest

from braid.filters import ComparisonWithPrevious, Value, evaluate, parse, value_of

PREVIOUS: dict[str, Value] = {
    "three": 3,
    "half": 0.5,
    "zero": 0,
    "least": -(2**63),
    "most": 2**63 - 1,
    "huge": 1e308,
    "text": "x",
    "yes": True,
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("prev(three)", 3),
        ("prev(text)", "x"),
        ("prev(yes)", True),
        ("-prev(three)", -3),
        ("-prev(least)", 2**63),
        ("prev(three) + 4", 7),
        ("prev(three) - 4 - 2", -3),
        ("prev(three) - (4 - 2)", 1),
        ("prev(three) * 4 + 1", 13),
        ("2 / prev(three) / 2", 2 / 3 / 2),
        ("prev(three) / 1", 3.0),
        ("prev(three) * prev(half)", 1.5),
        ("prev(most) * prev(most)", (2**63 - 1) ** 2),
        ("prev(most) + 1.0", float(2**63)),
        ("prev(zero) * -1.0", -0.0),
        ("prev(missing)", None),
        ("-prev(missing)", None),
        ("prev(missing) * 0", None),
        ("0 * prev(missing)", None),
        ("-prev(text)", None),
        ("-prev(yes)", None),
        ("prev(text) + 1", None),
        ("1 + prev(yes)", None),
        ("1 / prev(zero)", None),
        ("1.5 / (prev(zero) * 1.0)", None),
        ("prev(huge) * 10", None),
        ("1 / (prev(huge) * 10)", None),
        ("prev(huge) - prev(huge) * 10", None),
        (" * ".join(["prev(most)"] * 16), (2**63 - 1) ** 16),
    ],
)
def test_value_of(expression: str, value: Value | None) -> None:
    node = parse(f"a = {expression}")
    assert isinstance(node, ComparisonWithPrevious)
    assert repr(value_of(node.expression, PREVIOUS)) == repr(value)
    assert value_of(node.expression, None) is None


@pytest.mark.parametrize("expression", ["prev(a) / 7", "prev(a) + 0.5", "0.5 * prev(a)"])
def test_an_integer_too_large_for_a_float_has_no_value_with_one(expression: str) -> None:
    assert evaluate(parse(f"a != {expression}"), {"a": 1}, {"a": 2**1100}) is False


@pytest.mark.parametrize(
    ("operator", "lower", "same", "higher"),
    [
        ("=", False, True, False),
        ("!=", True, False, True),
        ("<", True, False, False),
        ("<=", True, True, False),
        (">", False, False, True),
        (">=", False, True, True),
    ],
)
def test_every_operator(operator: str, lower: bool, same: bool, higher: bool) -> None:
    node = parse(f"a {operator} prev(a) * 2")
    assert [evaluate(node, {"a": a}, {"a": 2}) for a in (3, 4, 5)] == [lower, same, higher]
    assert evaluate(node, {"a": 4}, None) is False
    assert evaluate(node, {"a": 4}) is False
    assert evaluate(node, {"a": 4}, {}) is False
    assert evaluate(node, {}, {"a": 2}) is False
    assert evaluate(node, {"a": "4"}, {"a": 2}) is False
    assert evaluate(node, {"a": True}, {"a": 0.5}) is False


def test_large_integers_are_compared_exactly() -> None:
    node = parse("a = prev(a) + 1")
    assert evaluate(node, {"a": 2**53 + 1}, {"a": 2**53}) is True
    assert evaluate(node, {"a": float(2**53)}, {"a": 2**53}) is False


def test_the_previous_publication_reaches_every_part() -> None:
    node = parse("(a = 1 or a < prev(a)) and not (b = prev(b))")
    assert evaluate(node, {"a": 2, "b": 1}, {"a": 3, "b": 2}) is True
    assert evaluate(node, {"a": 2, "b": 2}, {"a": 3, "b": 2}) is False
    assert evaluate(node, {"a": 2, "b": 1}) is False
    assert evaluate(node, {"a": 1, "b": 1}) is True
