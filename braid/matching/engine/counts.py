"""The numbers an index keeps about itself: their places in the region of counts."""

POOL_USED, POOL_FREE = 0, 1  # words handed out from the beginning of the pool; words of it that lie in free blocks
KEYS_USED, KEYS_LIVE, KEYS_FREE, KEY_SLOTS_MASK = 2, 3, 4, 5
ATTRIBUTES_USED, ATTRIBUTES_LIVE, ATTRIBUTES_FREE, ATTRIBUTE_SLOTS_MASK = 6, 7, 8, 9
PROGRAMS_LIVE = 10
EVENTS_SEEN = 12  # publications that count for the statistics, halved from time to time, see `key_statistics`
CANDIDATES = 13  # programs verified so far
STAMP = 14  # of the publication being searched for
HOT, HOT_FIRST, HOT_MAX = 32, 33, 16  # anchors under which too much was verified in vain
SECRET = 16  # four words
TOPIC_SHAPES = 20  # how many there are, see `topic_keys`
TILE_LEVELS, TILE_KEYS_FIRST = 21, 320  # a bit for each level of tiles in use, and how many tiles of it are
WORD_KEYS, WORD_KEYS_CHANGED = 22, 24  # words that subscriptions demand; how often one came or went
KEY_SLOTS_CLEARED, KEYS_BESIDE = 25, 26  # how far the next table of keys is, see `key_slots`
AGE = 27  # how often the statistics were halved
TILE_KEYS = 28  # tiles in use, of all levels
TEXTS_READ = 29  # texts whose pieces were looked at
ATTRIBUTES_READ = 31  # how often the attributes of a publication were read
FREE_FIRST = 64  # the first free block of each size, see `pool`
# Shapes of topics: where those of each number of levels end, first of nodes, then of nodes and what is below; then all.
TOPIC_SELF_ENDS, TOPIC_UNDER_ENDS, TOPIC_SHAPES_FIRST, TOPIC_SHAPES_ROOM = 400, 440, 512, 3584
PROGRAM_MASKS_FIRST, PROGRAMS_LIVE_FIRST = 480, 496  # of each table of programs, see `program_slots`
COUNTS_WORDS = 4096

SLOTS_FIRST = 255  # the mask of a new table of slots
