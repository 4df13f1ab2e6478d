"""The publications that a fake door keeps, and which of them match: by the meaning of a subscription, one by one."""

import math

import msgspec

from braid.config import Limits
from braid.matching.meaning import accepts, read_publication
from braid.subscription import Subscription, SubscriptionRecord, check_question
from services.connpoint.door import KeptPublication


class KeptPublications:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._kept: list[KeptPublication] = []

    def add(self, content: bytes, published_s: float) -> None:
        """A test may also say that something was published long ago."""
        self._kept.append(KeptPublication(published_s, content))
        self._kept.sort(key=lambda kept: kept.published_s)

    def find_wanted(self, wanted: Subscription, now_s: float) -> list[KeptPublication]:
        """The newest first. Raises the `Problem` that names the first wrong field."""
        record, from_s, until_s = check_question(wanted, self._limits, now_s)
        return self._find(record, from_s, until_s, now_s)

    def find_past(self, record: SubscriptionRecord, now_s: float) -> list[KeptPublication]:
        assert record.from_s is not None
        always = msgspec.structs.replace(record, from_s=None, until_s=None)
        return self._find(always, record.from_s, math.inf, now_s)

    def _find(self, record: SubscriptionRecord, from_s: float, until_s: float, now_s: float) -> list[KeptPublication]:
        """The window is about when they were published, expiry about now."""
        return [
            kept
            for kept in reversed(self._kept)
            if from_s <= kept.published_s < until_s and accepts(record, read_publication(kept.content), None, now_s)
        ]
