"""Why a subscription does or does not match a publication, in a form for people and programs.

These are only the shapes; `pair_explanation.py` fills them. Clients use them too, so this module stays light.
"""

import msgspec

Seen = str | bool | int | float | None


class FilterStep(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One node of a filter, and the nodes below it."""

    text: str  # "and", "or", "not", or a predicate as it is written
    holds: bool
    saw: str = ""  # of a predicate: "value is 12", "value is missing", "value is a string, not a number"
    values: dict[str, Seen] = {}  # of a predicate: what it looked at; null is missing
    steps: list["FilterStep"] = []


class PartExplained(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One part of the subscription, or the expiry of the publication."""

    part: str  # "expires", "window", "filter", "words", "topic" or "zone"
    holds: bool
    wants: str  # what the part demands
    saw: str = ""  # what the publication has, or what time it was
    reasons: list[str] = []  # why it does not hold; empty when it does
    filter: FilterStep | None = None
    missing: list[str] = []  # of the words: the stems that the text does not have
    distance_m: float | None = None  # of the zone: how far apart the two are


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    subscription: str
    matches: bool
    failed: list[str]  # the names of the parts that do not hold
    parts: list[PartExplained]  # those that there are, in the order they are looked at


class MatchExplanation(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The answer to `POST /v1/explain`."""

    matches: list[str]  # ids of subscriptions, sorted; at most a thousand
    count: int  # of all that match
    explanation: Explanation | None = None  # when a subscription was asked about
