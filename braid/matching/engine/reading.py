"""Reads publications: from canonical JSON to the facts they may carry and the numbers they hold.

A fact is the hash of a possible key: `searching` looks up which of them are keys. Nothing is looked up here but
attributes, so that the memory a fact needs is fetched while the next one is read.

What is not as a connection point writes it is UNUSUAL, and left to others to write so: members in another order, twice
or unknown, attributes that come twice, values that are none. Two things are taken as they are: the value of `data`, and
so what may stand behind it, and how an attribute is spelled that no subscription speaks of.
"""

from typing import Any

import numpy as np
from numba import int64, uint64

from braid.matching.engine import attributes as attribute
from braid.matching.engine.counts import ATTRIBUTES_READ, KEY_SLOTS_MASK, TILE_LEVELS, TOPIC_SHAPES, WORD_KEYS
from braid.matching.engine.hashing import hash_octets, hash_word, key_hash, secret_of
from braid.matching.engine.json_reading import (
    CLOSE_OBJECT,
    COLON,
    COMMA,
    MINUS,
    NINE,
    OPEN_OBJECT,
    QUOTE,
    ZERO,
    end_of_boolean,
    end_of_plain,
    end_of_string,
    read_number,
    skip_scalar,
    skip_value,
    unescape,
)
from braid.matching.engine.kernel import entry, kernel, load_word, octet_at, prefetch, small_kernel
from braid.matching.engine.key_records import BOOLEAN, EXISTS, INTEGER, IS_BOOLEAN, IS_NUMBER, IS_STRING, NUMBER, STRING
from braid.matching.engine.memory import (
    ATTRIBUTES,
    COUNTS,
    EVENTS,
    FACTS,
    KEY_SLOTS,
    NUMBERS,
    SCRATCH,
    floats,
    integers,
)
from braid.matching.engine.scratch import STRINGS
from braid.matching.engine.text_keys import add_text_facts
from braid.matching.engine.tiles import add_tile_facts
from braid.matching.engine.topic_keys import add_topic_facts, bits_of

# The record of one publication. TEXT, ZONE and TOPIC are addresses of their first byte and behind their last.
EVENT = 16  # words
STATUS, FACTS_END, NUMBERS_END, TEXT, TEXT_END, ZONE, ZONE_END, TOPIC, TOPIC_END, CARRIED_END = range(10)
MATCHED_END, PENDING_END, LATITUDE, LONGITUDE = range(10, 14)

GOOD, EXPIRED, UNUSUAL = 0, 1, 2  # UNUSUAL: not as a connection point writes it

# The members in the order in which they stand.
_ID, _TOPIC, _ATTRIBUTES, _TEXT, _ZONE, _OBJECT, _EXPIRES, _DATA = range(1, 9)
_NAMES = tuple(
    np.uint64(int.from_bytes(name[:8], "little"))
    for name in (b"", b"id", b"topic", b"attributes", b"text", b"zone", b"object", b"expires", b"data")
)

NUMBER_WORDS = 3  # attribute, the float below, the float above; of a text -attribute, its first byte, behind its last
EXPIRES_LENGTH = 24
_FACTS_AT_ONCE = 1 << 22  # a batch whose publications have more is read in several parts


@entry
def read_batch(t: Any, data: int, ends: Any, first: int, count: int, now: int) -> int:
    """Reads publications from number `first` on; returns the number of the first that was not read.

    `ends` are the ends of the publications behind `data`, `now` the address of the present as `expires` is written.
    """
    events = integers(t, EVENTS)
    facts, numbers = 0, 0
    strings = t[SCRATCH] + 8 * STRINGS
    for i in range(first, count):
        start = data + (ends[i - 1] if i > 0 else 0)
        at = (i - first) * EVENT
        for word in range(EVENT):
            events[at + word] = 0
        facts, numbers, strings, status = _read(t, start, data + ends[i], at, facts, numbers, strings, now)
        events[at + STATUS] = status
        events[at + FACTS_END] = facts
        events[at + NUMBERS_END] = numbers
        if facts > _FACTS_AT_ONCE:
            return i + 1
    return count


@kernel
def _read(
    t: Any, at: int, end: int, event: int, facts: int, numbers: int, strings: int, now: int
) -> tuple[int, int, int, int]:
    events, counts = integers(t, EVENTS), integers(t, COUNTS)
    if octet_at(at) != OPEN_OBJECT or end - at < 2:
        return facts, numbers, strings, UNUSUAL
    at += 1
    if octet_at(at) == CLOSE_OBJECT:
        return facts, numbers, strings, GOOD if at + 1 == end else UNUSUAL
    last = 0
    while octet_at(at) == QUOTE:
        name = at + 1
        at = end_of_plain(name)
        if at >= end or octet_at(at) != QUOTE or octet_at(at + 1) != COLON:
            return facts, numbers, strings, UNUSUAL
        member = _member(name, at - name)
        at += 2
        if member <= last:
            return facts, numbers, strings, UNUSUAL
        last = member
        if member == _DATA:  # it is opaque, and the last
            return facts, numbers, strings, GOOD if octet_at(end - 1) == CLOSE_OBJECT else UNUSUAL
        if member == _ATTRIBUTES:
            at, facts, numbers, strings = _read_attributes(t, at, end, facts, numbers, strings)
        elif octet_at(at) != (OPEN_OBJECT if member == _ZONE else QUOTE):
            return facts, numbers, strings, UNUSUAL
        elif member == _TOPIC and counts[TOPIC_SHAPES] != 0:
            begin, finish, at, strings = _read_string(at, end, strings)
            if at >= 0:
                events[event + TOPIC] = begin
                events[event + TOPIC_END] = finish
                facts = add_topic_facts(t, begin, finish, facts)
        elif member == _TEXT and counts[WORD_KEYS] != 0:
            events[event + TEXT] = at
            at = skip_value(at, end)
            events[event + TEXT_END] = at
        elif member == _ZONE and counts[TILE_LEVELS] != 0:
            at, facts = _read_zone(t, at, end, event, facts)
        elif member == _EXPIRES:
            if octet_at(at + 1 + EXPIRES_LENGTH) != QUOTE:
                return facts, numbers, strings, UNUSUAL
            if not _is_later(at + 1, now):
                return facts, numbers, strings, EXPIRED
            at += EXPIRES_LENGTH + 2
        else:
            at = skip_value(at, end)
        if at < 0 or at >= end:
            return facts, numbers, strings, UNUSUAL
        if octet_at(at) != COMMA:
            return facts, numbers, strings, GOOD if octet_at(at) == CLOSE_OBJECT and at + 1 == end else UNUSUAL
        at += 1
    return facts, numbers, strings, UNUSUAL


@small_kernel
def _member(name: int, length: int) -> int:
    """Which one it is; 0 for a name that no connection point writes."""
    word = load_word(name)
    if length == 10 and word == _NAMES[_ATTRIBUTES] and octet_at(name + 8) == 0x65 and octet_at(name + 9) == 0x73:
        return _ATTRIBUTES
    if length == 0 or length > 7:
        return 0
    word &= (uint64(1) << uint64(8 * length)) - uint64(1)
    for member in range(_ID, _DATA + 1):
        if word == _NAMES[member]:
            return member
    return 0


@small_kernel
def _is_later(one: int, other: int) -> bool:
    for i in range(EXPIRES_LENGTH):
        if octet_at(one + i) != octet_at(other + i):
            later: bool = octet_at(one + i) > octet_at(other + i)
            return later
    return False


@kernel
def _read_string(at: int, end: int, strings: int) -> tuple[int, int, int, int]:
    """Where the string begins and ends, the address behind it, and where the next unescaped one can be put."""
    if octet_at(at) != QUOTE:
        return 0, 0, -1, strings
    begin = at + 1
    finish = end_of_plain(begin)
    if finish >= end:
        return 0, 0, -1, strings
    if octet_at(finish) == QUOTE:
        return begin, finish, finish + 1, strings
    finish = end_of_string(begin, end)
    if finish < 0:
        return 0, 0, -1, strings
    stop = unescape(begin, finish, strings)
    if stop < 0:
        return 0, 0, -1, strings
    return strings, stop, finish + 1, stop + 8


@kernel
def _read_attributes(t: Any, at: int, end: int, facts: int, numbers: int, strings: int) -> tuple[int, int, int, int]:
    attributes, secret = integers(t, ATTRIBUTES), secret_of(t)
    integers(t, COUNTS)[ATTRIBUTES_READ] += 1
    if octet_at(at) != OPEN_OBJECT:
        return -1, facts, numbers, strings
    at += 1
    if octet_at(at) == CLOSE_OBJECT:
        return at + 1, facts, numbers, strings
    while True:
        begin, finish, at, strings = _read_string(at, end, strings)
        if at < 0 or octet_at(at) != COLON:
            return -1, facts, numbers, strings
        at += 1
        first, second = hash_octets(secret, begin, finish - begin)
        known = attribute.find_attribute(t, first, second)
        octet = octet_at(at)
        if known == 0:
            at = skip_scalar(at, end)
        elif _came_before(t, known):
            return -1, facts, numbers, strings
        elif octet == QUOTE:
            begin, finish, at, strings = _read_string(at, end, strings)
            if at >= 0:
                facts = _string_facts(t, known, begin, finish, facts)
                numbers = _note_text(t, known, begin, finish, numbers)
        elif octet == MINUS or ZERO <= octet <= NINE:
            at, low, high, whole = read_number(at)
            uses = attributes[known * attribute.RECORD + attribute.USES]
            if uses & attribute.RANGE:
                numbers = _note_number(t, known, low, high, numbers)
            if uses & attribute.EQUALITY:
                if low == high:
                    first, second = hash_word(secret, bits_of(low + 0.0))
                    facts = add_fact(t, first, second, NUMBER, known, facts)
                else:
                    first, second = hash_word(secret, whole)
                    facts = add_fact(t, first, second, INTEGER, known, facts)
            facts = _kind_facts(t, known, uses, IS_NUMBER, facts)
        elif end_of_boolean(at) >= 0:
            uses = attributes[known * attribute.RECORD + attribute.USES]
            if uses & attribute.EQUALITY:
                first, second = hash_word(secret, int64(octet == 0x74))
                facts = add_fact(t, first, second, BOOLEAN, known, facts)
            facts = _kind_facts(t, known, uses, IS_BOOLEAN, facts)
            at = end_of_boolean(at)
        else:
            return -1, facts, numbers, strings
        if at < 0 or at >= end:
            return -1, facts, numbers, strings
        octet = octet_at(at)
        at += 1
        if octet == CLOSE_OBJECT:
            return at, facts, numbers, strings
        if octet != COMMA:
            return -1, facts, numbers, strings


@small_kernel
def _came_before(t: Any, known: int) -> bool:
    """Whether the attribute was read already in this publication."""
    attributes, read = integers(t, ATTRIBUTES), integers(t, COUNTS)[ATTRIBUTES_READ]
    place = known * attribute.RECORD + attribute.READ
    again = attributes[place] == read
    attributes[place] = read
    return again


@small_kernel
def _note_number(t: Any, known: int, low: float, high: float, numbers: int) -> int:
    integers(t, NUMBERS)[numbers] = known
    values = floats(t, NUMBERS)
    values[numbers + 1] = low
    values[numbers + 2] = high
    return numbers + NUMBER_WORDS


@small_kernel
def _note_text(t: Any, known: int, begin: int, finish: int, numbers: int) -> int:
    """Where a text stands that is compared by order."""
    places = integers(t, NUMBERS)
    if not integers(t, ATTRIBUTES)[known * attribute.RECORD + attribute.USES] & attribute.ORDER:
        return numbers
    places[numbers] = -known
    places[numbers + 1] = begin
    places[numbers + 2] = finish
    return numbers + NUMBER_WORDS


@small_kernel
def add_fact(t: Any, first: Any, second: Any, kind: int, of: int, facts: int) -> int:
    store = integers(t, FACTS)
    first, second = key_hash(first, second, kind, of)
    prefetch(t[KEY_SLOTS] + 8 * int64(first & uint64(integers(t, COUNTS)[KEY_SLOTS_MASK])))
    store[2 * facts] = int64(first)
    store[2 * facts + 1] = int64(second)
    return facts + 1


@small_kernel
def _kind_facts(t: Any, known: int, uses: int, kind: int, facts: int) -> int:
    if uses & (attribute.TYPE | attribute.EXISTENCE):
        facts = add_fact(t, uint64(0), uint64(0), kind, known, facts)
        facts = add_fact(t, uint64(0), uint64(0), EXISTS, known, facts)
    return facts


@small_kernel
def _string_facts(t: Any, known: int, begin: int, finish: int, facts: int) -> int:
    attributes = integers(t, ATTRIBUTES)
    at = known * attribute.RECORD
    uses = attributes[at + attribute.USES]
    if uses & attribute.EQUALITY:
        first, second = hash_octets(secret_of(t), begin, finish - begin)
        facts = add_fact(t, first, second, STRING, known, facts)
    facts = _kind_facts(t, known, uses, IS_STRING, facts)
    if attributes[at + attribute.PREFIXES] | attributes[at + attribute.SUFFIXES] | attributes[at + attribute.PIECES]:
        facts = add_text_facts(t, known, begin, finish, facts)
    return facts


# Closer to the poles or the antimeridian, a point may belong to several tiles.
_EDGE_LONGITUDE, _EDGE_LATITUDE = 179.999, 89.999
_POINT_BEGIN = b'{"type":"point","lat":'
_POINT_MIDDLE = b',"lon":'


@kernel
def _read_zone(t: Any, at: int, end: int, event: int, facts: int) -> tuple[int, int]:
    """A point gives the facts of its tiles; the address of any other zone is noted."""
    events, places = integers(t, EVENTS), floats(t, EVENTS)
    events[event + ZONE] = at
    finish = skip_value(at, end)
    events[event + ZONE_END] = finish
    plain = True
    for i in range(len(_POINT_BEGIN)):
        plain &= octet_at(at + i) == _POINT_BEGIN[i]
    if finish < 0 or not plain:
        return finish, facts
    at, latitude, _, _ = read_number(at + len(_POINT_BEGIN))
    if at < 0:
        return finish, facts
    for i in range(len(_POINT_MIDDLE)):
        plain &= octet_at(at + i) == _POINT_MIDDLE[i]
    if not plain:
        return finish, facts
    at, longitude, _, _ = read_number(at + len(_POINT_MIDDLE))
    if at + 1 != finish or abs(longitude) > _EDGE_LONGITUDE or abs(latitude) > _EDGE_LATITUDE:
        return finish, facts
    places[event + LATITUDE] = latitude
    places[event + LONGITUDE] = longitude
    events[event + ZONE_END] = -finish  # its tiles are known already
    return finish, add_tile_facts(t, latitude, longitude, facts)
