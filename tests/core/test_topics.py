"""Topics and patterns, against an oracle that names every node of a small tree."""

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from braid.topics import LEVELS_MAX, SCOPES, canonical_topic, default_scope, has_wildcard, matches, parse_pattern
from braid.topics import parse_topic as parse

PAGE = (Path(__file__).parents[2] / "docs" / "subscriptions.md").read_text(encoding="utf-8")

DEPTH = 4
TREE = [node for depth in range(1, DEPTH + 1) for node in itertools.product("ab", repeat=depth)]

patterns = (
    st.tuples(st.lists(st.sampled_from(["a", "b", "+"]), max_size=DEPTH), st.sampled_from([[], ["#"]]))
    .map(lambda parts: (*parts[0], *parts[1]))
    .filter(bool)
)
names = st.sampled_from(["1", "42", "007", "a", "v1.2", "x y", "é", "..", "²", "٣"])
levels = st.tuples(names, st.lists(names | st.just("1.4"), max_size=4)).map(lambda parts: (parts[0], *parts[1]))


def rows(language: str) -> list[list[str]]:
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [[cell.strip() for cell in line.split(" | ")] for line in block.splitlines()]


def nodes_of(pattern: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Every node of the tree that the pattern names."""
    fixed = pattern[:-1] if pattern[-1] == "#" else pattern
    found = []
    for node in TREE:
        deep_enough = len(node) >= len(fixed) if pattern[-1] == "#" else len(node) == len(fixed)
        if deep_enough and all(wanted in ("+", level) for wanted, level in zip(fixed, node, strict=False)):
            found.append(node)
    return found


def is_at_or_above(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return other[: len(one)] == one


@given(patterns, st.sampled_from(TREE))
@settings(derandomize=True, deadline=None, database=None, max_examples=1000)
def test_scopes_mean_what_the_nodes_of_the_pattern_say(pattern: tuple[str, ...], topic: tuple[str, ...]) -> None:
    nodes = nodes_of(pattern)
    below = any(is_at_or_above(node, topic) for node in nodes)
    above = any(is_at_or_above(topic, node) for node in nodes)
    assert matches(pattern, "self", topic) is (topic in nodes)
    assert matches(pattern, "below", topic) is below
    assert matches(pattern, "both", topic) is (below or above)


@given(levels)
@settings(derandomize=True, deadline=None, database=None, max_examples=500)
def test_a_canonical_topic_is_read_back(topic: tuple[str, ...]) -> None:
    canonical = canonical_topic(topic)
    assert parse(canonical) == parse_pattern(canonical) == topic
    assert parse("/".join(topic)) == topic
    assert ("/" in canonical) is (len(topic) > 1 and not all(re.fullmatch("[0-9]+", level) for level in topic))


@given(st.lists(st.sampled_from(["1", "42", "a", "+"]), max_size=4), st.sampled_from([[], ["#"]]))
@settings(derandomize=True, deadline=None, database=None, max_examples=300)
def test_a_canonical_pattern_is_read_back(before: list[str], last: list[str]) -> None:
    pattern = (*before, *last)
    if pattern:
        canonical = canonical_topic(pattern)
        assert parse_pattern(canonical) == pattern
        assert canonical_topic(parse_pattern("/".join(pattern))) == canonical
        assert has_wildcard(pattern) is ("+" in pattern or "#" in pattern)
        assert default_scope(pattern) == ("self" if has_wildcard(pattern) else "both")


@given(st.text(alphabet="a1.+#/ \n", max_size=12))
@settings(derandomize=True, deadline=None, database=None, max_examples=500)
def test_every_text_is_a_topic_or_an_error(text: str) -> None:
    try:
        topic = parse(text)
    except ValueError:
        event("refused")
    else:
        assert parse_pattern(text) == topic
        assert all(topic)
        assert not set("".join(topic)) & set("+#/")
        assert matches(topic, "self", topic)


@pytest.mark.parametrize(("pattern", "scope", "topic", "expected"), rows("topic-examples"))
def test_example(pattern: str, scope: str, topic: str, expected: str) -> None:
    parsed = parse_pattern(pattern)
    assert matches(parsed, scope or default_scope(parsed), parse(topic)) is (expected == "true")


@pytest.mark.parametrize(("given", "canonical"), rows("topic-canonical"))
def test_canonical_form(given: str, canonical: str) -> None:
    assert canonical_topic(parse_pattern(given)) == canonical


@pytest.mark.parametrize(("pattern", "message"), rows("topic-error"))
def test_error(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        parse_pattern(pattern)
    assert str(raised.value) == message
    with pytest.raises(ValueError, match="one topic|" + re.escape(message)):
        parse(pattern)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs at least one level"),
        ("/", "the level 1 of '/' is empty"),
        ("a/", "the level 2 of 'a/' is empty"),
        ("1..4", "the level 2 of '1..4' is empty"),
        (".5", "the level 1 of '.5' is empty"),
        ("a/b\x00", "control characters"),
        ("1.4\n", "control characters"),
        ("/".join("a" * (LEVELS_MAX + 1)), "at most 32 levels, this has 33"),
        (".".join("1" * (LEVELS_MAX + 1)), "at most 32 levels, this has 33"),
    ],
)
def test_what_is_neither_a_topic_nor_a_pattern(text: str, message: str) -> None:
    for read in (parse, parse_pattern):
        with pytest.raises(ValueError, match=re.escape(message)):
            read(text)


@pytest.mark.parametrize("text", ["+", "#", "sports/+", "sports/#", "c++", "1.+", "a#b"])
def test_a_publication_has_one_topic(text: str) -> None:
    with pytest.raises(ValueError, match="a publication has one topic"):
        parse(text)


@pytest.mark.parametrize("text", ["#/a", "a/#/b", "1.#.2", "#/#"])
def test_any_number_of_levels_is_the_last(text: str) -> None:
    with pytest.raises(ValueError, match="can only be the last level"):
        parse_pattern(text)


def test_the_deepest_topic() -> None:
    deepest = "/".join("a" * LEVELS_MAX)
    assert len(parse(deepest)) == LEVELS_MAX
    assert matches(parse_pattern("a/#"), "self", parse(deepest))


def test_the_scopes() -> None:
    assert SCOPES == ("self", "below", "both")
