"""The record of a key: what lies where in it, and the kinds of keys."""

from braid.matching.engine.kernel import small_kernel

RECORD = 16  # words: the first eight are one line of the processor's cache
HASH, CHECK, STAMP, SEEN, LIST, CHILDREN, BLOCKS, REFERENCES = range(8)
BORN, PARENT, OWN, PRIOR, SPLIT_AT, WASTED, KIND, FIRST_CHILD = range(8, 16)  # KIND: owner << 8 | kind
BEFORE, BEHIND = BORN, PRIOR  # what a child has in their place: the other children of its parent

# Kinds of keys.
STRING, NUMBER, BOOLEAN, PREFIX, SUFFIX, PIECE, EXISTS, IS_STRING, IS_NUMBER, IS_BOOLEAN = range(1, 11)
WORD, TOPIC_UNDER, TOPIC_SELF, TILE, CHILD, EVERY, INTEGER = range(11, 18)

# The owner of a key: the attribute it belongs to, of a text also its length in bytes, or the code of a tile.
TEXT_LENGTH_SHIFT = 32
_ATTRIBUTE_MASK = (1 << TEXT_LENGTH_SHIFT) - 1

# The code of a tile: level << TILE_LEVEL_SHIFT | x << TILE_X_SHIFT | y.
TILE_LEVEL_SHIFT, TILE_X_SHIFT = 48, 24


@small_kernel
def attribute_of(kind_word: int) -> int:
    """The attribute that a key of this KIND belongs to, 0 when it belongs to none."""
    return 0 if kind_word & 255 == TILE else kind_word >> 8 & _ATTRIBUTE_MASK
