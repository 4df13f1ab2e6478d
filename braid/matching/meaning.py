"""What a whole subscription means, written as plainly as possible.

This is the oracle: the index of the matcher is faster and must agree with it; tests compare the two. All parts of a
subscription are joined by *and*, and a part that it does not have is true.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from braid.filters import Value, evaluate, parse
from braid.subscription import SubscriptionRecord
from braid.topics import matches, parse_pattern, parse_topic
from braid.words import stems_of, stems_of_words
from braid.zones import intersects

# The connection point has held the filter against its limit already; the meaning takes what was accepted.
PREDICATES_MAX = 1_000_000


class Publication(msgspec.Struct, frozen=True):
    """What of a publication decides whether it matches. `data`, `id` and `object` do not."""

    attributes: dict[str, Value] = {}
    topic: str = ""
    text: str = ""
    zone: dict[str, Any] | None = None
    expires: datetime | None = None


read_publication = msgspec.json.Decoder(Publication).decode


def accepts(
    record: SubscriptionRecord, publication: Publication, previous: Mapping[str, Value] | None, now_s: float
) -> bool:
    """Whether the subscription matches the publication at this moment.

    `previous` holds the attributes of the publication before it on the same topic. What has no topic has no previous.
    """
    return (
        is_alive(publication, now_s)
        and is_open(record, now_s)
        and filter_accepts(record, publication, previous)
        and words_accept(record, publication)
        and topic_accepts(record, publication)
        and zone_accepts(record, publication)
    )


def is_alive(publication: Publication, now_s: float) -> bool:
    """An expired publication matches nothing."""
    return publication.expires is None or now_s < publication.expires.timestamp()


def is_open(record: SubscriptionRecord, now_s: float) -> bool:
    """The window holds its beginning but not its end."""
    return (record.from_s is None or record.from_s <= now_s) and (record.until_s is None or now_s < record.until_s)


def filter_accepts(record: SubscriptionRecord, publication: Publication, previous: Mapping[str, Value] | None) -> bool:
    if not record.filter:
        return True
    node = parse(record.filter, max_predicates=PREDICATES_MAX)
    return evaluate(node, publication.attributes, previous_of(publication, previous))


def previous_of(publication: Publication, previous: Mapping[str, Value] | None) -> Mapping[str, Value] | None:
    return previous if publication.topic else None


def words_accept(record: SubscriptionRecord, publication: Publication) -> bool:
    return set(stems_of_words(record.words)) <= set(stems_of(publication.text))


def topic_accepts(record: SubscriptionRecord, publication: Publication) -> bool:
    """A subscription to a topic does not match what has none."""
    if not record.topic:
        return True
    if not publication.topic:
        return False
    return matches(parse_pattern(record.topic), record.topic_scope, parse_topic(publication.topic))


def zone_accepts(record: SubscriptionRecord, publication: Publication) -> bool:
    """A subscription to a zone does not match what is nowhere."""
    if record.zone is None:
        return True
    return publication.zone is not None and intersects(record.zone, publication.zone)
