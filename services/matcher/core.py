"""The matcher: keeps its share of the subscriptions and answers every match request with one partial.

Invariants: every match request of the epoch in force is answered, with an empty partial when nothing matches, because
the exit point counts partials; a subscription is in the index before its `Store` effect is returned, so whatever is
published after the acknowledgement finds it.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable
from heapq import nsmallest
from itertools import islice

import msgspec

from braid.matching.index import IndexFullError, MatchIndex
from braid.messages import (
    Explain,
    Explained,
    FindSubscriptions,
    MatchRequest,
    Partial,
    Send,
    Subscribe,
    SubscriptionGone,
    SubscriptionRemoved,
    SubscriptionsFound,
    SubscriptionStored,
    Unsubscribe,
)
from braid.selector import BroadcastSelector
from braid.subscription import SubscriptionRecord
from braid.topology import Configuration
from services.matcher.endings import Endings

_PAGE_BYTES_MAX = 1024 * 1024
_ENDS_AT_ONCE = 200  # subscriptions that end in one tick; the others follow in the next
_PAGE_LOOKS_MAX = 5_000  # a page must not hold up matching


class Store(msgspec.Struct, frozen=True):
    """Ordering duty: `then` is performed only when the record is written."""

    record: SubscriptionRecord
    then: Send


class Erase(msgspec.Struct, frozen=True):
    """Ordering duty: `then` is performed only when the record is erased."""

    id: str
    then: Send | None


Effect = Send | Store | Erase


class MatcherCore:
    def __init__(self, name: str, clock_ns: Callable[[], int]) -> None:
        self._name = name
        self._clock_ns = clock_ns  # only stamps the hops of traced publications
        self._selector: BroadcastSelector | None = None
        self._endings = Endings()
        self._sorted_ids: list[str] | None = None  # made when a page is asked for, kept sorted from then on
        self.index = MatchIndex()
        self.stale = 0
        self.unreadable = 0
        self.refused = 0  # subscriptions that found the index full

    def on_configuration(self, configuration: Configuration) -> None:
        self._selector = BroadcastSelector(configuration)

    def on_recovered(self, records: Iterable[SubscriptionRecord]) -> None:
        """What the store held when the process started."""
        known = list(records)
        self.index.add_many(known)
        for record in known:
            self._endings.note(record)
        self._sorted_ids = None

    def on_match_requests(self, batch: list[MatchRequest], now_s: float, arrived_ns: int) -> list[Send]:
        selector = self._selector
        if selector is None:
            self.stale += len(batch)
            return []
        epoch = selector.epoch
        exitpoints, fan = selector.exitpoints, len(selector.exitpoints)
        current = [request for request in batch if request.epoch == epoch]
        self.stale += len(batch) - len(current)
        matches = self.index.match([content for request in current for content in request.contents], now_s)
        self.unreadable += matches.unreadable
        partials: dict[str, list[Partial]] = {}
        first = 0
        for request in current:
            last = first + len(request.contents)
            partial = Partial(
                epoch,
                request.origin,
                request.sequence,
                request.previous,
                request.watermark,
                request.publisher,
                request.partials,
                self._name,
                matches.by_home(first, last),
                None if request.hops is None else [*request.hops, (self._name, arrived_ns, self._clock_ns())],
            )
            partials.setdefault(exitpoints[request.publisher % fan], []).append(partial)
            first = last
        return [Send(exitpoint, messages) for exitpoint, messages in partials.items()]

    def on_subscribe(self, message: Subscribe) -> list[Effect]:
        if not self._is_current(message.epoch):
            return []
        record = message.record
        before = self.index.get(record.id)
        try:
            self.index.add(record)
        except (IndexFullError, ValueError):
            # Full, or what no connection point of this version would have accepted.
            self.refused += 1  # not answered, so the connection point asks again and in the end says 503
            return []
        self._endings.note(record)
        if before is None and self._sorted_ids is not None:
            insort(self._sorted_ids, record.id)
        answer = SubscriptionStored(message.epoch, message.ref, message.connpoint, record.id)
        effects: list[Effect] = [Store(record, Send(message.connpoint, [answer]))]
        if before is not None and before.home != record.home:
            effects.append(self._gone(before, message.epoch))
        return effects

    def on_unsubscribe(self, message: Unsubscribe) -> list[Effect]:
        if not self._is_current(message.epoch):
            return []
        removed = self.index.remove(message.id)
        self._endings.forget(message.id)
        if removed is not None:
            self._forget_sorted(message.id)
        answer = SubscriptionRemoved(message.epoch, message.ref, message.connpoint, message.id, removed is not None)
        effects: list[Effect] = [Erase(message.id, Send(message.connpoint, [answer]))]
        if removed is not None and removed.home != message.connpoint:
            effects.append(self._gone(removed, message.epoch))
        return effects

    def on_find_subscriptions(self, message: FindSubscriptions) -> list[Effect]:
        if not self._is_current(message.epoch):
            return []
        records, cursor = self._page(message)
        answer = SubscriptionsFound(message.epoch, message.ref, message.connpoint, self._name, records, cursor)
        return [Send(message.connpoint, [answer])]

    def on_explain(self, message: Explain, now_s: float) -> list[Effect]:
        """Nothing is published, so the index does not remember this content as the previous one of its topic."""
        if not self._is_current(message.epoch):
            return []
        ids: list[str] = []
        explanation = b""
        explained = self.index.explain(message.content, now_s, message.id)
        if explained is None:
            self.unreadable += 1  # answered nevertheless: the connection point waits for all matchers
        else:
            ids = explained.ids
            if explained.explanation is not None:
                explanation = msgspec.json.encode(explained.explanation)
        found = nsmallest(message.limit, ids)
        answer = Explained(message.epoch, message.ref, message.connpoint, self._name, found, len(ids), explanation)
        return [Send(message.connpoint, [answer])]

    def on_tick(self, now_s: float) -> list[Effect]:
        """Subscriptions whose window has passed are forgotten."""
        if self._selector is None:
            return []
        effects: list[Effect] = []
        for id in islice(self._endings.passed(now_s), _ENDS_AT_ONCE):
            record = self.index.remove(id)
            assert record is not None, "what was removed has no end any more"
            self._forget_sorted(id)
            effects += [Erase(id, None), self._gone(record, self._selector.epoch)]
        return effects

    def _forget_sorted(self, id: str) -> None:
        if self._sorted_ids is not None:
            del self._sorted_ids[bisect_left(self._sorted_ids, id)]

    def _gone(self, record: SubscriptionRecord, epoch: int) -> Send:
        return Send(record.home, [SubscriptionGone(epoch, record.home, record.id)])

    def _page(self, asked: FindSubscriptions) -> tuple[list[SubscriptionRecord], str]:
        """Records in the order of their ids, and where to go on; looks at a bounded number of them."""
        if asked.id:
            record = self.index.get(asked.id)
            return ([] if record is None else [record]), ""
        if asked.subscriber:
            ids = sorted(self.index.ids_of(asked.subscriber))
        else:
            if self._sorted_ids is None:
                self._sorted_ids = sorted(self.index.ids())
            ids = self._sorted_ids
        found: list[SubscriptionRecord] = []
        size = 0
        start = bisect_right(ids, asked.after)
        for id in islice(ids, start, start + _PAGE_LOOKS_MAX):
            record = self.index.get(id)
            if record is not None and (not asked.home or record.home == asked.home):
                found.append(record)
                size += len(record.filter) + 200
                if len(found) >= asked.limit or size > _PAGE_BYTES_MAX:
                    return found, id
        return found, ids[start + _PAGE_LOOKS_MAX - 1] if start + _PAGE_LOOKS_MAX < len(ids) else ""

    def _is_current(self, epoch: int) -> bool:
        if self._selector is None or self._selector.epoch != epoch:
            self.stale += 1
            return False
        return True
