"""A subscription on its way into the index: rows of conditions, and the words that programs are made of.

Rows are written by `filter_reading` for plain filters, by `tiles` for zones and by `braid.matching.compiling` for all
else. A conjunction ends with the row END, the last one is followed by STOP; there are as many as the filter has
alternatives.

A condition of a program is one word, `operand << 3 | operation`, and for some operations words that follow it.
"""

from braid.matching.engine.kernel import small_kernel
from braid.matching.engine.key_records import EXISTS, IS_BOOLEAN

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
TEXT_WITHIN = 5  # the text lies in the range, by order. In a row, rows of bytes follow; in a program see `text_range`
ITEM, END, STOP, BOX, OCTETS = 6, 7, 8, 9, 10  # only in rows; a BOX only in those that are given, see `given_rows`

# Flags of WITHIN and TEXT_WITHIN.
ABOVE, BELOW, OUTSIDE = 1, 2, 4  # the lower bound does not belong to it, nor the upper; anything but that range

# A row of a TEXT_WITHIN, and the rows of OCTETS that follow it: the bytes of the lower bound, filled up to whole words,
# then those of the upper one.
LOW_LENGTH, HIGH_LENGTH = 4, 5  # in bytes; the upper one is -1 where there is no upper bound
OCTETS_WORDS = 9  # of a row, behind its operation

TEXT_LENGTH_MAX = 63  # bytes of a prefix, suffix or piece that make a key
TEXT_BOUND_MAX = 256  # bytes of the bound of a range of texts


@small_kernel
def is_strong(kind: int) -> bool:
    """Whether such a key is likely to be carried by few publications."""
    return not EXISTS <= kind <= IS_BOOLEAN


# A TEXT_WITHIN in a program: how many words it has << 30 | attribute << 6 | flags << 3 | operation, then the lengths of
# its bounds, upper << 32 | lower, then their bytes as in rows.
TEXT_SIZE_SHIFT = 30
_TEXT_ATTRIBUTE_MASK = (1 << 24) - 1
_LENGTH_MASK = (1 << 32) - 1


@small_kernel
def length_of_text_range(word: int) -> int:
    """How many words such a condition has."""
    return word >> TEXT_SIZE_SHIFT


@small_kernel
def attribute_of_text_range(word: int) -> int:
    return word >> 6 & _TEXT_ATTRIBUTE_MASK


@small_kernel
def text_range(address: int, lengths: int) -> tuple[int, int, int, int]:
    """Where the bounds of the condition at the address begin and end; an upper bound that is not there ends before it
    begins."""
    low = address + 16
    low_length = lengths & _LENGTH_MASK
    high = low + 8 * (low_length + 7 >> 3)
    return low, low + low_length, high, high + (lengths >> 32)
