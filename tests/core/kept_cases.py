"""What the tests of kept publications share: requests, batches and questions, and topics whose keeper is known."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from braid.keeping import keepers_of
from braid.messages import BatchUnderWay, FindPublications, Kept, KeptBatch, MatchRequest, UnderWay
from braid.selector import Selector
from braid.subscription import SubscriptionRecord
from tests.core.matching_cases import content, record

ORIGIN = "connpoint-1.a"
EVERYTHING = record("s-1")


def on_topic(topic: str, **attributes: Any) -> bytes:
    return content(attributes, topic=topic)


def topics_kept_by(selector: Selector, name: str, several: int) -> list[str]:
    """The first so many of t0, t1, … that this matcher keeps."""
    topics = [f"t{number}" for number in range(100)]
    own = [topic for topic in topics if name in keepers_of(selector, ORIGIN, 1, [on_topic(topic)])]
    assert len(own) >= several
    return own[:several]


def request(
    sequence: int,
    *contents: bytes,
    previous: int = 0,
    watermark: int = 0,
    origin: str = ORIGIN,
    publisher: int = 0,
    epoch: int = 1,
    places: list[int] | None = None,
    whole: int | None = None,
) -> MatchRequest:
    batch = (epoch, origin, sequence, previous, watermark, publisher, 1.5, 2, list(contents))
    return MatchRequest(*batch, places=places, whole=whole)


def batch(
    sequence: int,
    *contents: bytes,
    previous: int = 0,
    origin: str = ORIGIN,
    published_s: float = 1.5,
    places: Sequence[int] | None = None,
) -> KeptBatch:
    counted = list(range(len(contents)) if places is None else places)
    return KeptBatch(origin, sequence, previous, published_s, counted, list(contents))


def kept(sequence: int, place: int = 0, *, origin: str = ORIGIN, **changes: Any) -> Kept:
    given: dict[str, Any] = {"published_s": 1.5, "content": b"%d.%d" % (sequence, place)} | changes
    return Kept(origin=origin, sequence=sequence, place=place, **given)


def under_way(
    watermark: int, previous: Mapping[int, int], *, published_s: float = 1.5, whole: int = 1, places: Any = None
) -> UnderWay:
    """What a matcher says of these batches, by what was before each of them."""
    batches = {sequence: BatchUnderWay(before, published_s, whole, places) for sequence, before in previous.items()}
    return UnderWay(watermark, batches)


def question(
    ref: int = 1,
    given: SubscriptionRecord = EVERYTHING,
    *,
    epoch: int = 1,
    connpoint: str = "connpoint-1",
    from_s: float = -math.inf,
    until_s: float = math.inf,
    limit: int = 1000,
    without: Sequence[SubscriptionRecord] = (),
    accesspoints: Sequence[str] = ("accesspoint-1",),
) -> FindPublications:
    return FindPublications(
        epoch, ref, connpoint, given, from_s, until_s, limit, list(without), list(accesspoints), asked=2
    )
