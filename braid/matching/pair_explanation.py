"""Explains one subscription and one publication: every part with what it wants, what it saw, and why it failed.

The verdicts are those of `meaning.py`; this module only adds the words.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import spherely

from braid.filters import Value, parse
from braid.instants import format_instant
from braid.matching.explanation import Explanation, PartExplained
from braid.matching.filter_explanation import blamed, explain_filter
from braid.matching.meaning import (
    PREDICATES_MAX,
    Publication,
    is_alive,
    is_open,
    topic_accepts,
    zone_accepts,
)
from braid.subscription import SubscriptionRecord
from braid.words import stems_of, stems_of_words
from braid.zones import geography

_SHOWN_CHARACTERS_MAX = 200  # of a text


def explain_pair(
    record: SubscriptionRecord, publication: Publication, previous: Mapping[str, Value] | None, now_s: float
) -> Explanation:
    """`previous` as in `accepts`; the explanation says that it matches exactly when that does."""
    parts = list(_parts(record, publication, previous, now_s))
    failed = [part.part for part in parts if not part.holds]
    return Explanation(subscription=record.id, matches=not failed, failed=failed, parts=parts)


def _parts(
    record: SubscriptionRecord, publication: Publication, previous: Mapping[str, Value] | None, now_s: float
) -> Iterator[PartExplained]:
    if publication.expires is not None:
        yield _expiry(publication, now_s)
    if record.from_s is not None or record.until_s is not None:
        yield _window(record, now_s)
    if record.filter:
        yield _filter(record, publication, previous)
    if record.words:
        yield _words(record, publication)
    if record.topic:
        yield _topic(record, publication)
    if record.zone is not None:
        yield _zone(record, publication)


def _expiry(publication: Publication, now_s: float) -> PartExplained:
    assert publication.expires is not None
    expires, now = format_instant(publication.expires.timestamp()), format_instant(now_s)
    holds = is_alive(publication, now_s)
    reasons = [] if holds else [f"the publication expired at {expires}, and now it is {now}"]
    return PartExplained(part="expires", holds=holds, wants=f"before {expires}", saw=now, reasons=reasons)


def _window(record: SubscriptionRecord, now_s: float) -> PartExplained:
    now = format_instant(now_s)
    bounds, reasons = [], []
    if record.from_s is not None:
        bounds.append(f"from {format_instant(record.from_s)}")
        if now_s < record.from_s:
            reasons.append(f"the window begins at {format_instant(record.from_s)}, and now it is {now}")
    if record.until_s is not None:
        bounds.append(f"until {format_instant(record.until_s)}")
        if now_s >= record.until_s:
            reasons.append(f"the window ended at {format_instant(record.until_s)}, and now it is {now}")
    return PartExplained(part="window", holds=is_open(record, now_s), wants=" ".join(bounds), saw=now, reasons=reasons)


def _filter(
    record: SubscriptionRecord, publication: Publication, previous: Mapping[str, Value] | None
) -> PartExplained:
    node = parse(record.filter, max_predicates=PREDICATES_MAX)
    tree = explain_filter(node, publication, previous)
    # A predicate that holds and is to blame stands below a `not`.
    reasons = [f"{f'not ({step.text})' if step.holds else step.text}: {step.saw}" for step in blamed(tree)]
    return PartExplained(part="filter", holds=tree.holds, wants=record.filter, reasons=reasons, filter=tree)


def _words(record: SubscriptionRecord, publication: Publication) -> PartExplained:
    present = set(stems_of(publication.text))
    missing = [stem for stem in stems_of_words(record.words) if stem not in present]
    reasons = []
    if missing and not publication.text:
        reasons.append("the publication has no text")
    elif missing:
        reasons.append(f"the text has no word of the stems: {', '.join(missing)}")
    return PartExplained(
        part="words",
        holds=not missing,
        wants=", ".join(record.words),
        saw=_shortened(publication.text),
        reasons=reasons,
        missing=missing,
    )


def _topic(record: SubscriptionRecord, publication: Publication) -> PartExplained:
    holds = topic_accepts(record, publication)
    reasons = []
    if not publication.topic:
        reasons.append("the publication has no topic")
    elif not holds:
        beside = _BESIDE[record.topic_scope]
        reasons.append(f"'{publication.topic}' is {'neither' if beside else 'not'} '{record.topic}'{beside}")
    return PartExplained(
        part="topic",
        holds=holds,
        wants=f"{record.topic} (topic_scope {record.topic_scope})",
        saw=publication.topic,
        reasons=reasons,
    )


_BESIDE = {"self": "", "below": " nor below it", "both": " nor above or below it"}


def _zone(record: SubscriptionRecord, publication: Publication) -> PartExplained:
    assert record.zone is not None
    holds = zone_accepts(record, publication)
    apart_m = None
    reasons = []
    if publication.zone is None:
        reasons.append("the publication has no zone")
    elif not holds:
        apart_m = _distance_m(record.zone, publication.zone)
        reasons.append(f"the zones do not intersect: they are {_length(apart_m)} apart")
    return PartExplained(
        part="zone",
        holds=holds,
        wants=_json(record.zone),
        saw="" if publication.zone is None else _json(publication.zone),
        reasons=reasons,
        distance_m=apart_m,
    )


def _distance_m(zone: dict[str, Any], other: dict[str, Any]) -> float:
    """Between the two boundaries; the geography of a circle is its centre."""
    radii_m: float = zone.get("radius_m", 0.0) + other.get("radius_m", 0.0)
    return round(max(0.0, float(spherely.distance(geography(zone), geography(other))) - radii_m), 1)


def _length(metres: float) -> str:
    if metres < 0.1:
        return "less than 0.1 m"
    return f"{metres:.1f} m" if metres < 1000 else f"{metres / 1000:,.1f} km"


def _json(zone: dict[str, Any]) -> str:
    return _shortened(msgspec.json.encode(zone).decode())


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else text[:_SHOWN_CHARACTERS_MAX] + "…"
