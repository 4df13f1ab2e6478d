"""Turns subscriptions into rows of conditions for the engine: their words, topics and zones, and of those whose filters
the engine cannot read itself the filters too.

What the engine cannot decide (`prev`, integers that no float can hold, very long texts) is left out of the rows, and
the subscription is marked as one to be checked: the engine then finds candidates, and whoever asked it evaluates them.
"""

import math
from collections.abc import Sequence
from itertools import accumulate, product
from typing import NamedTuple

from braid.filters import (
    Between,
    Comparison,
    ComparisonWithPrevious,
    Contains,
    Exists,
    In,
    Operator,
    Prefix,
    Suffix,
    Value,
    parse,
)
from braid.filters.alternatives import Literal, alternatives
from braid.filters.evaluator import COMPARE
from braid.matching.engine import key_records as keys
from braid.matching.engine.conditions import (
    ABOVE,
    BELOW,
    HAS,
    ONE_OF,
    OUTSIDE,
    TEXT_BOUND_MAX,
    TEXT_LENGTH_MAX,
    TEXT_WITHIN,
    WITHIN,
)
from braid.matching.engine.programs import CHECKED, ZONED
from braid.matching.relations import Relation, Relations
from braid.matching.row_writing import Hash, Key, Row, RowWriter, has, lacks, none_of, one_of
from braid.matching.topic_shapes import Chosen, TopicShapes
from braid.subscription import SubscriptionRecord

# The connection point has held the filter against its limits already; a matcher takes what was accepted.
_ACCEPTED = 1_000_000
_CONDITIONS_MAX = 16_384  # of all alternatives; above it, a subscription is found by what they have in common

_WINDOWS_MAX = 16  # parts of a very long text that are keys

Conjunctions = list[list[Row]]


class Given(NamedTuple):
    """Rows of a subscription, the flags of its members, and by which shapes and relations it is found."""

    rows: bytes
    flags: int
    topic: Chosen | None = None
    relations: frozenset[Relation] = frozenset()


NOTHING_GIVEN = Given(b"", 0)


class Choice(NamedTuple):
    """What one literal of a filter comes to: any of these lists of rows; `exact` unless it must be checked too."""

    rows: list[list[Row]]
    exact: bool = True


def compile_parts(record: SubscriptionRecord, writer: RowWriter, shapes: TopicShapes) -> Given:
    """All but its filter."""
    if not record.words and not record.topic and record.zone is None:
        return NOTHING_GIVEN
    rows, flags, topic = b"", 0, None
    if record.words:
        rows = writer.words(record.words)
    if record.topic:
        topic = shapes.choose(record)
        rows += writer.row(one_of([writer.topic(*shape) for shape in topic.shapes]))
        if not topic.exact:
            flags |= CHECKED
    if record.zone is not None:
        rows += writer.zone(record.zone)
        flags |= ZONED
    return Given(rows, flags, topic)


def compile_whole(record: SubscriptionRecord, parts: Given, writer: RowWriter, relations: Relations) -> Given:
    """Its filter too. Raises `FilterError` for a filter that no connection point would have accepted."""
    conjunctions, exact, used = _filter(record.filter, writer, relations)
    flags = parts.flags | (0 if exact else CHECKED)
    return Given(writer.whole(parts.rows, conjunctions), flags, parts.topic, used)


def _filter(text: str, writer: RowWriter, relations: Relations) -> tuple[Conjunctions, bool, frozenset[Relation]]:
    if not text:
        return [[]], True, frozenset()
    exact, used = True, set[Relation]()
    conjunctions: Conjunctions = []
    conditions = 0
    several = alternatives(
        parse(text, max_predicates=_ACCEPTED, max_alternatives=_ACCEPTED), max_alternatives=_ACCEPTED
    )
    for literals in several:
        choices = [_literal(literal, writer) for literal in literals]
        for place, (predicate, negated) in enumerate(literals):
            if negated or not isinstance(predicate, ComparisonWithPrevious):
                continue
            relation = relations.choose(predicate, used)
            if relation is not None:  # one for each conjunction; several would be multiplied
                choices[place] = Choice(relations.rows(predicate, relation, writer), exact=False)
                used.add(relation)
                break
        exact = exact and all(choice.exact for choice in choices)
        for rows in product(*(choice.rows for choice in choices)):
            conjunction = [row for part in rows for row in part]
            conjunctions.append(conjunction)
            conditions += sum(max(1, len(row.keys)) for row in conjunction)
            if conditions > _CONDITIONS_MAX and len(conjunctions) > 1:
                return _roughly(several, writer), False, frozenset()
    return conjunctions, exact, frozenset(used)


def _roughly(several: Sequence[Sequence[Literal]], writer: RowWriter) -> Conjunctions:
    """What a filter with too many conditions demands in any case, or of each alternative the most selective part."""
    in_all = set(several[0]).intersection(*several[1:])
    common = [row for literal in several[0] if literal in in_all for row in _only_rows(literal, writer)]
    room = _CONDITIONS_MAX // len(several)
    if room == 0 or any(_selectivity(row) == _STRONG for row in common):
        return [common]
    rough: Conjunctions = []
    for literals in several:
        rows = sorted((row for literal in literals for row in _only_rows(literal, writer)), key=_selectivity)
        sizes = accumulate(max(1, len(row.keys)) for row in rows)
        rough.append([row for row, size in zip(rows, sizes, strict=True) if size <= room])
    return rough


def _only_rows(literal: Literal, writer: RowWriter) -> list[Row]:
    """None where a literal may be fulfilled in several ways."""
    rows = _literal(literal, writer).rows
    return rows[0] if len(rows) == 1 else []


_STRONG, _RANGE, _WEAK = range(3)


def _selectivity(row: Row) -> int:
    if row.operation in (HAS, ONE_OF) and not any(keys.EXISTS <= key.kind <= keys.IS_BOOLEAN for key in row.keys):
        return _STRONG
    return _RANGE if row.operation in (WITHIN, TEXT_WITHIN) and not row.flags & OUTSIDE else _WEAK


def _literal(literal: Literal, writer: RowWriter) -> Choice:
    predicate, negated = literal
    name = writer.name(predicate.attribute)
    match predicate:
        case Comparison(_, operator, value):
            return _comparison(writer, name, operator, value, negated)
        case Between(_, low, high):
            return _between(writer, name, low, high, negated)
        case In(_, values):
            return _values(writer, name, values, negated)
        case Prefix(_, text) | Suffix(_, text) | Contains(_, text):
            return _text(writer, name, _TEXTS[type(predicate)], text.encode(), negated)
        case Exists():
            return _keys([Key(keys.EXISTS, name)], negated)
        case ComparisonWithPrevious():
            return Choice([[] if negated else [has(Key(keys.EXISTS, name))]], exact=False)


_TEXTS: dict[type, int] = {Prefix: keys.PREFIX, Suffix: keys.SUFFIX, Contains: keys.PIECE}
_TYPES: dict[type, int] = {str: keys.IS_STRING, bool: keys.IS_BOOLEAN, int: keys.IS_NUMBER, float: keys.IS_NUMBER}


def _comparison(writer: RowWriter, name: Hash, operator: Operator, value: Value, negated: bool) -> Choice:
    if operator == "=":
        return _keys([_value(writer, name, value)], negated)
    if operator == "!=":
        is_type, is_value = Key(_TYPES[type(value)], name), _value(writer, name, value)
        return Choice([[lacks(is_type)], [has(is_value)]] if negated else [[has(is_type), lacks(is_value)]])
    flags = {">": ABOVE, "<": BELOW}.get(operator, 0)
    if isinstance(value, str):
        low_text, high_text = (value, None) if operator in (">", ">=") else ("", value)
        return _text_range(name, low_text, high_text, flags, negated)
    if isinstance(value, bool):
        accepted = [other for other in (False, True) if COMPARE[operator](other, value)]
        return _values(writer, name, accepted, negated)
    low, high = (value, math.inf) if operator in (">", ">=") else (-math.inf, value)
    return _range(name, low, high, flags, negated)


def _between(writer: RowWriter, name: Hash, low: Value, high: Value, negated: bool) -> Choice:
    if isinstance(low, str) and isinstance(high, str):
        return _text_range(name, low, high, 0, negated)
    assert not isinstance(low, str)
    assert not isinstance(high, str)
    if isinstance(low, bool):
        return _values(writer, name, [other for other in (False, True) if low <= other <= high], negated)
    return _range(name, low, high, 0, negated)


def _value(writer: RowWriter, name: Hash, value: Value) -> Key:
    if isinstance(value, str):
        return writer.string(name, value)
    if isinstance(value, bool):
        return writer.boolean(name, value)
    return writer.number(name, value)


def _keys(several: list[Key], negated: bool) -> Choice:
    return Choice([[none_of(several) if negated else one_of(several)]])


def _values(writer: RowWriter, name: Hash, values: tuple[Value, ...] | list[bool], negated: bool) -> Choice:
    distinct = list(dict.fromkeys(_value(writer, name, value) for value in values))
    if not distinct:
        # No value fulfils it, and so every publication fulfils its negation.
        return Choice([[]] if negated else [[Row(WITHIN, name=name, low=math.inf, high=-math.inf)]])
    return _keys(distinct, negated)


def _text_range(name: Hash, low: str, high: str | None, flags: int, negated: bool) -> Choice:
    lower, upper = low.encode(), None if high is None else high.encode()
    exact = max(len(lower), len(upper or b"")) <= TEXT_BOUND_MAX
    if negated and not exact:
        return Choice([[]], exact=False)
    if not exact:
        # A little more than was asked for. No text holds the last byte of this upper bound, so it comes behind all
        # texts that begin like the bound.
        lower, flags = lower[:TEXT_BOUND_MAX], 0
        if upper is not None and len(upper) > TEXT_BOUND_MAX:
            upper = upper[: TEXT_BOUND_MAX - 1] + b"\xff"
    flags |= OUTSIDE if negated else 0
    row = Row(TEXT_WITHIN, name=name, low_text=lower, high_text=upper, flags=flags)
    return Choice([[row]], exact=exact)


def _range(name: Hash, low: int | float, high: int | float, flags: int, negated: bool) -> Choice:
    if float(low) == low and float(high) == high:
        flags |= OUTSIDE if negated else 0
        return Choice([[Row(WITHIN, name=name, low=float(low), high=float(high), flags=flags)]])
    if negated:
        return Choice([[]], exact=False)
    # The floats around an integer that is none: a little more than was asked for.
    below, above = math.nextafter(float(low), -math.inf), math.nextafter(float(high), math.inf)
    return Choice([[Row(WITHIN, name=name, low=below, high=above)]], exact=False)


def _text(writer: RowWriter, name: Hash, kind: int, octets: bytes, negated: bool) -> Choice:
    if not octets:
        return _keys([Key(keys.IS_STRING, name)], negated)
    if len(octets) <= TEXT_LENGTH_MAX:
        return _keys([writer.text(kind, name, octets)], negated)
    if negated:
        return Choice([[]], exact=False)
    return Choice([_windows(writer, name, kind, octets)], exact=False)


def _windows(writer: RowWriter, name: Hash, kind: int, octets: bytes) -> list[Row]:
    """Parts of a long text that each are a key. Texts often begin or end alike, so these come from all over it."""
    count = min(_WINDOWS_MAX, math.ceil(len(octets) / TEXT_LENGTH_MAX))
    last = len(octets) - TEXT_LENGTH_MAX
    starts = {last * place // (count - 1) for place in range(count)}
    rows = []
    for start in sorted(starts):
        is_end = (kind == keys.PREFIX and start == 0) or (kind == keys.SUFFIX and start == last)
        window = octets[start : start + TEXT_LENGTH_MAX]
        rows.append(has(writer.text(kind if is_end else keys.PIECE, name, window)))
    return rows
