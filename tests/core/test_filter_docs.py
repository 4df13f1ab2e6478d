"""Every example in the page that defines the language is true."""

import json
import re
from pathlib import Path

import pytest

from braid.filters import FilterError, compile_filter, evaluate, from_json, parse, print_filter, to_json
from braid.filters.lexer import KEYWORDS

PAGE = (Path(__file__).parents[2] / "docs" / "filters.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"the page has no {language} block"
    return found


def rows(language: str) -> list[list[str]]:
    lines = "".join(blocks(language)).splitlines()
    return [[cell.strip() for cell in line.split(" | ")] for line in lines]


@pytest.mark.parametrize(("text", "attributes", "matches"), rows("filter-examples"))
def test_example(text: str, attributes: str, matches: str) -> None:
    node = parse(text)
    assert evaluate(node, json.loads(attributes)) is json.loads(matches)
    assert compile_filter(node)(json.loads(attributes)) is json.loads(matches)


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
    assert set(re.findall(r'"([a-z]{2,})"', grammar)) == KEYWORDS
