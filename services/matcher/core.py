"""The matcher: keeps its share of the subscriptions and answers every match request with one partial.

Invariants: every match request of the epoch in force is answered, with an empty partial when nothing matches, because
the exit point counts partials; a subscription is in the index before its `Store` effect is returned, so whatever is
published after the acknowledgement finds it.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import islice

import msgspec

from braid.content import DECODE_ERRORS, decode_matchable
from braid.messages import (
    FindSubscriptions,
    Match,
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
from services.matcher.index import SubscriptionIndex

_PAGE_BYTES_MAX = 1024 * 1024
_ENDS_AT_ONCE = 1000  # subscriptions that end in one tick; the others follow in the next
_PAGE_LOOKS_MAX = 20_000  # a page must not hold up matching


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
        self._ends: list[tuple[float, str]] = []  # a heap: when the window of which subscription ends
        self._sorted_ids: list[str] | None = None  # made when a page is asked for, dropped by any change
        self.index = SubscriptionIndex()
        self.stale = 0
        self.unreadable = 0

    def on_configuration(self, configuration: Configuration) -> None:
        self._selector = BroadcastSelector(configuration)

    def on_recovered(self, records: Iterable[SubscriptionRecord]) -> None:
        """What the store held when the process started."""
        for record in records:
            self._add(record)
        self._sorted_ids = None

    def on_match_requests(self, batch: list[MatchRequest], now_s: float, arrived_ns: int) -> list[Send]:
        selector = self._selector
        if selector is None:
            self.stale += len(batch)
            return []
        epoch = selector.epoch
        exitpoints, fan = selector.exitpoints, len(selector.exitpoints)
        partials: dict[str, list[Partial]] = {}
        for request in batch:
            if request.epoch != epoch:
                self.stale += 1
                continue
            partial = Partial(
                epoch,
                request.origin,
                request.sequence,
                request.previous,
                request.watermark,
                request.partials,
                self._name,
                self._match(request.contents, now_s),
                None if request.hops is None else [*request.hops, (self._name, arrived_ns, self._clock_ns())],
            )
            partials.setdefault(exitpoints[request.publisher % fan], []).append(partial)
        return [Send(exitpoint, messages) for exitpoint, messages in partials.items()]

    def _match(self, contents: list[bytes], now_s: float) -> list[tuple[str, list[Match]]]:
        """The matches of one batch by connection point, each in the order of the batch."""
        by_home: defaultdict[str, list[Match]] = defaultdict(list)
        match = self.index.match
        for place, content in enumerate(contents):
            try:
                readable = decode_matchable(content)
            except DECODE_ERRORS:
                # Only a connection point of another version could have written it; it must not stop the others.
                self.unreadable += 1
                continue
            if readable.expires is not None and readable.expires.timestamp() <= now_s:
                continue
            matched = match(readable.attributes, now_s)
            if len(matched) == 1:
                record = matched[0]
                by_home[record.home].append((place, [record.id], content))
            elif matched:
                ids_by_home: defaultdict[str, list[str]] = defaultdict(list)
                for record in matched:
                    ids_by_home[record.home].append(record.id)
                for home, ids in ids_by_home.items():
                    by_home[home].append((place, ids, content))
        return list(by_home.items())

    def on_subscribe(self, message: Subscribe) -> list[Effect]:
        if not self._is_current(message.epoch):
            return []
        record = message.record
        before = self.index.get(record.id)
        self._add(record)
        if before is None:
            self._sorted_ids = None
        answer = SubscriptionStored(message.epoch, message.ref, message.connpoint, record.id)
        effects: list[Effect] = [Store(record, Send(message.connpoint, [answer]))]
        if before is not None and before.home != record.home:
            effects.append(self._gone(before, message.epoch))
        return effects

    def on_unsubscribe(self, message: Unsubscribe) -> list[Effect]:
        if not self._is_current(message.epoch):
            return []
        removed = self.index.remove(message.id)
        self._sorted_ids = None
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

    def on_tick(self, now_s: float) -> list[Effect]:
        """Subscriptions whose window has passed are forgotten."""
        if self._selector is None:
            return []
        effects: list[Effect] = []
        while self._ends and self._ends[0][0] <= now_s and len(effects) < 2 * _ENDS_AT_ONCE:
            _, id = heappop(self._ends)
            record = self.index.get(id)
            # It may have been removed or given another end meanwhile, which then has an entry of its own.
            if record is not None and record.until_s is not None and record.until_s <= now_s:
                self.index.remove(id)
                self._sorted_ids = None
                effects += [Erase(id, None), self._gone(record, self._selector.epoch)]
        return effects

    def _add(self, record: SubscriptionRecord) -> None:
        self.index.add(record)
        if record.until_s is not None:
            heappush(self._ends, (record.until_s, record.id))

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
                self._sorted_ids = sorted(record.id for record in self.index)
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
