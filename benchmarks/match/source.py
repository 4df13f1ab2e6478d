"""What every workload gives: subscriptions without end and publications, the same ones at every run."""

import random
from collections.abc import Iterator
from typing import Any, Protocol

from braid.content import Content, encode_content
from braid.subscription import SubscriptionRecord

NOW_S = 1_700_000_000.0  # the clock of the benchmark stands still
_SUBSCRIBERS = 1000


class Source(Protocol):
    def subscriptions(self) -> Iterator[SubscriptionRecord]:
        """Never ends; the first ones are those of the size the source was made for."""

    def contents(self, count: int) -> list[bytes]:
        """Publications as they travel, in the canonical form."""


def seeded(*parts: object) -> random.Random:
    """Random numbers that depend on these words alone."""
    return random.Random("/".join(map(str, parts)))


def record(number: int, filter: str = "", **parts: Any) -> SubscriptionRecord:
    return SubscriptionRecord(
        id=f"subscription-{number}",
        subscriber=f"subscriber-{number % _SUBSCRIBERS}",
        home="connpoint-1",
        filter=filter,
        created_s=NOW_S - 60,
        **parts,
    )


def content(number: int, **parts: Any) -> bytes:
    return encode_content(Content(id=f"publication-{number}", **parts))
