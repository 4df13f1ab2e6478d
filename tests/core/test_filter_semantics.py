"""What each predicate answers for each type of value, with both evaluators."""

import pytest

from braid.filters import Value, compile_filter, equality_key, evaluate, parse, required_equalities

MISSING = object()

# Columns of the tables below: the value of attribute `a` in the publication.
VALUES: tuple[Value | object, ...] = (MISSING, "m", "", "z", True, False, 0, 1, 1.0, 5, 5.5, -0.0)


def answers(text: str) -> list[Value | object]:
    """The values for which the filter holds."""
    node = parse(text)
    compiled = compile_filter(node)
    found = []
    for value in VALUES:
        attributes = {"other": 1} if value is MISSING else {"other": 1, "a": value}
        expected = evaluate(node, attributes)  # type: ignore[arg-type]
        assert compiled(attributes) is expected, (text, attributes)  # type: ignore[arg-type]
        if expected:
            found.append(value)
    return found


@pytest.mark.parametrize(
    ("text", "holds_for"),
    [
        ("a = 'm'", ["m"]),
        ("a != 'm'", ["", "z"]),
        ("a < 'm'", [""]),
        ("a <= 'm'", ["m", ""]),
        ("a > 'm'", ["z"]),
        ("a >= 'm'", ["m", "z"]),
        ("a = ''", [""]),
        ("a = 1", [1, 1.0]),
        ("a = 0", [0, -0.0]),
        ("a = 5.5", [5.5]),
        ("a = 1.0", [1, 1.0]),
        ("a != 1", [0, 5, 5.5, -0.0]),
        ("a < 1", [0, -0.0]),
        ("a <= 1", [0, 1, 1.0, -0.0]),
        ("a > 1", [5, 5.5]),
        ("a >= 1", [1, 1.0, 5, 5.5]),
        ("a = true", [True]),
        ("a = false", [False]),
        ("a != true", [False]),
        ("a != false", [True]),
        ("a < true", [False]),
        ("a <= true", [True, False]),
        ("a > true", []),
        ("a > false", [True]),
        ("a >= true", [True]),
        ("a in ('m')", ["m"]),
        ("a in ('m', 'z', 5)", ["m", "z", 5]),
        ("a in (1)", [1, 1.0]),
        ("a in (0, 1)", [0, 1, 1.0, -0.0]),
        ("a in (true, 5)", [True, 5]),
        ("a in (true, 0)", [True, 0, -0.0]),
        ("a in (true, false)", [True, False]),
        ("a between 1 and 5", [1, 1.0, 5]),
        ("a between 0 and 1.0", [0, 1, 1.0, -0.0]),
        ("a between 5 and 1", []),
        ("a between '' and 'm'", ["m", ""]),
        ("a between false and true", [True, False]),
        ("a prefix 'm'", ["m"]),
        ("a prefix ''", ["m", "", "z"]),
        ("a suffix 'z'", ["z"]),
        ("a suffix ''", ["m", "", "z"]),
        ("a contains 'm'", ["m"]),
        ("a contains ''", ["m", "", "z"]),
        ("exists a", list(VALUES[1:])),
        ("not exists a", [MISSING]),
        ("not (a = 'm')", [MISSING, "", "z", True, False, 0, 1, 1.0, 5, 5.5, -0.0]),
        ("not (a != 1)", [MISSING, "m", "", "z", True, False, 1, 1.0]),
    ],
)
def test_predicate(text: str, holds_for: list[Value | object]) -> None:
    # Text tells values apart that Python takes for equal, such as 1, 1.0 and True.
    assert list(map(repr, answers(text))) == list(map(repr, holds_for))


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("predicate", ["a{} = 'x'", "a{} prefix 'x'", "a{} = true"])
def test_every_part_of_a_conjunction_and_disjunction_counts(length: int, predicate: str) -> None:
    parts = [predicate.format(i) for i in range(length)]
    value: Value = True if "true" in predicate else "x"
    everything = {f"a{i}": value for i in range(length)}
    conjunction = compile_filter(parse(" and ".join(parts)))
    disjunction = compile_filter(parse(" or ".join(parts)))
    assert conjunction(everything) is True
    assert disjunction({}) is False
    for name in everything:
        assert conjunction({other: value for other in everything if other != name}) is False
        assert disjunction({name: value}) is True


def test_large_integers_are_compared_exactly() -> None:
    above = compile_filter(parse("n > 9007199254740992"))
    assert above({"n": 9007199254740993}) is True
    assert above({"n": 9007199254740992.0}) is False


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a = 1", [("a", 1)]),
        ("a = 'x' and b > 2 and c = true", [("a", "x"), ("c", True)]),
        ("(a = 1 and b = 2) and c = 3", [("a", 1), ("b", 2), ("c", 3)]),
        ("a in ('x')", [("a", "x")]),
        ("a in ('x', 'x') and b in (1, 2)", [("a", "x")]),
        ("a in (1, true)", []),
        ("a = 1 and a = 1.0 and a = true", [("a", 1), ("a", True)]),
        ("a = 1 or b = 2", []),
        ("(a = 1 or b = 2) and c = 3", [("c", 3)]),
        ("not (a = 1)", []),
        ("not (a = 1 and b = 2)", []),
        ("a != 1 and exists b and c between 1 and 1", []),
    ],
)
def test_required_equalities(text: str, pairs: list[tuple[str, Value]]) -> None:
    assert repr(list(required_equalities(parse(text)))) == repr(pairs)


def test_equality_keys_agree_with_the_language() -> None:
    assert equality_key("a", 1) == equality_key("a", 1.0)
    assert hash(equality_key("a", 1)) == hash(equality_key("a", 1.0))
    values: list[Value] = [0, 1, True, False, "", "1", "True", "boolean"]
    assert len({equality_key("a", value) for value in values}) == len(values)
    assert equality_key("a", 1) != equality_key("b", 1)
