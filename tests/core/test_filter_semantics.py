"""What each predicate answers for each type of value: the plain evaluator and the index."""

import pytest

from braid.filters import Value, evaluate, parse, print_filter
from tests.core.indexed import accepted_by_index

MISSING = object()

# Columns of the tables below: the value of attribute `a` in the publication.
VALUES: tuple[Value | object, ...] = (MISSING, "m", "", "z", True, False, 0, 1, 1.0, 5, 5.5, -0.0)


def holds(text: str, publications: list[dict[str, Value]]) -> list[bool]:
    """As both say."""
    node = parse(text)
    expected = [evaluate(node, attributes) for attributes in publications]
    assert accepted_by_index(print_filter(node), publications) == expected
    return expected


def answers(text: str) -> list[Value | object]:
    """The values for which the filter holds."""
    publications = [{"other": 1} if value is MISSING else {"other": 1, "a": value} for value in VALUES]
    verdicts = holds(text, publications)  # type: ignore[arg-type]
    return [value for value, verdict in zip(VALUES, verdicts, strict=True) if verdict]


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
    conjunction, disjunction = " and ".join(parts), " or ".join(parts)
    without_one = [{other: value for other in everything if other != name} for name in everything]
    with_one = [{name: value} for name in everything]
    assert holds(conjunction, [everything, *without_one]) == [True, *[False] * length]
    assert holds(disjunction, [{}, *with_one]) == [False, *[True] * length]


def test_large_integers_are_compared_exactly() -> None:
    assert holds("n > 9007199254740992", [{"n": 9007199254740993}, {"n": 9007199254740992.0}]) == [True, False]
