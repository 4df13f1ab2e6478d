"""A subscription: as a client writes it, and as it is stored."""

from typing import Any

import msgspec

from braid import problems
from braid.config import Limits
from braid.filters import Filter, FilterError, from_json, parse, print_filter
from braid.instants import format_instant, parse_instant


class Subscription(msgspec.Struct, forbid_unknown_fields=True, rename={"from_": "from"}):
    """What `POST /v1/subscriptions` and the WebSocket `subscribe` take."""

    filter: str | dict[str, Any] = ""
    words: list[str] = []
    topic: str = ""
    topic_scope: str = ""
    zone: dict[str, Any] | None = None
    from_: str | int | float | None = None
    until: str | int | float | None = None
    distinct: bool = False
    subscriber: str = ""


class SubscriptionPatch(msgspec.Struct, forbid_unknown_fields=True, rename={"from_": "from"}):
    """What `PATCH /v1/subscriptions/{id}` takes; what is absent stays as it is, null removes a bound."""

    filter: str | dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    zone: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    from_: str | int | float | msgspec.UnsetType | None = msgspec.UNSET
    until: str | int | float | msgspec.UnsetType | None = msgspec.UNSET


class SubscriptionRecord(msgspec.Struct, array_like=True, frozen=True):
    """A checked subscription, as it travels and is stored."""

    id: str
    subscriber: str
    home: str  # the connection point that delivers it
    filter: str  # canonical text; empty matches every publication
    created_s: float
    from_s: float | None = None
    until_s: float | None = None
    temporary: bool = False  # goes away with its subscriber's connection

    def public(self) -> dict[str, Any]:
        """As clients see it."""
        shown: dict[str, Any] = {"id": self.id, "subscriber": self.subscriber, "connpoint": self.home}
        if self.filter:
            shown["filter"] = self.filter
        if self.from_s is not None:
            shown["from"] = format_instant(self.from_s)
        if self.until_s is not None:
            shown["until"] = format_instant(self.until_s)
        if self.temporary:
            shown["temporary"] = True
        shown["created"] = format_instant(self.created_s)
        return shown


decode_subscription = msgspec.json.Decoder(Subscription).decode
decode_subscription_patch = msgspec.json.Decoder(SubscriptionPatch).decode

_LATER_PARTS = {
    "words": "matching by words is not available yet",
    "topic": "matching by topic is not available yet; filter on an attribute instead",
    "topic_scope": "matching by topic is not available yet",
    "zone": "matching by zone is not available yet",
    "distinct": "'distinct' is not available yet",
}


def check_subscription(
    given: Subscription, limits: Limits, now: float, *, id: str, subscriber: str, home: str, temporary: bool
) -> SubscriptionRecord:
    """The record of a subscription, or the `Problem` that names the first wrong field."""
    for field, detail in _LATER_PARTS.items():
        if getattr(given, field):
            raise problems.unsupported(f"$.{field}", detail)
    if len(subscriber) > limits.name_length_max:
        raise problems.limit_exceeded("limits.name_length_max", limits.name_length_max, len(subscriber), "$.subscriber")
    record = SubscriptionRecord(
        id=id,
        subscriber=subscriber,
        home=home,
        filter=canonical_filter(given.filter, limits),
        created_s=now,
        from_s=_beginning(given.from_, now),
        until_s=_instant(given.until, now, "$.until"),
        temporary=temporary,
    )
    return _check_window(record, now)


def apply_patch(record: SubscriptionRecord, patch: SubscriptionPatch, limits: Limits, now: float) -> SubscriptionRecord:
    """The record after a change; the same checks as for a new one."""
    if patch.zone is not msgspec.UNSET:
        raise problems.unsupported("$.zone", _LATER_PARTS["zone"])
    changes: dict[str, Any] = {}
    if patch.filter is not msgspec.UNSET:
        changes["filter"] = canonical_filter(patch.filter, limits)
    if patch.from_ is not msgspec.UNSET:
        changes["from_s"] = _beginning(patch.from_, now)
    if patch.until is not msgspec.UNSET:
        changes["until_s"] = _instant(patch.until, now, "$.until")
    if not changes:
        raise problems.invalid("$", "expected at least one of 'filter', 'from', 'until'")
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


def _instant(value: str | int | float | None, now: float, field: str) -> float | None:
    if value is None:
        return None
    try:
        return parse_instant(value, now)
    except ValueError as error:
        raise problems.invalid(field, str(error)) from None


def _beginning(value: str | int | float | None, now: float) -> float | None:
    """Only where a client asks for the past: the beginning of an older subscription passes by itself."""
    from_s = _instant(value, now, "$.from")
    if from_s is not None and from_s < now - 1:
        raise problems.unsupported("$.from", "publications of the past are not kept yet; leave out 'from'")
    return from_s


def _check_window(record: SubscriptionRecord, now: float) -> SubscriptionRecord:
    if record.until_s is not None and record.until_s <= max(now, record.from_s or now):
        raise problems.invalid("$.until", "the window ends before it begins")
    return record
