"""From the rows of a conjunction to the words of a program, put together in the scratch region.

Readers of publications learn on the way what is asked for of each attribute.
"""

from typing import Any

from numba import uint64

from braid.matching.engine.attributes import EQUALITY, EXISTENCE, ORDER, RANGE, TYPE, USES, add_attribute
from braid.matching.engine.attributes import RECORD as ATTRIBUTE_RECORD
from braid.matching.engine.conditions import (
    COUNT,
    FIRST,
    FLAGS,
    HAS,
    HIGH,
    HIGH_LENGTH,
    KIND,
    LOW,
    LOW_LENGTH,
    NAME_FIRST,
    NAME_SECOND,
    NONE_OF,
    OCTETS_WORDS,
    ONE_OF,
    OPERATION,
    OUTSIDE,
    ROW,
    SECOND,
    TEXT_SIZE_SHIFT,
    TEXT_WITHIN,
    WITHIN,
    attribute_of_text_range,
    is_strong,
    length_of_text_range,
)
from braid.matching.engine.hashing import key_hash
from braid.matching.engine.kernel import kernel, small_kernel
from braid.matching.engine.key_records import (
    BOOLEAN,
    EXISTS,
    INTEGER,
    IS_BOOLEAN,
    IS_NUMBER,
    IS_STRING,
    NUMBER,
    PIECE,
    PREFIX,
    STRING,
    SUFFIX,
    TEXT_LENGTH_SHIFT,
    TILE,
    attribute_of,
)
from braid.matching.engine.key_records import KIND as KEY_KIND
from braid.matching.engine.key_records import RECORD as KEY_RECORD
from braid.matching.engine.keys import add_key
from braid.matching.engine.memory import ATTRIBUTES, KEYS, SCRATCH, integers
from braid.matching.engine.scratch import EMITTED


@kernel
def emit(t: Any, first_row: int, last_row: int, expanded_row: int, item: int) -> int:
    """Puts the words of one program together in the scratch region; returns their number.

    Of the row `expanded_row`, a ONE_OF, only the item of that number is demanded.
    """
    rows = integers(t, SCRATCH)
    end = EMITTED
    row = first_row
    strong = False
    while row < last_row:
        at = row * ROW
        operation = rows[at + OPERATION]
        if operation == WITHIN:
            end = _emit_range(t, at, end)
        elif operation == TEXT_WITHIN:
            end = _emit_text_range(t, at, end)
            row += rows[at + COUNT]
        elif operation in (ONE_OF, NONE_OF):
            count = rows[at + COUNT]
            if row == expanded_row:
                rows[end] = _key(t, (row + 1 + item) * ROW) << 3 | HAS
                end += 1
                strong = True
            else:
                rows[end] = count << 3 | operation
                for i in range(count):
                    rows[end + 1 + i] = _key(t, (row + 1 + i) * ROW)
                end += 1 + count
            row += count
        else:
            rows[end] = _key(t, at) << 3 | operation
            end += 1
            strong |= operation == HAS and is_strong(rows[at + KIND])
        row += 1
    if not strong:
        end = _emit_types(t, end)
    return end - EMITTED


@kernel
def _emit_range(t: Any, at: int, end: int) -> int:
    rows, attributes = integers(t, SCRATCH), integers(t, ATTRIBUTES)
    attribute = add_attribute(t, uint64(rows[at + NAME_FIRST]), uint64(rows[at + NAME_SECOND]))
    attributes[attribute * ATTRIBUTE_RECORD + USES] |= RANGE
    rows[end] = (attribute << 3 | rows[at + FLAGS]) << 3 | WITHIN
    rows[end + 1] = rows[at + LOW]
    rows[end + 2] = rows[at + HIGH]
    return end + 3


@kernel
def _emit_text_range(t: Any, at: int, end: int) -> int:
    rows, attributes = integers(t, SCRATCH), integers(t, ATTRIBUTES)
    attribute = add_attribute(t, uint64(rows[at + NAME_FIRST]), uint64(rows[at + NAME_SECOND]))
    attributes[attribute * ATTRIBUTE_RECORD + USES] |= ORDER
    low, high = rows[at + LOW_LENGTH], rows[at + HIGH_LENGTH]
    count = (low + 7 >> 3) + (high + 7 >> 3)
    rows[end] = ((2 + count) << TEXT_SIZE_SHIFT) | attribute << 6 | rows[at + FLAGS] << 3 | TEXT_WITHIN
    rows[end + 1] = high << 32 | low
    for i in range(count):
        rows[end + 2 + i] = rows[at + ROW * (1 + i // OCTETS_WORDS) + 1 + i % OCTETS_WORDS]
    return end + 2 + count


@kernel
def _emit_types(t: Any, end: int) -> int:
    """Where nothing else is selective, a range can still be found under "this attribute is a number" or "is a string",
    and one of many values under the type that they have in common."""
    rows = integers(t, SCRATCH)
    at = EMITTED
    last = end
    while at < last:
        operation = rows[at] & 7
        if operation == WITHIN:
            if not rows[at] >> 3 & OUTSIDE:
                end = _emit_type(t, rows[at] >> 6, IS_NUMBER, last, end)
            at += 3
        elif operation == TEXT_WITHIN:
            if not rows[at] >> 3 & OUTSIDE:
                end = _emit_type(t, attribute_of_text_range(rows[at]), IS_STRING, last, end)
            at += length_of_text_range(rows[at])
        elif operation in (ONE_OF, NONE_OF):
            attribute, kind = _common_type(t, at)
            if operation == ONE_OF and attribute != 0:
                end = _emit_type(t, attribute, kind, last, end)
            at += 1 + (rows[at] >> 3)
        else:
            at += 1
    return end


@kernel
def _emit_type(t: Any, attribute: int, kind: int, last: int, end: int) -> int:
    """Unless it stands among the words from `last` on."""
    rows = integers(t, SCRATCH)
    integers(t, ATTRIBUTES)[attribute * ATTRIBUTE_RECORD + USES] |= EXISTENCE if kind == EXISTS else TYPE
    first, second = key_hash(uint64(0), uint64(0), kind, attribute)
    word = add_key(t, first, second, kind, attribute, 0.5) << 3 | HAS
    for other in range(last, end):
        if rows[other] == word:
            return end
    rows[end] = word
    return end + 1


@kernel
def _common_type(t: Any, at: int) -> tuple[int, int]:
    """The attribute that all keys of a ONE_OF are values of, 0 where there is none, and what its values have to be."""
    rows, keys = integers(t, SCRATCH), integers(t, KEYS)
    attribute, kind = 0, 0
    for i in range(rows[at] >> 3):
        of_key = keys[rows[at + 1 + i] * KEY_RECORD + KEY_KIND]
        if of_key & 255 not in (STRING, NUMBER, INTEGER, BOOLEAN) or (i > 0 and attribute_of(of_key) != attribute):
            return 0, 0
        attribute = attribute_of(of_key)
        type_kind = _type_of(of_key & 255)
        kind = type_kind if i == 0 or kind == type_kind else EXISTS
    return attribute, kind


@small_kernel
def _type_of(kind: int) -> int:
    if kind == STRING:
        return IS_STRING
    return IS_BOOLEAN if kind == BOOLEAN else IS_NUMBER


@kernel
def _key(t: Any, at: int) -> int:
    """The key that a row speaks of. Readers of publications learn that it is asked for."""
    rows = integers(t, SCRATCH)
    kind = rows[at + KIND]
    attribute = 0
    if rows[at + NAME_FIRST] != 0:
        attribute = add_attribute(t, uint64(rows[at + NAME_FIRST]), uint64(rows[at + NAME_SECOND]))
    first, second = key_hash(uint64(rows[at + FIRST]), uint64(rows[at + SECOND]), kind, attribute)
    length = rows[at + COUNT]
    if attribute != 0:
        _note_use(t, attribute, kind)
    owner = attribute
    if kind == TILE:
        owner = length
    elif PREFIX <= kind <= PIECE:
        owner = length << TEXT_LENGTH_SHIFT | attribute
    return add_key(t, first, second, kind, owner, _prior(kind, length))


@kernel
def _note_use(t: Any, attribute: int, kind: int) -> None:
    """What depends on the lengths of texts is noted with the keys themselves."""
    attributes = integers(t, ATTRIBUTES)
    at = attribute * ATTRIBUTE_RECORD
    if kind in (STRING, NUMBER, INTEGER, BOOLEAN):
        attributes[at + USES] |= EQUALITY
    elif kind == EXISTS:
        attributes[at + USES] |= EXISTENCE
    elif IS_STRING <= kind <= IS_BOOLEAN:
        attributes[at + USES] |= TYPE


@small_kernel
def _prior(kind: int, length: int) -> float:
    """How often such a key is assumed to be carried before publications have shown it."""
    if not is_strong(kind):
        return 0.5
    if kind == BOOLEAN:
        return 0.3
    if kind in (PREFIX, SUFFIX):
        return 0.3 / (length * length)
    if kind == PIECE:
        return 0.6 / (length * length)
    return 0.01
