"""Compares what the index finds with what the subscriptions mean."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from braid.matching.meaning import accepts, read_publication
from braid.subscription import SubscriptionRecord

EVENTS = 20  # that are compared
ALL_UP_TO = 10_000  # subscriptions; of more, a sample is compared
SAMPLE = 2_000
_SHOWN = 5


class Comparison(NamedTuple):
    events: int
    subscriptions: int  # compared for each event, besides those that the index found
    differences: list[str]


def sample(records: Sequence[SubscriptionRecord], size: int) -> Sequence[SubscriptionRecord]:
    """The part of these records, some of `size` in all, that is compared."""
    return records if size <= ALL_UP_TO else records[:: size // SAMPLE]


def compare(
    contents: Sequence[bytes],
    found: Iterable[Iterable[str]],
    sampled: Sequence[SubscriptionRecord],
    records: dict[str, SubscriptionRecord],
    now_s: float,
) -> Comparison:
    """`found` are the ids of the index for each content, `records` what these ids stand for.

    Every id that was found must be one that matches, and of the sample every one that matches must be found.
    """
    differences: list[str] = []
    for content, listed in zip(contents, found, strict=True):
        publication = read_publication(content)
        ids = list(listed)
        if len(set(ids)) != len(ids):
            differences.append(f"an id stands twice in what was found for {content.decode()}")
        candidates = {record.id: record for record in sampled} | {id: records[id] for id in ids if id in records}
        differences += [f"{id} was found but does not exist" for id in ids if id not in candidates]
        for id, record in candidates.items():
            if accepts(record, publication, None, now_s) != (id in ids):
                verb = "was found though it does not match" if id in ids else "was not found though it matches"
                differences.append(f"{id} ({_shown(record)}) {verb} {content.decode()}")
    return Comparison(len(contents), len(sampled), differences[:_SHOWN])


def _shown(record: SubscriptionRecord) -> str:
    return record.filter or " ".join(record.words) or str(record.zone)
