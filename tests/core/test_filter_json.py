"""The JSON form: what it accepts and how it names the wrong part."""

import pytest

from braid.filters import FilterError, Or, from_json, parse, to_json

A = {"attr": "a", "op": "=", "value": 1}


def compared_with(expression: object) -> dict[str, object]:
    return {"attr": "a", "op": "<", "value": expression}


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (A, "a = 1"),
        ({"op": "!=", "value": "x", "attr": "two words"}, "`two words` != 'x'"),
        ({"attr": "a", "op": "suffix", "value": ""}, "a suffix ''"),
        ({"attr": "a", "op": "contains", "value": "x"}, "a contains 'x'"),
        ({"and": [A]}, "a = 1"),
        ({"and": [A, {"and": [A, A]}]}, "a = 1 and a = 1 and a = 1"),
        ({"not": {"or": [A, {"not": A}]}}, "not (a = 1 or not (a = 1))"),
        (compared_with({"prev": "two words"}), "a < prev(`two words`)"),
        (compared_with({"-": [{"-": [{"prev": "a"}]}]}), "a < -(-prev(a))"),
        (compared_with({"-": [1, {"+": [{"prev": "a"}, -2.5]}]}), "a < 1 - (prev(a) + -2.5)"),
    ],
)
def test_from_json(obj: object, text: str) -> None:
    assert from_json(obj) == parse(text)
    assert from_json(to_json(parse(text))) == parse(text)


HALF = "the string holds half of a character (a surrogate that stands alone)"
TAKES_TWO = "an operator takes a list of two; a minus also takes a list of one"


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (None, "a filter is an object (at $)"),
        ([A], "a filter is an object (at $)"),
        ({}, "a filter has attr and op, or one of and, or, not (at $)"),
        ({"and": [A], "or": [A]}, "a filter has attr and op, or one of and, or, not (at $)"),
        ({"nor": [A]}, "unknown key 'nor'; expected 'attr', 'op', 'and', 'or' or 'not' (at $)"),
        ({"and": []}, "must be a list with at least one element (at $.and)"),
        ({"or": A}, "must be a list with at least one element (at $.or)"),
        ({"not": [A]}, "a filter is an object (at $.not)"),
        ({"and": [A, {"not": {"or": [A, 3]}}]}, "a filter is an object (at $.and[1].not.or[1])"),
        ({"attr": "a"}, "op is missing (at $)"),
        ({"op": "="}, "attr is missing (at $)"),
        ({"attr": 1, "op": "="}, "must be a string; expected string (at $.attr)"),
        ({"attr": "a", "op": "="}, "value is missing (at $)"),
        ({"attr": "a", "op": "=", "value": None}, "a value is a string, a number or a boolean (at $.value)"),
        ({"attr": "a", "op": "=", "value": 2**63}, "the integer does not fit in 64 bits (at $.value)"),
        ({"attr": "a", "op": "=", "value": float("nan")}, "NaN is not a value (at $.value)"),
        ({"attr": "a", "op": "<", "value": float("inf")}, "the number is too large for a float (at $.value)"),
        ({"attr": "a", "op": "=", "value": "\ud800"}, f"{HALF} (at $.value)"),
        ({"attr": "a", "op": "prefix", "value": "\ud800"}, f"{HALF} (at $.value)"),
        ({"attr": "\ud800", "op": "exists"}, f"{HALF} (at $.attr)"),
        (compared_with({"prev": "\ud800"}), f"{HALF} (at $.value.prev)"),
        ({"attr": "a", "op": "prefix", "value": 1}, "must be a string; expected string (at $.value)"),
        ({"attr": "a", "op": "in", "values": []}, "must be a list with at least one element (at $.values)"),
        (
            {"attr": "a", "op": "in", "values": [1, [2]]},
            "a value is a string, a number or a boolean (at $.values[1])",
        ),
        ({"attr": "a", "op": "between", "values": [1]}, "between takes the lower and the upper bound (at $.values)"),
        (
            {"attr": "a", "op": "between", "values": [1, "x"]},
            "the bounds differ in type: number and string (at $.values)",
        ),
        (compared_with({}), "an expression has exactly one key; expected 'prev', '+', '-', '*' or '/' (at $.value)"),
        (
            compared_with({"prev": "a", "*": [1, 2]}),
            "an expression has exactly one key; expected 'prev', '+', '-', '*' or '/' (at $.value)",
        ),
        (
            compared_with({"%": [{"prev": "a"}, 2]}),
            "unknown key '%'; expected 'prev', '+', '-', '*' or '/' (at $.value)",
        ),
        (compared_with({"prev": 1}), "must be a string; expected string (at $.value.prev)"),
        (compared_with({"*": {"prev": "a"}}), "must be a list with at least one element (at $.value.*)"),
        (compared_with({"+": [{"prev": "a"}]}), f"{TAKES_TWO} (at $.value.+)"),
        (compared_with({"-": [{"prev": "a"}, 1, 2]}), f"{TAKES_TWO} (at $.value.-)"),
        (compared_with({"-": [{"prev": "a"}, True]}), "arithmetic takes numbers and prev (at $.value.-[1])"),
        (compared_with({"-": [{"prev": "a"}, 2**63]}), "the integer does not fit in 64 bits (at $.value.-[1])"),
        (
            compared_with({"-": [{"prev": "a"}, None]}),
            "a value is a string, a number or a boolean (at $.value.-[1])",
        ),
        (compared_with({"*": [2, {"-": [3]}]}), "an expression needs prev; without it, write its value (at $.value)"),
        ({"attr": "a", "op": "prefix", "value": {"prev": "a"}}, "must be a string; expected string (at $.value)"),
        (
            {"attr": "a", "op": "in", "values": [{"prev": "a"}]},
            "a value is a string, a number or a boolean (at $.values[0])",
        ),
        ({"attr": "a", "op": "exists", "value": 1}, "unknown key 'value'; expected 'attr' or 'op' (at $)"),
        (
            {"attr": "a", "op": "==", "value": 1},
            "unknown operator '=='; expected '=', '!=', '<', '<=', '>', '>=', 'in', 'between', "
            "'prefix', 'suffix', 'contains' or 'exists' (at $.op)",
        ),
    ],
)
def test_error(obj: object, message: str) -> None:
    with pytest.raises(FilterError) as error:
        from_json(obj)
    assert str(error.value) == message
    assert error.value.path == message[message.rindex("(at ") + 4 : -1]
    assert error.value.position == 0


def test_nesting_is_bounded_even_if_it_never_ends() -> None:
    endless: dict[str, object] = {}
    endless["not"] = endless
    with pytest.raises(FilterError, match="nested deeper than 64 levels"):
        from_json(endless)


def test_expressions_are_bounded_even_if_they_never_end() -> None:
    endless: dict[str, object] = {}
    endless["-"] = [endless]
    with pytest.raises(FilterError, match="the expression has more than 32 numbers, attributes and operators"):
        from_json(compared_with(endless))


@pytest.mark.parametrize("key", ["-", "/"])
@pytest.mark.parametrize("operands", [1, 2])
def test_the_largest_expression_of_each_form_is_accepted_by_the_other(key: str, operands: int) -> None:
    expression: object = {"-": [{"prev": "a"}]}
    for _ in range(15):
        # Two nodes each: an operator and a number, or two minus signs.
        expression = {key: [1, expression]} if operands == 2 else {"-": [{"-": [expression]}]}
    node = from_json(compared_with(expression))
    assert parse(str(node)) == node
    assert from_json(to_json(node)) == node
    with pytest.raises(FilterError, match="more than 32"):
        from_json(compared_with({"-": [expression]}))


def test_the_number_of_predicates_is_bounded() -> None:
    assert isinstance(from_json({"or": [A] * 256}), Or)
    with pytest.raises(FilterError, match=r"more than 256 predicates \(at \$\.or\[256\]\)"):
        from_json({"or": [A] * 257})


def test_the_deepest_filter_of_each_form_is_accepted_by_the_other() -> None:
    obj: dict[str, object] = {**A}
    for level in range(64):
        choices: list[dict[str, object]] = [{"not": obj}, {"and": [A, obj]}, {"or": [A, obj]}]
        obj = choices[level % 3]
    node = from_json(obj)
    assert parse(str(node)) == node
    assert from_json(to_json(node)) == node
