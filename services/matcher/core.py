"""The matcher: keeps its share of the subscriptions and answers every match request with one partial.

Invariants: every match request of an epoch that is answered here gets a partial, an empty one when nothing matches,
because the exit point counts partials; a subscription is in the index before its `Store` effect is returned, so
whatever is published after the acknowledgement finds it. During a scaling two epochs are answered, each with the
subscriptions that count in it (`shares.py`); what the matcher does for the scaling itself is in `scaling.py`.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from heapq import nsmallest
from itertools import groupby
from typing import TypeVar

import msgspec

from braid.anchors import text_of
from braid.matching.chains import Position
from braid.matching.index import IndexFullError
from braid.messages import (
    AnchorsKnown,
    ChangeMatcherOnExitPoint,
    Explain,
    Explained,
    FindPublications,
    FindSubscriptions,
    Kept,
    Match,
    MatchRequest,
    Partial,
    PreviousHandedOver,
    PublicationsFound,
    Send,
    Subscribe,
    SubscriptionGone,
    SubscriptionRemoved,
    SubscriptionsFound,
    SubscriptionStored,
    Unsubscribe,
)
from braid.selector import Selector
from braid.subscription import SubscriptionRecord
from braid.topology import Configuration
from services.matcher.beginnings import LateBeginnings, dated, noted
from services.matcher.calls import LatestCalls
from services.matcher.effects import (
    Answer,
    Continue,
    Effects,
    Erase,
    ExpectForeign,
    Forget,
    Search,
    Store,
    StorePrevious,
    WhenForgotten,
)
from services.matcher.ended import Ended
from services.matcher.holdings import Holdings
from services.matcher.keeping import Keeping
from services.matcher.past import QUESTIONS_MAX, Past
from services.matcher.scaling import MatcherScaling
from services.matcher.shares import Hidden
from services.matcher.transfer import Pace

Request = TypeVar("Request", MatchRequest, Subscribe, Unsubscribe)

_ENDS_AT_ONCE = 200  # subscriptions that end in one step; the others follow when messages have had their turn
_REFUSE_AT_ONCE = 100
_ANSWERED_AT_ONCE = 50  # requests that had to wait
REQUESTS_KEPT_MAX = 20_000  # until every access point has passed the cut; what does not fit is sent again
REQUESTS_KEPT_S_MAX = 3.0  # then they are answered without the access points that have not passed it
PREVIOUS_AWAITED_S_MAX = 10.0  # instead, where some are compared with what others remember: a matcher may start again


class MatcherCore:
    def __init__(
        self,
        name: str,
        clock_ns: Callable[[], int],
        pace: Pace | None = None,
        *,
        keeps_publications: bool = False,
        remember_s: float = 3600.0,
        incarnation: int = 0,
    ) -> None:
        self._name = name
        self._clock_ns = clock_ns  # for hops, for the end of distinct subscriptions, and for requests that have waited
        self._holdings = Holdings()
        self._foreign_expected = False
        self._forgetting = 0  # how often what is to be forgotten is not known to be off the disk
        self._recovered = False  # what the store held has not been held against a configuration yet
        self._answers: list[Answer] = []  # until every access point has passed the cut
        self._unannounced: dict[str, dict[tuple[str, int], Answer]] = {}  # until access points know the anchor
        self._requests: list[tuple[MatchRequest, int]] = []  # the same
        self.is_answering = False  # nobody is waited for any longer, and some of them are left
        self.keeps_publications = keeps_publications
        self._keeping = Keeping(name, is_on=keeps_publications)
        self._past = Past()
        self.ended = Ended(remember_s)
        self._late = LateBeginnings()
        self._questions: list[tuple[str, FindPublications]] = []  # until every access point has passed the cut
        self.index = self._holdings.index
        self.index.previous.watch()
        self.calls = LatestCalls()
        self.scaling = MatcherScaling(name, self._holdings, self, pace or Pace(), incarnation)
        self.stale = 0
        self.unreadable = 0
        self.refused = 0  # subscriptions that found the index full
        self._has_ends_left = False  # windows have passed, and the subscriptions are still there
        self.expired = 0  # subscriptions whose window has passed
        self.dropped = 0  # requests that found no room before the cut; connection points send them again
        # For telemetry: what each publication of a run matched, and when the run came.
        self.on_matched: Callable[[list[list[str]], int], None] | None = None

    # Configuration

    def on_configuration(self, configuration: Configuration) -> Effects:
        effects = self.scaling.on_configuration(configuration)
        if self._holdings.announcing.wants_to_go_on:
            effects.append(Continue())
        return effects + self._answer_announced(list(self._unannounced))

    def on_recovering(self, records: Iterable[SubscriptionRecord]) -> None:
        """Some of what the store held when the process started."""
        self._holdings.recover(records)

    def on_recovered(self, records: Iterable[SubscriptionRecord], foreign_expected: bool = False) -> None:
        """The rest of it, and whether some of all may belong to others."""
        self.on_recovering(records)
        self._foreign_expected, self._recovered = foreign_expected, True

    def on_previous_recovered(self, chains: Mapping[str, bytes]) -> None:
        """What the store remembered for `prev`, when all subscriptions are there."""
        self.index.previous.restore(chains)
        if not self.index.looks_back:
            self.index.previous.clear()

    def on_continue(self) -> Effects:
        """Goes on with what was put off so that messages had their turn."""
        announcing = self._holdings.announcing
        effects = self.answer_requests() if self.is_answering else []
        effects += self.scaling.on_continue() + self._remove_refuse()
        if self._has_ends_left:
            effects += self._end_some(self._clock_ns() / 1e9)
        effects += announcing.on_continue()
        if announcing.wants_to_go_on:
            effects.append(Continue())
        return effects

    def _remove_refuse(self) -> Effects:
        effects: Effects = []
        if self._holdings.shares.has_refuse:
            if ids := self._holdings.remove_refuse(_REFUSE_AT_ONCE):
                effects.append(Forget(ids))
            if self._holdings.shares.has_refuse:
                return [*effects, Continue()]
            self._forgetting += 1
            effects.append(WhenForgotten())
        is_settled = self.scaling.change is None and not self._recovered
        if self._foreign_expected and is_settled and not self.scaling.kept.is_relocating:
            self._foreign_expected = False
            effects.append(ExpectForeign(False))
        return effects

    @property
    def expects_foreign(self) -> bool:
        return self._foreign_expected

    @property
    def is_clean(self) -> bool:
        """Nothing that belongs to others is in the index, or was and is still on disk."""
        return not self._holdings.shares.has_refuse and not self._forgetting

    def on_all_forgotten(self) -> Effects:
        """The answer to `WhenForgotten`."""
        self._forgetting -= 1
        return self.scaling.on_clean()

    def taken(self, accesspoint: str, run: list[Request]) -> list[Request]:
        """Those publications and calls through this access point that are to be handled; connection points repeat the
        others through others.
        """
        epochs = {epoch for epoch in {message.epoch for message in run} if self.scaling.takes(accesspoint, epoch)}
        taken = [message for message in run if message.epoch in epochs]
        self.stale += len(run) - len(taken)
        return taken

    # Publications

    def on_match_requests(self, batch: list[MatchRequest], now_s: float, arrived_ns: int) -> Effects:
        effects: Effects = []
        for epoch, group in groupby(batch, lambda request: request.epoch):
            requests = list(group)
            selector = self.scaling.selector_of(epoch)
            if selector is None:
                self.stale += len(requests)
                continue
            for keep in self._keeping.keep(selector, requests):
                effects += [keep, *self.scaling.on_kept(keep.batches, now_s)]
            if self.is_answering or self.scaling.must_wait_for_cut(epoch) or self.scaling.must_wait_for_previous(epoch):
                kept = requests[: REQUESTS_KEPT_MAX - len(self._requests)]
                self._requests += [(request, arrived_ns) for request in kept]
                self.dropped += len(requests) - len(kept)
            else:
                sends = self._match(selector, requests, now_s, arrived_ns)
                effects += [*self._remember(), *self._keeping.behind(sends)]
        return effects

    def _remember(self) -> Effects:
        """What came before is looked back to also when this process has ended: so it is on disk before its partial
        leaves.
        """
        changes = self.scaling.previous.take_changes()
        return [] if changes is None else [StorePrevious(self._keeping.ticket(), changes)]

    @property
    def waits_for(self) -> int:
        """The ticket behind which the latest answers leave; 0 when they have left."""
        return self._keeping.waits_for

    def on_kept(self, ticket: int) -> list[Send]:
        """What `Keep` asked for is on disk, or there is no room for it: then it is at least delivered."""
        return self._keeping.on_kept(ticket)

    def on_previous_stored(self, stored: StorePrevious) -> list[Send]:
        sends = self._keeping.on_kept(stored.ticket)
        return sends + [
            Send(matcher, [PreviousHandedOver(stored.epoch, number)]) for matcher, number in stored.taken.items()
        ]

    def on_change_matcher_on_exit_point(self, accesspoint: str, message: ChangeMatcherOnExitPoint) -> list[Send]:
        return self.behind_partials(self.scaling.on_change_matcher_on_exit_point(accesspoint, message))

    def on_find_publications(self, accesspoint: str, message: FindPublications) -> Effects:
        if not self._is_current(message.epoch):
            return []
        if self.scaling.must_wait_for_cut(message.epoch):
            if len(self._questions) < QUESTIONS_MAX:
                self._questions.append((accesspoint, message))
            return []
        if not self._past.on_question(accesspoint, message):
            return []
        return [Search(accesspoint, message, self._keeping.under_way())]

    def on_searched(self, search: Search, found: list[Kept], reached_s: float | None) -> list[Send]:
        question = search.question
        self._past.on_over(question)
        answer = PublicationsFound(
            question.epoch,
            question.ref,
            question.connpoint,
            self._name,
            self._keeping.marked(found),
            search.under_way,
            reached_s,
            question.asked,
        )
        return [Send(search.accesspoint, [answer])]

    def on_not_searched(self, search: Search) -> None:
        """There was no room for it; it will be asked for again."""
        self._past.on_over(search.question)

    def _match(self, selector: Selector, requests: list[MatchRequest], now_s: float, arrived_ns: int) -> list[Send]:
        exitpoints, fan = selector.exitpoints, len(selector.exitpoints)
        contents = [content for request in requests for content in request.contents]
        matches = self.index.match(contents, now_s, positions=self._positions(requests))
        self.unreadable += matches.unreadable
        hidden = self._hidden(selector.epoch)
        if hidden:
            matches = matches.without(hidden)
        if self.on_matched is not None:
            self.on_matched(matches.ids(), arrived_ns)
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
                _in_places(matches.by_home(first, last), request.places),
                None if request.hops is None else [*request.hops, (self._name, arrived_ns, self._clock_ns())],
                request.asked,
                request.attempt,
            )
            partials.setdefault(exitpoints[request.publisher % fan], []).append(partial)
            first = last
        return [Send(exitpoint, messages) for exitpoint, messages in partials.items()]

    def _positions(self, requests: list[MatchRequest]) -> list[Position] | None:
        """Sent again, a batch is judged by what came before it the first time."""
        if not self.index.looks_back:
            return None
        for request in requests:
            self.index.on_confirmed(request.origin, request.watermark)
        return [
            Position(request.origin, request.sequence, place)
            for request in requests
            for place in (range(len(request.contents)) if request.places is None else request.places)
        ]

    # Subscriptions

    def on_subscribe(self, accesspoint: str, message: Subscribe) -> Effects:
        """One of the old epoch that comes behind `StartScale` says that the scaling was given up: we hear it late."""
        if not self._is_current(message.epoch):
            return []
        record = message.record
        answer = SubscriptionStored(message.epoch, message.ref, message.connpoint, record.id)
        if not self.calls.take(record.id, message.connpoint, message.ref):
            return [Send(accesspoint, [answer])]
        before = self._holdings.get(record.id, self._hidden(message.epoch))
        if message.given_from_s is None:
            record = dated(record, before, self._clock_ns() / 1e9)
            begins = record.given_from_s < math.inf and (before is None or before.given_from_s != record.given_from_s)
        elif before is None:
            return [Send(accesspoint, [answer])]  # it has ended meanwhile
        else:
            record, begins = noted(before, message.given_from_s), False
        is_new = record.id not in self.index
        try:
            self._holdings.put(record)
        except (IndexFullError, ValueError):
            # Full, or what no connection point of this version would have accepted.
            self.refused += 1  # not answered, so the connection point asks again and in the end says 503
            return []
        anchor = text_of(record) if self._holdings.announcing.is_on else ""
        if begins and self._may_be_late(message.epoch, anchor):
            self._late.expect((message.connpoint, message.ref), record)
        effects: Effects = [
            Store(record, Answer(accesspoint, answer, anchor), is_new),
            *self._holdings.announcing.changes(),
        ]
        effects += self.scaling.on_changed(record.id)
        if before is not None and before.home != record.home:
            effects.append(Send(accesspoint, [_gone(before, message.epoch)]))
        return effects

    def on_unsubscribe(self, accesspoint: str, message: Unsubscribe) -> Effects:
        if not self._is_current(message.epoch):
            return []
        if not self.calls.take(message.id, message.connpoint, message.ref):
            answer = SubscriptionRemoved(message.epoch, message.ref, message.connpoint, message.id, False)
            return [Send(accesspoint, [answer])]
        removed = self._holdings.remove(message.id, self._hidden(message.epoch))
        answer = SubscriptionRemoved(message.epoch, message.ref, message.connpoint, message.id, removed is not None)
        effects: Effects = [Erase([message.id], Answer(accesspoint, answer)), *self.scaling.on_changed(message.id)]
        if removed is not None:
            ended = self.ended.note(self._late.applied(removed), self._clock_ns() / 1e9)
            effects += self.scaling.kept.on_ended(ended)
            self._holdings.shares.discard(message.id)
            effects += self._holdings.announcing.changes()
            if removed.home != message.connpoint:
                effects.append(Send(accesspoint, [_gone(removed, message.epoch)]))
        return effects

    def on_written(self, answer: Answer) -> list[Send]:
        """What it answers is on disk. Behind the cut, answers wait until no publication can pass before it."""
        if self.scaling.must_hold_answer(answer.message.epoch):
            self._answers.append(answer)
            return []
        return self._answer(answer)

    def _answer(self, answer: Answer) -> list[Send]:
        """A publication that comes behind the acknowledgement must find its way here."""
        if answer.anchor and not self._holdings.announcing.is_known(answer.anchor):
            waiting = self._unannounced.setdefault(answer.anchor, {})
            waiting[answer.message.connpoint, answer.message.ref] = answer
            return []
        return self._acknowledge([answer])

    def _acknowledge(self, answers: list[Answer]) -> list[Send]:
        now_s = self._clock_ns() / 1e9
        for answer in answers:
            self._late.on_acknowledged((answer.message.connpoint, answer.message.ref), answer.message.id, now_s)
        return [Send(answer.accesspoint, [answer.message]) for answer in answers]

    def _may_be_late(self, epoch: int, anchor: str) -> bool:
        return self.scaling.is_new(epoch) or (anchor != "" and not self._holdings.announcing.is_known(anchor))

    def on_accesspoint_up(self, accesspoint: str) -> Effects:
        """The list that begins names only what is kept: of what was removed meanwhile nobody will say it is known."""
        sends = self._holdings.announcing.on_accesspoint_up(accesspoint)
        return [*sends, *self._answer_announced(list(self._unannounced))]

    def on_anchors_known(self, accesspoint: str, message: AnchorsKnown) -> Effects:
        sends, anchors = self._holdings.announcing.on_known(accesspoint, message)
        return [*sends, *self._answer_announced(anchors), *self.scaling.on_told()]

    def _answer_announced(self, anchors: Iterable[str]) -> Effects:
        known = [a for a in anchors if a in self._unannounced and self._holdings.announcing.is_known(a)]
        return self._acknowledge([answer for anchor in known for answer in self._unannounced.pop(anchor).values()])

    def on_find_subscriptions(self, accesspoint: str, message: FindSubscriptions) -> Effects:
        if not self._is_current(message.epoch):
            return []
        if message.ended:
            records, cursor = self.ended.of(message.subscriber)[-message.limit :], ""
        else:
            records, cursor = self._holdings.page(message, self._hidden(message.epoch))
            records = [self._late.applied(record) for record in records]
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
        """Nobody waits for ever for an access point or a matcher that is away."""
        effects = self.scaling.kept.on_tick(now_s)
        kept_s_max = PREVIOUS_AWAITED_S_MAX if self.scaling.previous.is_awaited else REQUESTS_KEPT_S_MAX
        if self.is_answering or not self._requests or now_s - self._requests[0][1] / 1e9 < kept_s_max:
            return effects
        effects += self.scaling.previous.give_up_waiting()
        return effects + self.answer_requests()

    def on_second(self, now_s: float) -> Effects:
        """What has lasted long enough is forgotten, and subscriptions whose window has passed end."""
        self.calls.on_second(now_s)
        self.ended.on_second(now_s)
        effects: Effects = [*self.scaling.kept.on_second(), *self.scaling.previous.begin_pass(), *self._remember()]
        return effects + self._end_some(now_s)

    def _end_some(self, now_s: float) -> Effects:
        """In the moments of a scaling in which calls wait it does not add to what they wait for."""
        self._has_ends_left = False
        accesspoint, epoch = self.scaling.any_accesspoint()
        if not accesspoint or self.scaling.is_in_a_hurry:
            return []
        passed = self._holdings.passed(now_s, _ENDS_AT_ONCE, self._hidden(epoch))
        # The home of one that does not count is told by the matcher where it does, which may know another end.
        gone = [_gone(record, epoch) for record, counted in passed if counted]
        self.expired += len(gone)
        effects: Effects = [Erase([record.id for record, _ in passed], None)] if passed else []
        for record, _ in passed:
            effects += self.scaling.kept.on_ended(self.ended.note(self._late.applied(record), now_s))
        if gone:
            effects.append(Send(accesspoint, list(gone)))
        effects += self._holdings.announcing.changes()
        if self._holdings.has_passed(now_s):
            self._has_ends_left = True
            effects.append(Continue())
        return effects

    def on_expired(self, ids: list[str], now_s: float) -> Effects:
        """The store has let go of these. The index knew the same end and has most likely forgotten them before."""
        left = [record for record in map(self.index.get, ids) if record is not None]
        return self._end_some(now_s) if any(one.until_s is not None and one.until_s <= now_s for one in left) else []

    # What the scaling asks for

    def on_cut(self, *, all_passed: bool) -> Effects:
        """What waited for it goes on; answers only when no access point can speak of the old epoch any more."""
        answers: list[Answer] = []
        if all_passed:
            answers, self._answers = self._answers, []
        questions, self._questions = self._questions, []
        effects: Effects = [send for answer in answers for send in self._answer(answer)]
        if not self.scaling.previous.is_awaited:
            effects += self.answer_requests()
        for accesspoint, question in questions:
            effects += self.on_find_publications(accesspoint, question)
        return effects

    def answer_requests(self) -> Effects:
        """Some of those that were kept; the others follow, and whatever comes meanwhile waits behind them.

        They have waited for seconds, so windows count as they are now.
        """
        some, self._requests = self._requests[:_ANSWERED_AT_ONCE], self._requests[_ANSWERED_AT_ONCE:]
        self.is_answering = bool(self._requests)
        now_s = self._clock_ns() / 1e9
        sends: list[Send] = []
        for (epoch, arrived_ns), group in groupby(some, lambda kept: (kept[0].epoch, kept[1])):
            selector = self.scaling.selector_of(epoch)
            if selector is not None:
                sends += self._match(selector, [request for request, _ in group], now_s, arrived_ns)
        effects = [*self._remember(), *self._keeping.behind(sends)]
        return [*effects, Continue()] if self.is_answering else effects

    def behind_partials(self, sends: list[Send]) -> list[Send]:
        return self._keeping.behind(sends)

    def on_settled(self, selector: Selector) -> Effects:
        """One epoch is left. The first time after a start, the store may hold what a scaling before it moved away."""
        if self._recovered and self._foreign_expected:
            self._holdings.throw_out_foreign(self._name, selector)
        self._recovered = False
        return [Continue()] if self._foreign_expected or self._holdings.shares.has_refuse else []

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


def _in_places(matched: list[tuple[str, list[Match]]], places: list[int] | None) -> list[tuple[str, list[Match]]]:
    """Places count in the whole batch, of which a request may bring a part."""
    if places is None:
        return matched
    return [(home, [(places[place], ids, content) for place, ids, content in found]) for home, found in matched]


def _gone(record: SubscriptionRecord, epoch: int) -> SubscriptionGone:
    return SubscriptionGone(epoch, record.home, record.id)
