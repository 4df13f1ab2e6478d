"""Where in the scratch region what is put together: words from its beginning.

What belongs to changes and what belongs to matching may lie at the same places: they never happen at once.
"""

ROWS = 0  # of a subscription on its way in, see `conditions`
EMITTED = 10 << 22  # the words of one program, behind all rows
PROGRAMS_ASIDE = 2 * EMITTED  # while the table of programs grows
SIGNATURE = 3 << 25  # the attributes of one program's ranges
ENDPOINTS = SIGNATURE + 64  # of ranges, while a block is made
COLUMN_CHANGES = ENDPOINTS + (1 << 14)  # while a column of a block is written
BLOCK_PROGRAMS = COLUMN_CHANGES + 256  # those of a block that is made anew
SPLIT_PROGRAMS = BLOCK_PROGRAMS + (1 << 16)  # those of one signature
SPLIT_LISTED = SPLIT_PROGRAMS + (1 << 25)  # those under one anchor
SPLIT_SIGNATURES = SPLIT_LISTED + (1 << 25)  # of each of them
SPLIT_SKETCH = SPLIT_SIGNATURES + (1 << 25)
SPLIT_WAITING = SPLIT_SKETCH + (1 << 16)
FETCHED = (1 << 28) - (1 << 10)  # what is fetched for the items of one row

POLYNOMIALS = 0  # of the text being read
TOPIC_LEVELS = (1 << 26) - (1 << 17)
JOINED_ROWS = (1 << 26) - (1 << 16)
LIVE_NODES = 1 << 26  # of the publication being searched for: room for every key there can be
STRINGS = 1 << 27  # unescaped ones, of the whole batch
