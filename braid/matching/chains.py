"""Chains: of one topic, the publications that `prev` may look back to, in the order in which they came.

A chain is one value on disk, and on its way to another matcher. Two matchers remember the same publications of a topic,
but each only the attributes that its own subscriptions look at, and each from when somebody looked back there. So
chains are merged by the positions of their publications, and nothing is in a chain twice.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from braid.filters import Value

Attributes = Mapping[str, Value]


class Position(NamedTuple):
    """Which publication it is, however often it comes."""

    origin: str
    sequence: int
    place: int


class Remembered(msgspec.Struct, array_like=True, gc=False):
    position: Position | None  # none: it does not come again
    attributes: bytes  # those that are looked at


Chain = list[Remembered]

encode_attributes = msgspec.json.Encoder().encode
decode_attributes = msgspec.json.Decoder(dict[str, Value]).decode
encode_chain = msgspec.msgpack.Encoder().encode
_decode_chain = msgspec.msgpack.Decoder(Chain).decode


def read_chain(value: bytes) -> Chain:
    """Empty for what is none: whoever looks back finds nothing then."""
    try:
        return _decode_chain(value)
    except msgspec.DecodeError:
        return []


def merged(chain: Chain, handed: Chain) -> Chain:
    """With what another one remembered of the same topic before this one went on alone.

    What only the other one has comes behind what both have before it, and before all else; but never before an earlier
    publication of the same origin, nor behind a later one.
    """
    whole = [Remembered(one.position, one.attributes) for one in chain]
    at = 0
    for one in handed:
        known = None if one.position is None else _place_of(whole, one.position)
        if known is not None:
            whole[known].attributes = with_attributes(whole[known].attributes, one.attributes)
            at = max(at, known + 1)
            continue
        lowest, highest = (0, len(whole)) if one.position is None else _bounds(whole, one.position)
        at = max(lowest, min(at, highest))
        whole.insert(at, one)
        at += 1
    return whole


def with_attributes(known: bytes, others: bytes) -> bytes:
    """Of the same publication."""
    if known == others:
        return known
    here, there = decode_attributes(known), decode_attributes(others)
    return known if there.keys() <= here.keys() else encode_attributes({**there, **here})


def _place_of(chain: Chain, position: Position) -> int | None:
    return next((at for at, one in enumerate(chain) if one.position == position), None)


def _bounds(chain: Chain, position: Position) -> tuple[int, int]:
    """Between the last earlier one and the first later one of the same origin."""
    lowest, highest = 0, len(chain)
    for at in range(len(chain) - 1, -1, -1):
        other = chain[at].position
        if other is not None and other.origin == position.origin:
            if other < position:
                lowest = at + 1
                break
            highest = at
    return lowest, highest
