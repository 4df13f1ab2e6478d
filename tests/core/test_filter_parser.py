"""The grammar, and the errors with their exact positions."""

import pickle

import pytest

from braid.filters import (
    And,
    Arithmetic,
    Between,
    Comparison,
    ComparisonWithPrevious,
    Contains,
    Exists,
    Filter,
    FilterError,
    In,
    Negation,
    Not,
    Or,
    Prefix,
    Previous,
    Suffix,
    parse,
    print_filter,
    uses_previous,
)

A, B, C = Comparison("a", "=", 1), Comparison("b", "=", 2), Comparison("c", "=", 3)
PREV_B = Previous("b")


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("a=1", A),
        ("\n a\t=\r\n1 ", A),
        ("((a = 1))", A),
        ("a = 1 and b = 2 and c = 3", And((A, B, C))),
        ("a = 1 and (b = 2 and c = 3)", And((A, B, C))),
        ("a = 1 or (b = 2 or c = 3)", Or((A, B, C))),
        ("a = 1 or b = 2 and c = 3", Or((A, And((B, C))))),
        ("(a = 1 or b = 2) and c = 3", And((Or((A, B)), C))),
        ("not a = 1 and b = 2", And((Not(A), B))),
        ("not not a = 1", Not(Not(A))),
        ("a between 1 and 2 and b = 2", And((Between("a", 1, 2), B))),
        ("a IN (1, 'x', TRUE, -2.5)", In("a", (1, "x", True, -2.5))),
        ("a prefix 'x'", Prefix("a", "x")),
        ("a suffix 'it''s'", Suffix("a", "it's")),
        ("a contains ''", Contains("a", "")),
        ("exists a-b.c", Exists("a-b.c")),
        ("exists año", Exists("año")),
        ("exists `exists`", Exists("exists")),
        ("exists ``", Exists("")),
        ("exists not-a", Exists("not-a")),
        ("prev = 1", Comparison("prev", "=", 1)),
        ("a = -9223372036854775808", Comparison("a", "=", -(2**63))),
        ("a = 9223372036854775807", Comparison("a", "=", 2**63 - 1)),
        ("a = " + "0" * 6000 + "7", Comparison("a", "=", 7)),
        ("a = 1e3", Comparison("a", "=", 1000.0)),
        ("a = +1.5E-3", Comparison("a", "=", 0.0015)),
        ("a = 1e-999", Comparison("a", "=", 0.0)),
        ("a = 'x\ny'", Comparison("a", "=", "x\ny")),
        ("a != prev(b)", ComparisonWithPrevious("a", "!=", PREV_B)),
        ("a != ((Prev\n(`b`)))", ComparisonWithPrevious("a", "!=", PREV_B)),
        ("prev = prev(prev)", ComparisonWithPrevious("prev", "=", Previous("prev"))),
        ("a = -prev(b)", ComparisonWithPrevious("a", "=", Negation(PREV_B))),
        ("a = -(-5) / prev(b)", ComparisonWithPrevious("a", "=", Arithmetic("/", Negation(-5), PREV_B))),
        ("a = -5 / prev(b)", ComparisonWithPrevious("a", "=", Arithmetic("/", -5, PREV_B))),
        ("a = prev(b)-1", ComparisonWithPrevious("a", "=", Arithmetic("-", PREV_B, 1))),
        ("a = prev(b)--1", ComparisonWithPrevious("a", "=", Arithmetic("-", PREV_B, -1))),
        ("a = 1.5+prev(b)", ComparisonWithPrevious("a", "=", Arithmetic("+", 1.5, PREV_B))),
        (
            "a = 1 - 2*prev(b) - 3",
            ComparisonWithPrevious("a", "=", Arithmetic("-", Arithmetic("-", 1, Arithmetic("*", 2, PREV_B)), 3)),
        ),
        (
            "a = (1 - 2)*-prev(b)",
            ComparisonWithPrevious("a", "=", Arithmetic("*", Arithmetic("-", 1, 2), Negation(PREV_B))),
        ),
        ("a < prev(b) and b = 2", And((ComparisonWithPrevious("a", "<", PREV_B), B))),
        ("(a < prev(b)) or not b = 2", Or((ComparisonWithPrevious("a", "<", PREV_B), Not(B)))),
    ],
)
def test_parse(text: str, node: Filter) -> None:
    assert parse(text) == node
    assert repr(parse(text)) == repr(node)
    assert parse(print_filter(node)) == node


def test_filters_that_differ_in_the_type_of_a_value_differ() -> None:
    texts = ["a = 1", "a = 1.0", "a = true", "a = '1'", "a = prev(a) + 1", "a = prev(a) + 1.0"]
    assert len({parse(text) for text in texts}) == len(texts)
    assert parse("a = 1") != "a = 1"


OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "in", "between", "prefix", "suffix", "contains")
TERM = ("attribute", "exists", "not", "(")
LITERAL = ("string", "number", "true", "false")
OPERAND = ("number", "prev", "-", "(")
RIGHT_HAND_SIDE = (*LITERAL, "prev", "-", "(")


NEEDS_PREV = "an expression needs prev(...); without it, write its value"
PREV_PLACE = "(prev(attribute) stands to the right of = != < <= > >=)"


@pytest.mark.parametrize(
    ("text", "position", "message", "expected"),
    [
        ("", 0, "unexpected end of filter", TERM),
        ("a", 1, "unexpected end of filter", OPERATORS),
        ('a b "', 2, "unexpected 'b'", OPERATORS),
        ("a =", 3, "unexpected end of filter", RIGHT_HAND_SIDE),
        ("a = b", 4, "unexpected 'b' (strings are written in single quotes)", RIGHT_HAND_SIDE),
        ("a prefix 1", 9, "unexpected '1'", ("string",)),
        ("a = 1 b = 2", 6, "unexpected 'b'", ("and", "or", "end of filter")),
        ("a = 1)", 5, "unexpected ')'", ("and", "or", "end of filter")),
        ("(a = 1", 6, "unexpected end of filter", ("and", "or", ")")),
        ("a = 1 and", 9, "unexpected end of filter", TERM),
        ("a = 1 and and", 10, "unexpected 'and'", TERM),
        ("a in 1", 5, "unexpected '1'", ("(",)),
        ("a in ()", 6, "unexpected ')'", LITERAL),
        ("a in (1 2)", 8, "unexpected '2'", (",", ")")),
        ("a between 1 or 2", 12, "unexpected 'or'", ("and",)),
        ("a between 1 and 'x'", 16, "the bounds differ in type: number and string", ()),
        ("a between 1 and true", 16, "the bounds differ in type: number and boolean", ()),
        ("exists 'a'", 7, "unexpected \"'a'\"", ("attribute",)),
        ("in = 1", 0, "unexpected 'in'", TERM),
        ("a = 'x", 4, "the string has no closing quote", ()),
        ("a = '''", 4, "the string has no closing quote", ()),
        ("`a``", 0, "the attribute name has no closing backtick", ()),
        ("a == 1", 2, "unexpected '==': equality is written =", ()),
        ("a <> 1", 2, "unexpected '<>': inequality is written !=", ()),
        ("a = 1 && b = 2", 6, "unexpected '&&': a conjunction is written and", ()),
        ("a = 1 || b = 2", 6, "unexpected '||': a disjunction is written or", ()),
        ("!a = 1", 0, "unexpected '!': a negation is written not", ()),
        ('a = "x"', 4, "unexpected '\"': strings are written in single quotes", ()),
        ("a = 12px", 4, "malformed number '12px'", ()),
        ("a = 1.", 4, "malformed number '1.'", ()),
        ("a = 1.2.3", 4, "malformed number '1.2.3'", ()),
        ("a = '\ud800'", 4, "the string holds half of a character (a surrogate that stands alone)", ()),
        ("`\udfff` = 1", 0, "the string holds half of a character (a surrogate that stands alone)", ()),
        ("²a = 1", 0, "unexpected '²'", ()),
        ("a = 1 and Ⅷ = 1", 10, "unexpected 'Ⅷ'", ()),
        ("a = .5", 4, "unexpected '.'", ()),
        ("a in (- 5)", 6, "unexpected '-'", LITERAL),
        ("a = - 5", 4, NEEDS_PREV, ()),
        ("a = (5)", 4, NEEDS_PREV, ()),
        ("a = 1 -1", 4, NEEDS_PREV, ()),
        ("a = nan", 4, "unexpected 'nan' (strings are written in single quotes)", RIGHT_HAND_SIDE),
        ("a = 9223372036854775808", 4, "the integer does not fit in 64 bits", ()),
        ("a = -9223372036854775809", 4, "the integer does not fit in 64 bits", ()),
        ("a = " + "9" * 6000, 4, "the integer does not fit in 64 bits", ()),
        ("a = -1e999", 4, "the number is too large for a float", ()),
        ("a = ٣", 4, "unexpected '٣'", ()),
        ("a < prev", 4, "unexpected 'prev' (strings are written in single quotes)", RIGHT_HAND_SIDE),
        ("prev(a) < 1", 0, f"unexpected 'prev' {PREV_PLACE}", TERM),
        ("exists PREV (a)", 7, f"unexpected 'PREV' {PREV_PLACE}", ("attribute",)),
        ("a in (prev(a))", 6, f"unexpected 'prev' {PREV_PLACE}", LITERAL),
        ("a between 1 and prev(a)", 16, f"unexpected 'prev' {PREV_PLACE}", LITERAL),
        ("a prefix prev(a)", 9, f"unexpected 'prev' {PREV_PLACE}", ("string",)),
        ("a = prev(prev(a))", 9, f"unexpected 'prev' {PREV_PLACE}", ("attribute",)),
        ("a = prev()", 9, "unexpected ')'", ("attribute",)),
        ("a = prev('a')", 9, "unexpected \"'a'\"", ("attribute",)),
        ("a = prev(a", 10, "unexpected end of filter", (")",)),
        ("a = (prev(a)", 12, "unexpected end of filter", ("+", "-", "*", "/", ")")),
        ("a = prev(a) *", 13, "unexpected end of filter", OPERAND),
        ("a = prev(a) ** 2", 13, "unexpected '*'", OPERAND),
        ("a = prev(a) - + prev(b)", 14, "unexpected '+'", OPERAND),
        ("a = prev(a) + 'x'", 14, "unexpected \"'x'\"", OPERAND),
        ("a = prev(a) * true", 14, "unexpected 'true'", OPERAND),
        ("a = prev(a) * b", 14, "unexpected 'b' (arithmetic takes numbers and prev(attribute))", OPERAND),
        ("a = prev(a) 2", 12, "unexpected '2'", ("and", "or", "end of filter")),
        ("a = prev(a) % 2", 12, "unexpected '%'", ()),
        ("a = 'x' + prev(a)", 8, "unexpected '+'", ("and", "or", "end of filter")),
        ("a + 1 < prev(a)", 2, "only an attribute stands on the left-hand side, as in value > prev(value) + 5", ()),
        ("a -1 < prev(a)", 2, "only an attribute stands on the left-hand side, as in value > prev(value) + 5", ()),
        ("a not in (1)", 2, "a negation stands before the attribute, as in not (a in (1, 2))", ()),
    ],
)
def test_error(text: str, position: int, message: str, expected: tuple[str, ...]) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    error = caught.value
    assert (error.message, error.position, error.expected) == (message, position, expected)
    assert error.text == text
    assert error.path is None


def error_text(text: str) -> str:
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    return str(caught.value)


def test_the_caret_stands_under_the_position() -> None:
    assert error_text("a = 1 and b prefix 2").splitlines() == [
        "unexpected '2'; expected string (position 19)",
        "  a = 1 and b prefix 2",
        "                     ^",
    ]


def test_the_caret_stands_behind_a_text_that_ends_too_early() -> None:
    assert error_text("(a = 1").splitlines() == [
        "unexpected end of filter; expected 'and', 'or' or ')' (position 6)",
        "  (a = 1",
        "        ^",
    ]


def test_only_the_line_of_the_error_is_shown_and_tabs_do_not_move_the_caret() -> None:
    assert error_text("a = 1 and\n\tb ~ 2 and\nc = 3").splitlines() == [
        "unexpected '~' (position 13)",
        "   b ~ 2 and",
        "     ^",
    ]


def test_long_lines_are_cut_around_the_error() -> None:
    text = "x" * 200 + " ~ " + "y" * 200
    assert error_text(text).splitlines() == [
        "unexpected '~' (position 201)",
        "  …" + "x" * 49 + " ~ " + "y" * 48 + "…",
        "   " + " " * 50 + "^",
    ]


def test_error_texts_can_be_encoded_whatever_the_filter_holds() -> None:
    assert error_text("a = \ud800").encode().startswith(b"unexpected '\\ud800'")


@pytest.mark.parametrize("opening", ["(", "not ", "not (", "( not "])
def test_nesting_is_bounded(opening: str) -> None:
    text = opening * 100_000 + "a = 1"
    with pytest.raises(FilterError, match="nested deeper than 64 levels"):
        parse(text)


def test_nesting_up_to_the_limit_is_read() -> None:
    assert parse("(" * 64 + "a = 1" + ")" * 64) == A
    with pytest.raises(FilterError) as error:
        parse("(" * 65 + "a = 1" + ")" * 65)
    assert error.value.position == 64
    assert parse("not (a = 1)", max_depth=1) == Not(A)
    with pytest.raises(FilterError, match="deeper than 1 levels"):
        parse("a = 1 and b = 2 or c = 3", max_depth=1)


def test_the_number_of_predicates_is_bounded() -> None:
    assert isinstance(parse(" or ".join(["a = 1"] * 256)), Or)
    with pytest.raises(FilterError, match="more than 256 predicates") as error:
        parse(" or ".join(["a = 1"] * 257))
    assert error.value.position == 256 * len("a = 1 or ")
    with pytest.raises(FilterError, match="more than 1 predicates"):
        parse("a = 1 and b = 2", max_predicates=1)


@pytest.mark.parametrize("opening", ["(", "-", "- (", "1 - (", "-(-", "prev(a) + "])
def test_expressions_are_bounded(opening: str) -> None:
    with pytest.raises(FilterError, match=r"the expression (has|is nested)"):
        parse("a < " + opening * 100_000 + "prev(a)")


def test_expressions_up_to_the_limit_are_read() -> None:
    for text in ("-" * 31 + "prev(a)", "(" * 32 + "prev(a)" + ")" * 32, "1 + " * 15 + "-prev(a)"):
        node = parse(f"a < {text}")
        assert parse(print_filter(node)) == node
    message = "the expression has more than 32 numbers, attributes and operators"
    with pytest.raises(FilterError, match=message) as error:
        parse("a < " + "1 + " * 16 + "prev(a)")
    assert error.value.position == len("a < ") + 16 * len("1 + ")
    with pytest.raises(FilterError, match="the expression is nested deeper than 32 levels") as error:
        parse("a < " + "(" * 33 + "prev(a)" + ")" * 33)
    assert error.value.position == len("a < ") + 32


def test_the_deepest_expression_in_the_deepest_filter_is_read() -> None:
    text = "not (" * 64 + "a < " + "(" * 32 + "-" * 31 + "prev(a)" + ")" * 32 + ")" * 64
    node = parse(text)
    assert parse(print_filter(node)) == node


def test_a_comparison_with_the_previous_publication_refers_to_it() -> None:
    with pytest.raises(ValueError, match="at least once"):
        ComparisonWithPrevious("a", "<", Arithmetic("*", 2, 3))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("a = 1", False),
        ("not (a = 1 or b in (1, 2) and exists prev)", False),
        ("a = prev(a)", True),
        ("a = 1 and (b = 1 or not (c < 2 * (1 - prev(d))))", True),
    ],
)
def test_uses_previous(text: str, answer: bool) -> None:
    assert uses_previous(parse(text)) is answer


def test_conjunctions_of_one_part_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="at least two parts"):
        And((A,))
