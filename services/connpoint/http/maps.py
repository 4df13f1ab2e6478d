"""A map of anchors as `/v1/cluster/scale` takes it: words and other anchors, each with the part that it lies in."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from braid import problems
from braid.anchor_map import ANCHORS_MAX, PARTS_MAX, AnchorMap
from braid.anchor_names import anchor_of_words, canonical_anchor
from braid.anchors import place_of

_SHOWN_MAX = 100  # characters of an anchor, in a problem

Part = Annotated[int, msgspec.Meta(description="from 0 to one less than the parts")]


class MapRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Part 0 lies on the first matcher, part 1 on the second, and so on; behind the last matcher it begins anew.

    Words are taken as subscriptions' words are, by their stems. Other anchors are written as `filter:city = 'Madrid'`,
    `topic:both:sports/soccer` or `box:40.0,-4.0,0.5`. What is not named lies where it hashes to.
    """

    parts: Annotated[int, msgspec.Meta(description=f"1 to {PARTS_MAX}; mostly as many as there are matchers")]
    words: dict[str, Part] = {}
    anchors: dict[str, Part] = {}


class MapShown(msgspec.Struct):
    version: str
    parts: int
    anchors: int  # how many it names


def shown(map: AnchorMap | None) -> MapShown | None:
    return None if map is None else MapShown(map.version, map.parts, len(map))


def map_of(given: MapRequest) -> AnchorMap:
    """Takes up to a second for the largest one. Raises the problem that names the field."""
    if not 1 <= given.parts <= PARTS_MAX:
        raise problems.invalid("$.map.parts", f"a map has from 1 to {PARTS_MAX} parts")
    named = len(given.words) + len(given.anchors)
    if not named:
        raise problems.invalid("$.map", "this map names nothing; to have none any more, give 'none'")
    if named > ANCHORS_MAX:
        raise problems.invalid(
            "$.map", f"a map names at most {ANCHORS_MAX} anchors, this one {named}; leave out the rarest"
        )
    parts: dict[str, int] = {}
    for field, text, part in _read(given):
        if parts.setdefault(text, part) != part:
            raise problems.invalid(field, f"part {part} here, but it is the same anchor as one in part {parts[text]}")
    # Different anchors may have the same place, and lie together then: the first one says where.
    part_of: dict[int, int] = {}
    for text, part in parts.items():
        part_of.setdefault(place_of(text), part)
    return AnchorMap(given.parts, part_of)


def _read(given: MapRequest) -> Iterator[tuple[str, str, int]]:
    """The field, the anchor as it is hashed, and its part."""
    kinds = (("words", given.words, anchor_of_words), ("anchors", given.anchors, canonical_anchor))
    for name, parts, canonical in kinds:
        for text, part in parts.items():
            field = f"$.map.{name}.{text[:_SHOWN_MAX]}"
            if not 0 <= part < given.parts:
                raise problems.invalid(field, f"parts are numbered from 0 to {given.parts - 1}, this is {part}")
            try:
                anchor = canonical(text)
            except ValueError as error:
                raise problems.invalid(field, str(error)) from None
            yield field, anchor, part
