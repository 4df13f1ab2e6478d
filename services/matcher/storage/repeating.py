"""RepQueries, the baseline: a publication is only written, a subscription is a query that is asked again every T_R.

A query asks for what was published from its last turn, included, to this one, excluded; its turns are T_S + k T_R. So
nothing comes twice, but what is published under an older time than the last turn, or expires before the next, is
missed: that is the weakness of the method. Queries are stored too, or they would end with the process.
"""

import heapq
import math
import struct
from collections.abc import Sequence
from pathlib import Path

from services.matcher.storage import keys
from services.matcher.storage.database import Write
from services.matcher.storage.list_storage import ListStorage
from services.matcher.storage.reading import WasGiven
from services.matcher.storage.records import (
    Cursor,
    Due,
    Filed,
    Kind,
    Matched,
    Reach,
    StoredPublication,
    StoredSubscription,
)
from services.matcher.storage.settings import StorageSettings

_ASKED_KEY = keys.NOTES_BEGIN + b"asked"
_moment = struct.Struct(">d")
_PIECE = 1000


class RepQueries(ListStorage):
    def __init__(self, root: Path, settings: StorageSettings, now_s: float, reach: Reach = Reach.SELF) -> None:
        """`reach` is that of all queries."""
        super().__init__(root, {Kind.SUBSCRIPTION: "queries", Kind.PUBLICATION: "publications"}, settings, now_s)
        self._reach = reach
        self._queries: dict[str, Filed] = {}
        self._turns: list[
            tuple[float, str, float]
        ] = []  # when, who, and its T_S: another one's turns are no more its own
        self._asked_s: float = self._subscriptions.reading(self._last_asked)
        after: Cursor | None = None
        while True:
            piece = self.read_piece(Kind.SUBSCRIPTION, now_s, after, _PIECE)
            self._add(piece.filed)
            after = piece.next
            if after is None:
                return

    def subscribe(
        self,
        subscription: StoredSubscription,
        lists: Sequence[bytes],
        now_s: float,
        *,
        reach: Reach = Reach.SELF,
        was_given: WasGiven | None = None,
    ) -> list[StoredPublication]:
        if subscription.distinct:
            raise ValueError("repeated queries do not know what was given already")
        if reach is not self._reach:
            raise ValueError(f"the reach of all queries is '{self._reach.value}'")
        past: list[StoredPublication] = []
        if subscription.from_s < subscription.made_s:
            until_s = min(subscription.made_s, subscription.until_s)
            past = self.get_data(lists, now_s, from_s=subscription.from_s, until_s=until_s, reach=reach)
        self.put([Filed(subscription, tuple(lists))], now_s)
        return past

    def publish(
        self,
        publication: StoredPublication,
        lists: Sequence[bytes],
        now_s: float,
        *,
        reach: Reach = Reach.SELF,
        previous_from_s: float | None = None,
        previous_limit: int | None = None,
    ) -> Matched:
        if previous_from_s is not None:
            raise ValueError("repeated queries are not joined with publications")
        self.put([Filed(publication, tuple(lists))], now_s)
        return Matched([], [])

    def put(self, filed: Sequence[Filed], now_s: float) -> int:
        late = super().put(filed, now_s)
        self._add(filed)
        return late

    def replace(self, subscription: StoredSubscription, lists: Sequence[bytes], now_s: float) -> None:
        super().replace(subscription, lists, now_s)
        self._queries.pop(subscription.id, None)  # the new one may have ended already
        self._add([Filed(subscription, tuple(lists))])

    def unsubscribe(self, ids: Sequence[str], now_s: float) -> int:
        for id in ids:
            self._queries.pop(id, None)
        return super().unsubscribe(ids, now_s)

    def forget(self, ids: Sequence[str], now_s: float) -> int:
        for id in ids:
            self._queries.pop(id, None)
        return super().forget(ids, now_s)

    def due(self, now_s: float) -> list[Due]:
        now_s = self._at(now_s)
        answers: list[Due] = []
        again: dict[str, tuple[float, str, float]] = {}  # by id: one that was replaced had its turns twice
        while self._turns and self._turns[0][0] <= now_s:
            _, id, made_s = heapq.heappop(self._turns)
            filed = self._queries.get(id)
            if filed is None or filed.record.made_s != made_s or id in again:
                continue
            subscription = filed.record
            assert isinstance(subscription, StoredSubscription)
            if subscription.until_s <= now_s:
                del self._queries[id]
                continue
            found = self._ask(subscription, filed.lists, now_s)
            if found:
                answers.append(Due(subscription, found))
            again[id] = (self._last_turn(made_s, now_s) + self._settings.repeat_s, id, made_s)
        for turn in again.values():
            heapq.heappush(self._turns, turn)
        if again:
            self._asked_s = now_s
            moment = keys.sealed(_ASKED_KEY, _moment.pack(now_s))
            self._subscriptions.base.write(Write(others=[(_ASKED_KEY, moment)]))
        return answers

    def _ask(self, subscription: StoredSubscription, lists: Sequence[bytes], now_s: float) -> list[StoredPublication]:
        from_s = max(self._last_turn(subscription.made_s, self._asked_s), subscription.from_s)
        until_s = min(self._last_turn(subscription.made_s, now_s), subscription.until_s)
        return self.get_data(lists, now_s, from_s=from_s, until_s=until_s, reach=self._reach)

    def _last_asked(self) -> float:
        notes = [base.get(_ASKED_KEY) for base in self._subscriptions.bases()]
        return max((_moment.unpack(note)[0] for note in notes if note is not None), default=-math.inf)

    def _last_turn(self, made_s: float, moment_s: float) -> float:
        if moment_s <= made_s:
            return made_s
        return made_s + (moment_s - made_s) // self._settings.repeat_s * self._settings.repeat_s

    def _add(self, filed: Sequence[Filed]) -> None:
        for one in filed:
            subscription = one.record
            if isinstance(subscription, StoredSubscription) and subscription.until_s > self._now_s:
                self._queries[subscription.id] = one
                turn = self._last_turn(subscription.made_s, self._asked_s) + self._settings.repeat_s
                heapq.heappush(self._turns, (turn, subscription.id, subscription.made_s))
