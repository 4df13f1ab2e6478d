"""Anchors as people write them in a map, turned into the one spelling that is hashed.

An anchor that no subscription is ever placed by would do nothing, and nobody would notice, so it is refused.
"""

import math

from braid.anchors import ANY, HALF_SIDE_MAX, HALF_SIDE_MIN, text_of, text_of_words
from braid.config import Limits
from braid.problems import Problem
from braid.subscription import Subscription, check_subscription
from braid.words import check_words

_KINDS = "words:house, filter:city = 'Madrid', topic:both:sports/soccer, or box:40.0,-4.0,0.5"


def anchor_of_words(entry: str) -> str:
    """The anchor of subscriptions that ask for this entry of words. `ValueError` says why there is none."""
    check_words([entry])
    return text_of_words(entry)


def canonical_anchor(given: str) -> str:
    """The anchor as matchers and access points speak of it. `ValueError` says why it is none."""
    kind, _, rest = given.partition(":")
    match kind:
        case "words":
            return anchor_of_words(rest)
        case "filter":
            return _of_subscription(Subscription(filter=rest))
        case "topic":
            scope, _, topic = rest.partition(":")
            return _of_subscription(Subscription(topic=topic, topic_scope=scope))
        case "box":
            return _of_tile(rest)
    if given == ANY:
        raise ValueError("subscriptions without an anchor lie on all matchers")
    raise ValueError(f"expected an anchor, such as {_KINDS}")


def _of_subscription(given: Subscription) -> str:
    """The whole of it must be the anchor."""
    try:
        record = check_subscription(given, Limits(), 0.0, id="", subscriber="", home="", temporary=False)
    except Problem as problem:
        raise ValueError(problem.detail) from None
    text = text_of(record)
    if text not in (f"filter:{record.filter}", f"topic:{record.topic_scope}:{record.topic}"):
        raise ValueError(
            "no subscription is placed by this; an anchor is an equality, a list of up to eight values, a prefix, or a "
            "topic that does not begin with a wildcard"
        )
    return text


def _of_tile(given: str) -> str:
    try:
        south, west, half = map(float, given.split(","))
    except ValueError:
        raise ValueError("expected south, west and half the side of a tile, such as box:40.0,-4.0,0.5") from None
    is_side = HALF_SIDE_MIN <= half <= HALF_SIDE_MAX and math.log2(half).is_integer()
    is_inside = south > -90 and south + 2 * half < 90 and west > -180 and west + 2 * half < 180
    if not is_side or not is_inside or not (south / half).is_integer() or not (west / half).is_integer():
        raise ValueError(
            f"no subscription is placed by this tile; half its side is a power of two from {HALF_SIDE_MIN:g} to "
            f"{HALF_SIDE_MAX:g} degrees, its south and west are multiples of that, and it reaches no pole and no "
            "antimeridian"
        )
    return f"box:{south + 0.0},{west + 0.0},{half}"  # not -0.0
