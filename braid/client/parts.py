"""The parts of a subscription, from arguments as Python has them to the document that is sent."""

from collections.abc import Mapping, Sequence
from typing import Any

Instant = str | int | float


def subscription_parts(
    filter: str | Mapping[str, Any],
    *,
    words: Sequence[str],
    topic: str,
    topic_scope: str,
    zone: Mapping[str, Any] | None,
    from_: Instant | None,
    until: Instant | None,
    distinct: bool = False,
) -> dict[str, Any]:
    """Only those that were given."""
    given: dict[str, Any] = {
        "filter": filter,
        "words": list(words),
        "topic": topic,
        "topic_scope": topic_scope,
        "zone": zone,
        "from": from_,
        "until": until,
        "distinct": distinct,
    }
    # Zero is an instant, and in Python the same as False.
    return {name: value for name, value in given.items() if value is not False and value not in (None, "", [])}
