"""Anchors: of each subscription, one part that every publication it matches must fulfil.

A subscription is placed by its anchor, and access points send a publication to the matchers that keep a subscription
under an anchor it carries. An anchor is itself a subscription that asks for less, so the same index that finds
subscriptions finds anchors, and nothing can be missed as long as the anchor follows from the subscription.

In a record an anchor is a few letters that say which part it is; its text is the same for all subscriptions that share
it, and is what matchers and access points speak of:

| in the record | text                   | the part                                                                  |
|---------------|------------------------|---------------------------------------------------------------------------|
| `w1`          | `words:hous`           | one entry of the words, the one with the longest stem                     |
| `z`           | `box:40.0,-4.0,0.5`    | a tile around the zone: south, west and half its side in degrees          |
| `f0:12`       | `filter:sensor = 's1'` | these characters of the filter: an equality, a short list, or a prefix    |
| `t`           | `topic:both:a/b`       | the topic and its scope                                                   |
| `*`           | `*`                    | none: every publication is to be looked at                                |

Tiles come in sides of powers of two, each beginning at every half side, so that a zone lies in a tile of at most four
times its own side wherever it is, except close to the poles and the antimeridian, where there are none.

Which part is the most selective is guessed here from the subscription alone. Whatever guesses better may put another
part into the record: nothing else depends on the choice.
"""

import math
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from braid.deliver import id_prefix
from braid.filters import And, Comparison, Filter, In, Prefix, Value, parse, print_filter, uses_previous
from braid.matching.meaning import PREDICATES_MAX
from braid.selector import hash64
from braid.subscription import SubscriptionRecord
from braid.words import stems_of, stems_of_words
from braid.zones import bounds

ANY = "*"

_LIST_MAX = 8  # values of an `in`; more of them are no longer selective
HALF_SIDE_MIN = 2.0**-7  # degrees, somewhat under a kilometre
_HALF_SIDE_SMALL = 0.5  # up to here a zone is taken for more selective than an equality
HALF_SIDE_MAX = 16.0
_MARGIN = 1e-4  # degrees: more than zones of different kinds deviate from one another


def choose(record: SubscriptionRecord) -> str:
    """Which part of the record is its anchor, as the record keeps it."""
    parsed = _parsed(record.filter) if record.filter else None
    if parsed is not None and uses_previous(parsed):
        return ANY  # whoever compares with the previous publication must see every one
    return next(filter(None, _in_order_of_preference(record, parsed)), ANY)


def _in_order_of_preference(record: SubscriptionRecord, parsed: Filter | None) -> Iterator[str]:
    """The parts that can be the anchor, empty where there is none of a kind."""
    if record.words:
        yield f"w{max(range(len(record.words)), key=lambda place: (_longest_stem(record.words[place]), -place))}"
    tile = None if record.zone is None else _tile(record.zone)
    yield "z" if tile is not None and tile[2] <= _HALF_SIDE_SMALL else ""
    conditions = [] if parsed is None else _conditions(parsed)
    equalities = [part for part in conditions if len(_values(part)) == 1]
    yield _longest_of(record.filter, equalities)
    yield "t" if record.topic and record.topic[0] not in "+#" else ""
    yield _longest_of(record.filter, [part for part in conditions if len(_values(part)) <= _LIST_MAX])
    yield _longest_of(record.filter, [] if parsed is None else [p for p in _parts(parsed) if isinstance(p, Prefix)])
    yield "z" if tile is not None else ""


def text_of(record: SubscriptionRecord) -> str:
    """The anchor of a record as matchers and access points speak of it."""
    anchor = record.anchor or choose(record)
    match anchor[0]:
        case "w":
            return text_of_words(record.words[int(anchor[1:])])
        case "z":
            tile = None if record.zone is None else _tile(record.zone)
            return ANY if tile is None else f"box:{tile[0]},{tile[1]},{tile[2]}"
        case "f":
            begin, _, end = anchor[1:].partition(":")
            return f"filter:{record.filter[int(begin) : int(end)]}"
        case "t":
            return f"topic:{record.topic_scope}:{record.topic}"
        case _:
            return ANY


def text_of_words(entry: str) -> str:
    """The anchor of a subscription by one entry of its words."""
    stems = " ".join(sorted(stems_of(entry)))
    # One text for all words of a stem, unless the stem alone would be taken for another word.
    return f"words:{stems if stems_of(stems) == sorted(stems_of(entry)) else entry}"


def place_of(text: str) -> int:
    """Where on the ring an anchor lies, in 32 bits: what the ids of its subscriptions end with."""
    return hash64(text) >> 32


def subscription_of(text: str, id: str, home: str) -> SubscriptionRecord:
    """The subscription that an anchor is. Raises `ValueError` for a text that is none."""
    kind, _, rest = text.partition(":")
    parts: dict[str, Any] = {}
    match kind:
        case "words":
            parts["words"] = (rest,)
        case "box":
            south, west, half = map(float, rest.split(","))
            sides = {"south": south, "west": west, "north": south + 2 * half, "east": west + 2 * half}
            parts["zone"] = {"type": "box", **sides}
        case "topic":
            parts["topic_scope"], _, parts["topic"] = rest.partition(":")
        case "filter" | "*":
            pass
        case _:
            raise ValueError(f"'{text}' is no anchor")
    return SubscriptionRecord(id, "", home, rest if kind == "filter" else "", 0.0, **parts)


def anchored(record: SubscriptionRecord) -> SubscriptionRecord:
    """With its anchor chosen anew. It stays where its id says: whatever it is found by, matchers tell access points."""
    return replace(record, anchor=choose(record))


def placed(record: SubscriptionRecord) -> SubscriptionRecord:
    """A new one, with its anchor and an id that says where on the ring it lies, so that whoever has the id finds it.

    Those without an anchor lie anywhere: a publication visits all matchers that keep some.
    """
    record = anchored(record)
    text = text_of(record)
    key = secrets.token_hex(4) if text == ANY else f"{place_of(text):08x}"
    return replace(record, id=f"{id_prefix(record.deliver)}{secrets.token_hex(8)}{key}")


def _longest_stem(entry: str) -> int:
    return max(map(len, stems_of_words([entry])), default=0)


def _parsed(filter: str) -> Filter:
    """Whatever was accepted once, whichever limits were in force."""
    return parse(filter, max_predicates=PREDICATES_MAX, max_alternatives=PREDICATES_MAX)


def _parts(parsed: Filter) -> tuple[Filter, ...]:
    return parsed.parts if isinstance(parsed, And) else (parsed,)


def _conditions(parsed: Filter) -> list[Comparison | In]:
    """The equalities and lists of which all must hold."""
    return [
        part
        for part in _parts(parsed)
        if isinstance(part, In) or (isinstance(part, Comparison) and part.operator == "=")
    ]


def _values(part: Comparison | In) -> tuple[Value, ...]:
    return part.values if isinstance(part, In) else (part.value,)


def _longest_of(filter: str, parts: Sequence[Filter]) -> str:
    """The longest text tells most; of several the smallest, so that it does not depend on their order."""
    text = min(map(print_filter, parts), key=lambda text: (-len(text), text), default="")
    begin = filter.find(text)  # wherever it stands, the same characters say the same
    is_found = text and begin >= 0  # not where another version spelled it differently
    return f"f{begin}:{begin + len(text)}" if is_found else ""


def _tile(zone: dict[str, Any]) -> tuple[float, float, float] | None:
    """South, west and half the side of the smallest tile around a zone."""
    boxes = bounds(zone)
    if len(boxes) != 1:
        return None
    south, west, north, east = boxes[0]
    south, west, north, east = south - _MARGIN, west - _MARGIN, north + _MARGIN, east + _MARGIN
    side = max(north - south, east - west, HALF_SIDE_MIN)
    half = 2.0 ** math.ceil(math.log2(side))
    if half > HALF_SIDE_MAX:
        return None
    tile_south, tile_west = math.floor(south / half) * half, math.floor(west / half) * half
    if tile_south <= -90 or tile_south + 2 * half >= 90 or tile_west <= -180 or tile_west + 2 * half >= 180:
        return None
    return tile_south, tile_west, half
