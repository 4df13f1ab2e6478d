"""Where in the scratch region what is put together: words from its beginning.

What belongs to changes and what belongs to matching may lie at the same places: they never happen at once.
"""

ROWS = 0  # of a subscription on its way in, see `conditions`
EMITTED = 10 << 22  # the words of one program, behind all rows
PROGRAMS_ASIDE = 2 * EMITTED  # while the table of programs grows
AXES = 3 << 25  # of one program's ranges, or of a block to be made
ENDPOINTS = AXES + 64  # of ranges, while a block is made
COLUMN_CHANGES = ENDPOINTS + (1 << 14)  # while a column of a block is written
BLOCK_PROGRAMS = COLUMN_CHANGES + 256  # those of a block that is made anew
SPLIT_PROGRAMS = BLOCK_PROGRAMS + (1 << 16)  # those of one signature
SPLIT_LISTED = SPLIT_PROGRAMS + (1 << 25)  # those under one anchor
SPLIT_SIGNATURES = SPLIT_LISTED + (1 << 25)  # of each of them
SPLIT_SKETCH = SPLIT_SIGNATURES + (1 << 25)
SPLIT_WAITING = SPLIT_SKETCH + (1 << 16)
AXES_TALLY = SPLIT_WAITING + (1 << 13)  # while the axes of a block are chosen
SORTED_PROGRAMS = AXES_TALLY + (1 << 10)  # those of a block that is made, in order
SORTED_BUCKETS = SORTED_PROGRAMS + (1 << 14)  # the first one of each of them
SORTED_STARTS = SORTED_BUCKETS + (1 << 14)  # where those of each bucket begin
FETCHED = (1 << 28) - (1 << 10)  # what is fetched for the items of one row

POLYNOMIALS = 0  # of the text being read
PIECES_FOUND = 1 << 25  # of the text being read, see `text_keys`
TILE_SPANS = PIECES_FOUND + (1 << 14)  # of a zone, at each level
TOPIC_LEVELS = (1 << 26) - (1 << 17)
JOINED_ROWS = (1 << 26) - (1 << 16)  # of a block of ranges
COLUMNS_LEFT = JOINED_ROWS + (1 << 9)  # of that block
ROWS_TO_JOIN = COLUMNS_LEFT + (1 << 9)  # their addresses
PROGRAMS_LEFT = JOINED_ROWS + (1 << 12)  # of that block
LIVE_NODES = 1 << 26  # of the publication being searched for: room for every key there can be
STRINGS = 1 << 27  # unescaped ones, of the whole batch
