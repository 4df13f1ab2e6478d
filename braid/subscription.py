"""A subscription: as a client writes it, and as it is stored. What it means is defined in `docs/subscriptions.md`."""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from braid import problems, topics
from braid.config import Limits
from braid.content import canonical_zone
from braid.deliver import Deliver, DeliverGiven, changed_deliver, check_deliver
from braid.filters import Filter, FilterError, from_json, parse, print_filter
from braid.instants import format_instant, parse_instant
from braid.words import check_words, stems_of_words


class Subscription(msgspec.Struct, forbid_unknown_fields=True, rename={"from_": "from"}):
    """What `POST /v1/subscriptions` and the WebSocket `subscribe` take."""

    filter: str | dict[str, Any] = ""
    words: Annotated[list[str], msgspec.Meta(description="all of them occur in the text, by their stems")] = []
    topic: Annotated[
        str, msgspec.Meta(description="a path or a Dewey number; `+` is one level, a last `#` any number of levels")
    ] = ""
    topic_scope: Annotated[
        str,
        msgspec.Meta(
            description="empty: 'self' for a topic with wildcards, else 'both'",
            extra_json_schema={"enum": ["", *topics.SCOPES]},
        ),
    ] = ""
    zone: Annotated[
        dict[str, Any] | None, msgspec.Meta(description="a circle, box or point, or a GeoJSON Polygon or Point")
    ] = None
    from_: str | int | float | None = None
    until: str | int | float | None = None
    distinct: bool = False
    subscriber: str = ""
    deliver: Annotated[
        DeliverGiven | None,
        msgspec.Meta(description="an address that notifications are sent to, and not over connections"),
    ] = None


class SubscriptionPatch(msgspec.Struct, forbid_unknown_fields=True, rename={"from_": "from"}):
    """What `PATCH /v1/subscriptions/{id}` takes; what is absent stays as it is, null removes a bound or the zone."""

    filter: str | dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    zone: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    from_: str | int | float | msgspec.UnsetType | None = msgspec.UNSET
    until: str | int | float | msgspec.UnsetType | None = msgspec.UNSET
    deliver: DeliverGiven | msgspec.UnsetType = msgspec.UNSET


class SubscriptionRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A checked subscription, as it travels and is stored."""

    id: str
    subscriber: str
    home: str  # the connection point that delivers it
    filter: str  # canonical text; empty matches every publication
    created_s: float
    from_s: float | None = None
    until_s: float | None = None
    temporary: bool = False  # goes away with its subscriber's connection
    words: tuple[str, ...] = ()  # as given; all of them occur in the text, see `braid.words`
    topic: str = ""  # canonical pattern, see `braid.topics`
    topic_scope: str = "both"  # "self", "below" or "both"
    zone: dict[str, Any] | None = None  # canonical zone, see `braid.zones`
    anchor: str = ""  # which part it is placed and routed by, see `braid.anchors`; empty: still to be chosen
    distinct: bool = False  # what its subscriber was given already is not given again
    given_from_s: float = math.inf  # what it matches and was published from here on was given; its matcher writes it
    deliver: Deliver | None = None  # where to; nothing: over connections of its subscriber

    def public(self) -> dict[str, Any]:
        """As clients see it."""
        shown: dict[str, Any] = {"id": self.id, "subscriber": self.subscriber, "connpoint": self.home}
        if self.filter:
            shown["filter"] = self.filter
        if self.words:
            shown["words"] = list(self.words)
        if self.topic:
            shown["topic"] = self.topic
            if self.topic_scope != "both":
                shown["topic_scope"] = self.topic_scope
        if self.zone is not None:
            shown["zone"] = self.zone
        if self.from_s is not None:
            shown["from"] = format_instant(self.from_s)
        if self.until_s is not None:
            shown["until"] = format_instant(self.until_s)
        if self.distinct:
            shown["distinct"] = True
        if self.temporary:
            shown["temporary"] = True
        if self.deliver is not None:
            shown["deliver"] = self.deliver.public()
        shown["created"] = format_instant(self.created_s)
        return shown


decode_subscription = msgspec.json.Decoder(Subscription).decode
decode_subscription_patch = msgspec.json.Decoder(SubscriptionPatch).decode


def check_subscription(
    given: Subscription, limits: Limits, now: float, *, id: str, subscriber: str, home: str, temporary: bool
) -> SubscriptionRecord:
    """The record of a subscription, or the `Problem` that names the first wrong field."""
    if len(subscriber) > limits.name_length_max:
        raise problems.limit_exceeded("limits.name_length_max", limits.name_length_max, len(subscriber), "$.subscriber")
    topic, topic_scope = _canonical_topic(given.topic, given.topic_scope, limits)
    record = SubscriptionRecord(
        id=id,
        subscriber=subscriber,
        home=home,
        filter=canonical_filter(given.filter, limits),
        created_s=now,
        from_s=_instant(given.from_, now, "$.from"),
        until_s=_instant(given.until, now, "$.until"),
        temporary=temporary,
        words=_checked_words(given.words, limits),
        topic=topic,
        topic_scope=topic_scope,
        zone=None if given.zone is None else canonical_zone(given.zone),
        distinct=given.distinct,
        deliver=None if given.deliver is None else check_deliver(given.deliver),
    )
    if record.distinct and record.deliver is not None:
        raise problems.invalid("$.distinct", "what is delivered to an address is given whole; leave one of the two out")
    return _check_window(record, now)


def check_question(given: Subscription, limits: Limits, now: float) -> tuple[SubscriptionRecord, float, float]:
    """What is looked for among kept publications: a record without a window, and when they were published."""
    record = check_subscription(
        msgspec.structs.replace(given, from_=None, until=None),
        limits,
        now,
        id="",
        subscriber="",
        home="",
        temporary=False,
    )
    from_s, until_s = _instant(given.from_, now, "$.from"), _instant(given.until, now, "$.until")
    if from_s is not None and until_s is not None and until_s <= from_s:
        raise problems.invalid("$.until", "the window ends before it begins")
    return record, -math.inf if from_s is None else from_s, math.inf if until_s is None else until_s


def apply_patch(record: SubscriptionRecord, patch: SubscriptionPatch, limits: Limits, now: float) -> SubscriptionRecord:
    """The record after a change; the same checks as for a new one."""
    changes: dict[str, Any] = {}
    if patch.filter is not msgspec.UNSET:
        changes["filter"] = canonical_filter(patch.filter, limits)
    if patch.zone is not msgspec.UNSET:
        changes["zone"] = None if patch.zone is None else canonical_zone(patch.zone)
    if patch.from_ is not msgspec.UNSET:
        changes["from_s"] = _beginning(patch.from_, now)
    if patch.until is not msgspec.UNSET:
        changes["until_s"] = _instant(patch.until, now, "$.until")
    if patch.deliver is not msgspec.UNSET:
        changes["deliver"] = changed_deliver(record.deliver, patch.deliver, now)
    if not changes:
        raise problems.invalid("$", "expected at least one of 'filter', 'zone', 'from', 'until', 'deliver'")
    changed = msgspec.structs.replace(record, **changes)
    return _check_window(changed, now) if "from_s" in changes or "until_s" in changes else changed


def canonical_filter(given: str | dict[str, Any], limits: Limits) -> str:
    """The one spelling of a filter; empty for a filter that says nothing.

    What the client wrote is held against the limit: the text, or for the JSON form the text it stands for.
    """
    try:
        parsed: Filter
        if isinstance(given, str):
            _check_length(given, limits)
            if not given.strip():
                return ""
            parsed = parse(given, max_predicates=limits.filter_predicates_max)
        else:
            parsed = from_json(given, max_predicates=limits.filter_predicates_max)
    except FilterError as error:
        raise problems.invalid(
            "$.filter",
            str(error),
            position=error.position if isinstance(given, str) else None,
            expected=list(error.expected) or None,
        ) from None
    text = print_filter(parsed)
    if not isinstance(given, str):
        _check_length(text, limits)
    return text


def _check_length(text: str, limits: Limits) -> None:
    if len(text) > limits.filter_length_max:
        raise problems.limit_exceeded("limits.filter_length_max", limits.filter_length_max, len(text), "$.filter")


def _checked_words(words: Sequence[str], limits: Limits) -> tuple[str, ...]:
    """The number is held against the limit before and after splitting: an entry may hold several words."""
    if len(words) > limits.words_max:
        raise problems.limit_exceeded("limits.words_max", limits.words_max, len(words), "$.words")
    for place, entry in enumerate(words):
        if len(entry) > limits.name_length_max:
            field = f"$.words[{place}]"
            raise problems.limit_exceeded("limits.name_length_max", limits.name_length_max, len(entry), field)
    try:
        check_words(words)
    except ValueError as error:
        raise problems.invalid("$.words", str(error)) from None
    demanded = len(stems_of_words(words))
    if demanded > limits.words_max:
        raise problems.limit_exceeded("limits.words_max", limits.words_max, demanded, "$.words")
    return tuple(words)


def _canonical_topic(given: str, scope: str, limits: Limits) -> tuple[str, str]:
    """The pattern and the scope in force."""
    if scope and scope not in topics.SCOPES:
        raise problems.invalid("$.topic_scope", f"'{scope}' is no scope", expected=list(topics.SCOPES))
    if not given:
        if scope:
            raise problems.invalid("$.topic_scope", "a scope needs a 'topic' that it is the scope of")
        return "", "both"
    if len(given) > limits.name_length_max:
        raise problems.limit_exceeded("limits.name_length_max", limits.name_length_max, len(given), "$.topic")
    try:
        pattern = topics.parse_pattern(given)
    except ValueError as error:
        raise problems.invalid("$.topic", str(error)) from None
    return topics.canonical_topic(pattern), scope or topics.default_scope(pattern)


def _instant(value: str | int | float | None, now: float, field: str) -> float | None:
    if value is None:
        return None
    try:
        return parse_instant(value, now)
    except ValueError as error:
        raise problems.invalid(field, str(error)) from None


def _beginning(value: str | int | float | None, now: float) -> float | None:
    """Of a subscription that is there already: the past is given when one is made."""
    from_s = _instant(value, now, "$.from")
    if from_s is not None and from_s < now - 1:
        raise problems.invalid("$.from", "the past is given to new subscriptions only; make another one")
    return from_s


def _check_window(record: SubscriptionRecord, now: float) -> SubscriptionRecord:
    if record.until_s is not None and record.until_s <= max(now, record.from_s or now):
        raise problems.invalid("$.until", "the window ends before it begins")
    return record
