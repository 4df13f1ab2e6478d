"""A storage that is plainly right: everything in two dictionaries, looked at one by one."""

import math
from collections.abc import Sequence

from services.matcher.storage.keys import on_one_line
from services.matcher.storage.records import Filed, Kind, Reach, StoredPublication, StoredSubscription
from services.matcher.storage.settings import StorageSettings


class Model:
    def __init__(self, settings: StorageSettings) -> None:
        self.settings = settings
        self.subscriptions: dict[str, tuple[StoredSubscription, tuple[bytes, ...]]] = {}
        self.publications: dict[str, tuple[StoredPublication, tuple[bytes, ...]]] = {}
        self.asked_s = -math.inf

    # Lists

    @staticmethod
    def read_lists(own: Sequence[bytes], wanted: Sequence[bytes], reach: Reach) -> list[bytes]:
        """Those of a record's lists that a query looks into."""
        if reach is Reach.SELF:
            return [name for name in own if name in wanted]
        return [name for name in own if any(on_one_line(name, other) for other in wanted)]

    def data(
        self,
        lists: Sequence[bytes],
        now_s: float,
        reach: Reach,
        *,
        from_s: float = -math.inf,
        until_s: float = math.inf,
        limit: int | None = None,
    ) -> list[str]:
        found = [
            publication
            for publication, own in self.publications.values()
            if self.read_lists(own, lists, reach)
            and publication.expires_s > now_s
            and from_s <= publication.made_s < until_s
        ]
        return [one.id for one in sorted(found, key=lambda one: (-one.made_s, one.id))][:limit]

    def subscribers(self, lists: Sequence[bytes], published_s: float, now_s: float, reach: Reach) -> list[str]:
        found = [
            subscription
            for subscription, own in self.subscriptions.values()
            if self.read_lists(own, lists, reach)
            and subscription.until_s > now_s
            and subscription.from_s <= published_s < subscription.until_s
        ]
        return [one.id for one in sorted(found, key=lambda one: (-one.made_s, one.id))]

    # Operations

    def subscribe(
        self, subscription: StoredSubscription, lists: tuple[bytes, ...], now_s: float, reach: Reach
    ) -> list[str]:
        past: list[str] = []
        if subscription.from_s < now_s:
            past = self.data(lists, now_s, reach, from_s=subscription.from_s, until_s=subscription.until_s)
        if subscription.distinct:
            past = [id for id in past if not self._was_given(id, subscription, lists, now_s, reach)]
        self.put(Filed(subscription, lists), now_s)
        return past

    def _was_given(self, id: str, to: StoredSubscription, lists: tuple[bytes, ...], now_s: float, reach: Reach) -> bool:
        publication, in_lists = self.publications[id]
        for other, own in self.subscriptions.values():
            remember_s = self.settings.remember_s if other.distinct else 0
            if other.subscriber != to.subscriber or other.until_s + remember_s <= now_s:
                continue
            in_time = other.from_s <= publication.made_s < other.until_s
            meet = any(
                one == two or (reach is Reach.LINE and on_one_line(one, two))
                for one in self.read_lists(own, lists, reach)
                for two in self.read_lists(in_lists, lists, reach)
            )
            if in_time and meet:
                return True
        return False

    def put(self, filed: Filed, now_s: float) -> None:
        record, lists = filed.record, filed.lists
        if isinstance(record, StoredSubscription):
            if record.until_s > now_s:
                self.subscriptions[record.id] = (record, lists)
        else:
            expires_s = record.expires_s
            if math.isinf(expires_s):
                expires_s = record.made_s + self.settings.retention_s
            expires_s = min(expires_s, record.made_s + self.settings.retention_s_max)
            if expires_s > now_s:
                kept = StoredPublication(record.id, record.made_s, expires_s, record.body)
                self.publications[record.id] = (kept, lists)

    def unsubscribe(self, id: str, now_s: float) -> int:
        subscription, lists = self.subscriptions.get(id, (None, ()))
        if subscription is None or subscription.until_s <= now_s:
            return 0
        if subscription.distinct:
            ended = StoredSubscription(
                id, subscription.subscriber, subscription.made_s, subscription.from_s, now_s, True, subscription.body
            )
            self.subscriptions[id] = (ended, lists)
        else:
            del self.subscriptions[id]
        return 1

    def replace(self, filed: Filed, now_s: float) -> None:
        self.subscriptions.pop(filed.record.id, None)
        self.put(filed, now_s)

    def valid(self, kind: Kind, now_s: float) -> dict[str, tuple[bytes, ...]]:
        if kind is Kind.SUBSCRIPTION:
            return {id: lists for id, (one, lists) in self.subscriptions.items() if one.until_s > now_s}
        return {id: lists for id, (one, lists) in self.publications.items() if one.expires_s > now_s}

    def ended(self, now_s: float) -> dict[str, float]:
        """When they ended, of those distinct ones that are remembered."""
        remember_s = self.settings.remember_s
        return {
            id: one.until_s
            for id, (one, _) in self.subscriptions.items()
            if one.distinct and one.until_s <= now_s < one.until_s + remember_s
        }

    # Repeated queries

    def last_turn(self, made_s: float, moment_s: float) -> float:
        repeat_s = self.settings.repeat_s
        return made_s if moment_s <= made_s else made_s + (moment_s - made_s) // repeat_s * repeat_s

    def due(self, now_s: float, reach: Reach) -> dict[str, list[str]]:
        answers: dict[str, list[str]] = {}
        had_turn = False
        for id, (one, lists) in self.subscriptions.items():
            last, this = self.last_turn(one.made_s, self.asked_s), self.last_turn(one.made_s, now_s)
            if one.until_s <= now_s or this == last:
                continue
            had_turn = True
            from_s, until_s = max(last, one.from_s), min(this, one.until_s)
            found = self.data(lists, now_s, reach, from_s=from_s, until_s=until_s)
            if found:
                answers[id] = found
        if had_turn:
            self.asked_s = now_s
        return answers
