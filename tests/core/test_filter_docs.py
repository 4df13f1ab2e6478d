"""Every example in the page that defines the language is true."""

import json
import re
from pathlib import Path

import pytest

from braid.filters import (
    MAX_ALTERNATIVES,
    MAX_DEPTH,
    MAX_EXPRESSION_NODES,
    MAX_PREDICATES,
    FilterError,
    alternatives,
    evaluate,
    from_json,
    parse,
    print_filter,
    to_json,
    uses_previous,
)
from braid.filters.lexer import KEYWORDS
from braid.filters.nodes import OPERATORS, TEXT_PREDICATES
from tests.core.indexed import accepted_by_index

PAGE = (Path(__file__).parents[2] / "docs" / "filters.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"the page has no {language} block"
    return found


def rows(language: str) -> list[list[str]]:
    lines = "".join(blocks(language)).splitlines()
    return [[cell.strip() for cell in line.split(" | ")] for line in lines]


@pytest.mark.parametrize("cells", rows("filter-examples"), ids=" | ".join)
def test_example(cells: list[str]) -> None:
    text, attributes, *previous, matches = cells
    node = parse(text)
    assert uses_previous(node) or not previous
    before = json.loads(previous[0]) if previous else None
    assert evaluate(node, json.loads(attributes), before) is json.loads(matches)
    published = [*([] if before is None else [before]), json.loads(attributes)]
    assert accepted_by_index(print_filter(node), published)[-1] is json.loads(matches)


def other_type_rows() -> list[list[str]]:
    table = PAGE.split("| predicate | without `a` |")[1].split("\n\n")[0]
    return [[cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]


@pytest.mark.parametrize(("text", "missing", "other_type", "matches"), other_type_rows())
def test_missing_attribute_and_other_type(text: str, missing: str, other_type: str, matches: str) -> None:
    node, previous = parse(text), {"a": 1}
    assert evaluate(node, {}, previous) is json.loads(missing)
    assert evaluate(node, json.loads(other_type), previous) is json.loads(matches)


def test_the_table_of_missing_attributes_holds_every_operator() -> None:
    operators = {word for text, *_ in other_type_rows() for word in text.split()}
    assert {*OPERATORS, *TEXT_PREDICATES, "in", "between", "exists", "prev(a)"} <= operators


@pytest.mark.parametrize(("text", "count"), rows("filter-alternatives"))
def test_alternatives(text: str, count: str) -> None:
    assert len(alternatives(parse(text))) == int(count)


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("predicates", MAX_PREDICATES),
        ("depth", MAX_DEPTH),
        ("alternatives", MAX_ALTERNATIVES),
        ("expression", MAX_EXPRESSION_NODES),
    ],
)
def test_limit(limit: str, value: int) -> None:
    assert f"\n| {limit} | {value} |" in PAGE


@pytest.mark.parametrize("message", blocks("filter-error"))
def test_error(message: str) -> None:
    text = message.splitlines()[1].removeprefix("  ")
    with pytest.raises(FilterError) as error:
        parse(text)
    assert str(error.value) == message.removesuffix("\n")


@pytest.mark.parametrize(("text", "canonical"), rows("filter-canonical"))
def test_canonical_text(text: str, canonical: str) -> None:
    assert print_filter(parse(text)) == canonical
    assert print_filter(parse(canonical)) == canonical


@pytest.mark.parametrize(("text", "form"), rows("filter-json"))
def test_json_form(text: str, form: str) -> None:
    assert from_json(json.loads(form)) == parse(text)
    assert to_json(parse(text)) == json.loads(form)


@pytest.mark.parametrize(("form", "message"), rows("filter-json-error"))
def test_json_error(form: str, message: str) -> None:
    with pytest.raises(FilterError) as error:
        from_json(json.loads(form))
    assert str(error.value) == message


def test_the_grammar_names_exactly_the_keywords() -> None:
    (grammar,) = blocks("ebnf")
    assert set(re.findall(r'"([a-z]{2,})"', grammar)) == {*KEYWORDS, "prev"}
