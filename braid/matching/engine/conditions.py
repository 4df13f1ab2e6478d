"""A subscription on its way into the index: rows of conditions, and the words that programs are made of.

Rows are written by `filter_reading` for plain filters, by `tiles` for zones and by `braid.matching.compiling` for all
else. A conjunction ends with the row END, the last one is followed by STOP; there are as many as the filter has
alternatives.

A condition of a program is one word, `operand << 3 | operation`, and for some operations words that follow it.
"""

from typing import Any

from numba import int64, uint64

from braid.matching.engine.attributes import (
    EQUALITY,
    EXISTENCE,
    PIECES,
    PREFIXES,
    RANGE,
    SUFFIXES,
    TYPE,
    USES,
    add_attribute,
)
from braid.matching.engine.attributes import RECORD as ATTRIBUTE_RECORD
from braid.matching.engine.hashing import key_hash
from braid.matching.engine.kernel import kernel, small_kernel
from braid.matching.engine.keys import (
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
    TILE,
    add_key,
)
from braid.matching.engine.memory import ATTRIBUTES, SCRATCH, TEXT_BLOOM, integers
from braid.matching.engine.scratch import EMITTED

# A row.
ROW = 10  # words
OPERATION, KIND, NAME_FIRST, NAME_SECOND, FIRST, SECOND, LOW, HIGH, FLAGS, COUNT = range(10)
SOUTH, WEST, NORTH, EAST = 2, 3, 4, 5  # of a BOX, in degrees
ROWS_MAX = 1 << 22
GIVEN_ROWS_MAX = 3 << 20  # which leaves room for tiles in the place of boxes

# Operations.
HAS = 0  # the publication carries the key
LACKS = 1  # it does not
WITHIN = 2  # the number lies in the range; the two bounds follow. Operand: attribute << 3 | flags
ONE_OF = 3  # it carries one of the keys that follow. Operand: how many
NONE_OF = 4  # it carries none of them
ITEM, END, STOP, BOX = 5, 6, 7, 8  # only in rows; a BOX only in those that are given, see `given_rows`

# Flags of WITHIN.
ABOVE, BELOW, OUTSIDE = 1, 2, 4  # the lower bound does not belong to it, nor the upper; anything but that range

TEXT_LENGTH_MAX = 63  # bytes of a prefix, suffix or piece that make a key
BLOOM_BITS = 1 << 20


@small_kernel
def is_strong(kind: int) -> bool:
    """Whether such a key is likely to be carried by few publications."""
    return not EXISTS <= kind <= IS_BOOLEAN


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
def _emit_types(t: Any, end: int) -> int:
    """Where nothing else is selective, a range can still be found under "this attribute is a number"."""
    rows = integers(t, SCRATCH)
    at = EMITTED
    last = end
    while at < last:
        operation = rows[at] & 7
        if operation == WITHIN:
            if not rows[at] >> 3 & OUTSIDE:
                attribute = rows[at] >> 6
                word = _type_key(t, attribute) << 3 | HAS
                known = False
                for other in range(last, end):
                    known |= rows[other] == word
                if not known:
                    rows[end] = word
                    end += 1
            at += 3
        elif operation in (ONE_OF, NONE_OF):
            at += 1 + (rows[at] >> 3)
        else:
            at += 1
    return end


@kernel
def _type_key(t: Any, attribute: int) -> int:
    integers(t, ATTRIBUTES)[attribute * ATTRIBUTE_RECORD + USES] |= TYPE
    first, second = key_hash(uint64(0), uint64(0), IS_NUMBER, attribute)
    return add_key(t, first, second, IS_NUMBER, attribute, 0.5)


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
        _note_use(t, attribute, kind, length)
        if PREFIX <= kind <= PIECE:
            bit = first & uint64(BLOOM_BITS - 1)
            integers(t, TEXT_BLOOM)[bit >> uint64(6)] |= int64(uint64(1) << (bit & uint64(63)))
    return add_key(t, first, second, kind, length if kind == TILE else attribute, _prior(kind, length))


@kernel
def _note_use(t: Any, attribute: int, kind: int, length: int) -> None:
    attributes = integers(t, ATTRIBUTES)
    at = attribute * ATTRIBUTE_RECORD
    if kind in (STRING, NUMBER, INTEGER, BOOLEAN):
        attributes[at + USES] |= EQUALITY
    elif kind == EXISTS:
        attributes[at + USES] |= EXISTENCE
    elif IS_STRING <= kind <= IS_BOOLEAN:
        attributes[at + USES] |= TYPE
    elif kind == PREFIX:
        attributes[at + PREFIXES] |= 1 << length
    elif kind == SUFFIX:
        attributes[at + SUFFIXES] |= 1 << length
    elif kind == PIECE:
        attributes[at + PIECES] |= 1 << length


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
