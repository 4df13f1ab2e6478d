"""Comparisons with the previous publication as ranges.

Whether `price < prev(price) * 0.9` holds is a question of how many times its previous price a price is. So the reader
is given that number as if the publication had it for an attribute, and the subscription is found by a range of it as by
any other. A *relation* is such a number: the quotient or the difference of an attribute and one of the publication
before. Numbers are rounded, so ranges are a little wider than what is asked for, and every candidate is evaluated.
"""

import math
import os
from collections import Counter
from collections.abc import Set
from typing import NamedTuple

import msgspec

from braid.filters import Arithmetic, ComparisonWithPrevious, Expression, Operator, Previous, Value
from braid.matching.chains import Attributes
from braid.matching.engine import key_records as keys
from braid.matching.engine.conditions import WITHIN
from braid.matching.row_writing import Hash, Key, Row, RowWriter, one_of

RELATIONS_MAX = 64  # each costs every publication a little that has the attributes; beyond them, filters are evaluated

_QUOTIENT_MIN, _QUOTIENT_MAX = 1e-100, 1e100  # of what is divided, so that nothing runs over or under
_DIFFERENCE_MAX = 1e9
_WIDER_SHARE, _WIDER = 1e-9, 1e-6  # far more than rounding takes: of quotients as a share
_BEYOND = 1e308
_BEGINNING = b'"attributes":{'
_encode = msgspec.json.Encoder().encode


class Relation(NamedTuple):
    attribute: str
    before: str  # the attribute of the publication before
    is_quotient: bool


class _Names(NamedTuple):
    """Of the attributes that a relation is written as."""

    above: str  # the quotient when what came before is positive, or the difference
    below: str  # the quotient when it is negative, which turns comparisons around
    unsure: str  # there when the numbers are too large or too small
    nothing: str  # there when both are zero


class Relations:
    """Those in use, and what they are called: nobody outside knows, so that no publication can claim one."""

    def __init__(self) -> None:
        self._secret = os.urandom(8).hex()
        self._uses: Counter[Relation] = Counter()
        self._of_attribute: dict[str, list[tuple[Relation, list[bytes]]]] = {}

    def choose(self, predicate: ComparisonWithPrevious, chosen: Set[Relation]) -> Relation | None:
        """The relation that the predicate can be found by, of a subscription that uses the chosen ones already."""
        form = _form(predicate.expression)
        if form is None or predicate.operator == "!=":
            return None
        relation = Relation(predicate.attribute, form.before, form.is_quotient)
        has_room = relation in self._uses or len(self._uses.keys() | chosen | {relation}) <= RELATIONS_MAX
        return relation if has_room else None

    def rows(self, predicate: ComparisonWithPrevious, relation: Relation, writer: RowWriter) -> list[list[Row]]:
        """One of these lists is fulfilled by every publication that fulfils the predicate."""
        above, below, unsure, nothing = map(writer.name, self._names(relation))
        form = _form(predicate.expression)
        assert form is not None
        bound, operator = float(form.number), predicate.operator
        otherwise = [Key(keys.EXISTS, unsure)]
        if not relation.is_quotient:
            if isinstance(predicate.expression, Previous):  # it compares strings and booleans too
                name = writer.name(predicate.attribute)
                otherwise += [Key(keys.IS_STRING, name), Key(keys.IS_BOOLEAN, name)]
            return [[_range(above, operator, bound, _WIDER)], [one_of(otherwise)]]
        if operator not in ("<", ">"):
            otherwise.append(Key(keys.EXISTS, nothing))
        wider = abs(bound) * _WIDER_SHARE
        return [
            [_range(above, operator, bound, wider)],
            [_range(below, _TURNED[operator], bound, wider)],
            [one_of(otherwise)],
        ]

    def add(self, relations: frozenset[Relation]) -> None:
        self._uses.update(relations)
        self._prepare()

    def remove(self, relations: frozenset[Relation]) -> None:
        for relation in relations:
            self._uses[relation] -= 1
            if not self._uses[relation]:
                del self._uses[relation]
        self._prepare()

    def __bool__(self) -> bool:
        return bool(self._uses)

    def written_into(self, content: bytes, attributes: Attributes, before: Attributes | None) -> bytes:
        """The content with the relations of its attributes to those before, where it is written canonically."""
        if not before:
            return content
        members = b"".join(
            [
                _member(relation, attributes[name], before[relation.before], names)
                for name in attributes.keys() & self._of_attribute.keys()
                for relation, names in self._of_attribute[name]
                if relation.before in before
            ]
        )
        return content.replace(_BEGINNING, _BEGINNING + members, 1) if members else content

    def _names(self, relation: Relation) -> _Names:
        about = _encode(relation).decode()
        return _Names(*(f"{self._secret} {which} {about}" for which in _Names._fields))

    def _prepare(self) -> None:
        known = {relation for several in self._of_attribute.values() for relation, _ in several}
        if known == self._uses.keys():
            return
        self._of_attribute = {}
        for relation in self._uses:
            names = [_encode(name) + b":" for name in self._names(relation)]
            self._of_attribute.setdefault(relation.attribute, []).append((relation, names))


class _Form(NamedTuple):
    """`prev(before) * number`, or `prev(before) + number`."""

    before: str
    is_quotient: bool
    number: float


def _form(expression: Expression) -> _Form | None:
    form: _Form | None = None
    match expression:
        case Previous(before):
            form = _Form(before, False, 0.0)
        case Arithmetic("*", Previous(before), int() | float() as number):
            form = _Form(before, True, number)
        case Arithmetic("*", int() | float() as number, Previous(before)):
            form = _Form(before, True, number)
        case Arithmetic("/", Previous(before), int() | float() as number) if number:
            form = _Form(before, True, 1 / number)
        case Arithmetic("+", Previous(before), int() | float() as number):
            form = _Form(before, False, number)
        case Arithmetic("+", int() | float() as number, Previous(before)):
            form = _Form(before, False, number)
        case Arithmetic("-", Previous(before), int() | float() as number):
            form = _Form(before, False, -number)
    if form is None:
        return None
    size = abs(form.number)
    fits = _QUOTIENT_MIN <= size <= _QUOTIENT_MAX if form.is_quotient else size <= _DIFFERENCE_MAX
    return form if fits else None


_TURNED: dict[Operator, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def _range(name: Hash, operator: Operator, bound: float, wider: float) -> Row:
    low = -math.inf if operator in ("<", "<=") else bound - wider
    high = math.inf if operator in (">", ">=") else bound + wider
    return Row(WITHIN, name=name, low=low, high=high)


def _member(relation: Relation, value: Value, before: Value, names: list[bytes]) -> bytes:
    if isinstance(value, str | bool) or isinstance(before, str | bool):
        return b""
    above, below, unsure, nothing = names
    fits = _is_dividable if relation.is_quotient else _is_subtractable
    if not fits(value) or not fits(before):
        return unsure + b"true,"
    number, other = float(value), float(before)
    if not relation.is_quotient:
        return above + _written(number - other)
    if other == 0:
        return nothing + b"true," if number == 0 else above + _written(math.copysign(_BEYOND, number))
    return (above if other > 0 else below) + _written(number / other)


def _written(number: float) -> bytes:
    return repr(number).encode() + b","


def _is_dividable(number: int | float) -> bool:
    return number == 0 or _QUOTIENT_MIN <= abs(number) <= _QUOTIENT_MAX


def _is_subtractable(number: int | float) -> bool:
    return abs(number) <= _DIFFERENCE_MAX
