"""The matcher: keeps its share of the subscriptions and answers every match request with one partial.

Invariants: every match request of an epoch that is answered here gets a partial, an empty one when nothing matches,
because the exit point counts partials; a subscription is in the index before its `Store` effect is returned, so
whatever is published after the acknowledgement finds it. During a scaling two epochs are answered, each with the
subscriptions that count in it (`shares.py`); what the matcher does for the scaling itself is in `scaling.py`.
"""

from collections.abc import Callable, Iterable
from heapq import nsmallest
from itertools import groupby

import msgspec

from braid.matching.index import IndexFullError
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
from services.matcher.effects import Answer, Continue, Effects, Erase, ExpectForeign, Store, WhenWritten
from services.matcher.holdings import Hidden, Holdings
from services.matcher.scaling import MatcherScaling

_ENDS_AT_ONCE = 200  # subscriptions that end in one tick; the others follow in the next
_REFUSE_AT_ONCE = 500
REQUESTS_KEPT_MAX = 20_000  # until every access point has passed the cut; what does not fit is sent again
REQUESTS_KEPT_S_MAX = 3.0  # then they are answered without the access points that have not passed it


class MatcherCore:
    def __init__(self, name: str, clock_ns: Callable[[], int]) -> None:
        self._name = name
        self._clock_ns = clock_ns  # only stamps the hops of traced publications
        self._holdings = Holdings()
        self._foreign_expected = False
        self._erasing = 0  # how often what was erased is not known to be erased on disk
        self._recovered = False  # what the store held has not been held against a configuration yet
        self._answers: list[Answer] = []  # until every access point has passed the cut
        self._requests: list[tuple[MatchRequest, int]] = []  # the same
        self.index = self._holdings.index
        self.scaling = MatcherScaling(name, self._holdings, self)
        self.stale = 0
        self.unreadable = 0
        self.refused = 0  # subscriptions that found the index full

    # Configuration

    def on_configuration(self, configuration: Configuration) -> Effects:
        return self.scaling.on_configuration(configuration)

    def on_recovered(self, records: Iterable[SubscriptionRecord], foreign_expected: bool = False) -> None:
        """What the store held when the process started, and whether some of it may belong to others."""
        self._holdings.recover(records)
        self._foreign_expected, self._recovered = foreign_expected, True

    def on_continue(self) -> Effects:
        """Goes on with what was put off so that messages had their turn."""
        effects = self.scaling.on_continue()
        if self._holdings.shares.refuse_left:
            effects.append(Erase(self._holdings.remove_refuse(_REFUSE_AT_ONCE), None))
            if self._holdings.shares.refuse_left:
                return [*effects, Continue()]
            self._erasing += 1
            effects.append(WhenWritten())
        if self._foreign_expected and self.scaling.change is None:
            self._foreign_expected = False
            effects.append(ExpectForeign(False))
        return effects

    @property
    def is_clean(self) -> bool:
        """Nothing that belongs to others is in the index, or was and is still on disk."""
        return not self._holdings.shares.refuse_left and not self._erasing

    def on_all_written(self) -> Effects:
        """The answer to `WhenWritten`."""
        self._erasing -= 1
        return self.scaling.on_clean()

    # Publications

    def on_match_requests(self, batch: list[MatchRequest], now_s: float, arrived_ns: int) -> Effects:
        effects: Effects = []
        for epoch, group in groupby(batch, lambda request: request.epoch):
            requests = list(group)
            selector = self.scaling.selector_of(epoch)
            if selector is None:
                self.stale += len(requests)
            elif self.scaling.must_wait_for_cut(epoch):
                room = REQUESTS_KEPT_MAX - len(self._requests)
                self._requests += [(request, arrived_ns) for request in requests[:room]]
            else:
                effects += self._match(selector, requests, now_s, arrived_ns)
        return effects

    def _match(
        self, selector: BroadcastSelector, requests: list[MatchRequest], now_s: float, arrived_ns: int
    ) -> list[Send]:
        exitpoints, fan = selector.exitpoints, len(selector.exitpoints)
        matches = self.index.match([content for request in requests for content in request.contents], now_s)
        self.unreadable += matches.unreadable
        hidden = self._hidden(selector.epoch)
        if hidden:
            matches = matches.without(hidden)
        partials: dict[str, list[Partial]] = {}
        first = 0
        for request in requests:
            last = first + len(request.contents)
            partial = Partial(
                request.epoch,
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

    # Subscriptions

    def on_subscribe(self, accesspoint: str, message: Subscribe) -> Effects:
        """One of the old epoch that comes behind `StartScale` says that the scaling was given up: we hear it late."""
        if not self._is_current(message.epoch):
            return []
        record = message.record
        hidden = self._hidden(message.epoch)
        before = self._holdings.get(record.id, hidden)
        try:
            self._holdings.put(record)
        except (IndexFullError, ValueError):
            # Full, or what no connection point of this version would have accepted.
            self.refused += 1  # not answered, so the connection point asks again and in the end says 503
            return []
        answer = SubscriptionStored(message.epoch, message.ref, message.connpoint, record.id)
        effects: Effects = [Store(record, Answer(accesspoint, answer))]
        if before is not None and before.home != record.home:
            effects.append(Send(accesspoint, [_gone(before, message.epoch)]))
        return effects

    def on_unsubscribe(self, accesspoint: str, message: Unsubscribe) -> Effects:
        if not self._is_current(message.epoch):
            return []
        removed = self._holdings.remove(message.id, self._hidden(message.epoch))
        answer = SubscriptionRemoved(message.epoch, message.ref, message.connpoint, message.id, removed is not None)
        effects: Effects = [Erase([message.id], Answer(accesspoint, answer))]
        if removed is not None:
            self._holdings.shares.discard(message.id)
            if removed.home != message.connpoint:
                effects.append(Send(accesspoint, [_gone(removed, message.epoch)]))
        return effects

    def on_written(self, answer: Answer) -> list[Send]:
        """What it answers is on disk. Behind the cut, answers wait until no publication can pass before it."""
        if self.scaling.must_hold_answer(answer.message.epoch):
            self._answers.append(answer)
            return []
        return [Send(answer.accesspoint, [answer.message])]

    def on_find_subscriptions(self, accesspoint: str, message: FindSubscriptions) -> Effects:
        if not self._is_current(message.epoch):
            return []
        records, cursor = self._holdings.page(message, self._hidden(message.epoch))
        answer = SubscriptionsFound(
            message.epoch, message.ref, message.connpoint, self._name, records, cursor, message.asked
        )
        return [Send(accesspoint, [answer])]

    def on_explain(self, accesspoint: str, message: Explain, now_s: float) -> Effects:
        """Nothing is published, so the index does not remember this content as the previous one of its topic."""
        if not self._is_current(message.epoch):
            return []
        ids: list[str] = []
        explanation = b""
        hidden = self._hidden(message.epoch)
        own = message.id if self._holdings.get(message.id, hidden) is not None else ""
        explained = self.index.explain(message.content, now_s, own)
        if explained is None:
            self.unreadable += 1  # answered nevertheless: the connection point waits for all matchers
        else:
            ids = [id for id in explained.ids if not any(id in others for others in hidden)]
            if explained.explanation is not None:
                explanation = msgspec.json.encode(explained.explanation)
        found = nsmallest(message.limit, ids)
        answer = Explained(
            message.epoch, message.ref, message.connpoint, self._name, found, len(ids), explanation, message.asked
        )
        return [Send(accesspoint, [answer])]

    def on_tick(self, now_s: float) -> Effects:
        """Nobody waits for ever for an access point that is away."""
        if not self._requests or now_s - self._requests[0][1] / 1e9 < REQUESTS_KEPT_S_MAX:
            return []
        requests, self._requests = self._requests, []
        return self._answer_kept(requests)

    def on_second(self, now_s: float) -> Effects:
        """Subscriptions whose window has passed are forgotten."""
        accesspoint, epoch = self.scaling.any_accesspoint()
        if not accesspoint:
            return []
        effects: Effects = []
        for record, counted in self._holdings.passed(now_s, _ENDS_AT_ONCE, self._hidden(epoch)):
            effects.append(Erase([record.id], None))
            if counted:  # else its home is told by the matcher where it counts, which may know another end
                effects.append(Send(accesspoint, [_gone(record, epoch)]))
        return effects

    # What the scaling asks for

    def on_cut(self, *, all_passed: bool) -> Effects:
        """What waited for it goes on; answers only when no access point can speak of the old epoch any more."""
        answers: list[Answer] = []
        if all_passed:
            answers, self._answers = self._answers, []
        requests, self._requests = self._requests, []
        effects: Effects = [Send(answer.accesspoint, [answer.message]) for answer in answers]
        return effects + self._answer_kept(requests)

    def _answer_kept(self, requests: list[tuple[MatchRequest, int]]) -> Effects:
        effects: Effects = []
        for request, arrived_ns in requests:
            selector = self.scaling.selector_of(request.epoch)
            if selector is not None:
                effects += self._match(selector, [request], arrived_ns / 1e9, arrived_ns)
        return effects

    def on_settled(self, selector: BroadcastSelector) -> Effects:
        """One epoch is left. The first time after a start, the store may hold what a scaling before it moved away."""
        if self._recovered and self._foreign_expected:
            self._holdings.throw_out_foreign(self._name, selector)
        self._recovered = False
        return [Continue()] if self._foreign_expected or self._holdings.shares.refuse_left else []

    def on_begun(self) -> Effects:
        self._foreign_expected = True
        return [ExpectForeign(True)]

    def on_refused(self, subscriptions: int) -> None:
        self.refused += subscriptions

    # Details

    def _hidden(self, epoch: int) -> Hidden:
        return self._holdings.shares.hidden(new_epoch=self.scaling.is_new(epoch))

    def _is_current(self, epoch: int) -> bool:
        if self.scaling.selector_of(epoch) is None:
            self.stale += 1
            return False
        return True


def _gone(record: SubscriptionRecord, epoch: int) -> SubscriptionGone:
    return SubscriptionGone(epoch, record.home, record.id)
