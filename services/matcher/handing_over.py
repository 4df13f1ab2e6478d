"""What moves between matchers in one scaling: what this one sends (`transfer.py`) and what the others send it.

Invariants: nothing is asked of anybody where every subscription stays; chunks of a sender are taken in their order,
each once, whatever a broken link does to them; a chunk is acknowledged when it is on disk; what has arrived counts in
the new epoch only.
"""

import structlog

from braid.matching.index import IndexFullError
from braid.messages import AddMatcherState, MatcherStateStored, Send
from braid.selector import Selector
from services.matcher.calls import LatestCalls
from services.matcher.effects import Continue, Effects, StoreState
from services.matcher.holdings import Holdings
from services.matcher.transfer import Pace, Transfer

log = structlog.get_logger()


class HandingOver:
    def __init__(
        self, name: str, old: Selector, new: Selector, *, holdings: Holdings, calls: LatestCalls, pace: Pace
    ) -> None:
        self._holdings = holdings
        self._calls = calls
        self._taken: dict[str, int] = {}  # by sender: its last chunk that is in the index
        self._stored: dict[str, int] = {}  # and on disk
        self._copied_from: set[str] = set()  # whose copy is stored here
        self._complete_from: set[str] = set()  # whose last chunk is stored here
        # Where only other layers change, every subscription stays, and nobody has to look at all of them.
        something_moves = not new.places_like(old)
        receives, sends = (something_moves and name in selector.matchers for selector in (new, old))
        self._sources = set(old.matchers) - {name} if receives else set()
        self._transfer: Transfer | None = None
        if sends:
            # Of a subscription that is another's by now, that one knows more.
            called = (id for id in calls.known_ids() if old.matcher_of(id) == name)
            self._transfer = Transfer(
                name,
                new,
                ids=holdings.own_ids(),
                called=called,
                get=holdings.get_own,
                calls_of=calls.of,
                leaving=holdings.shares.leaving,
                pace=pace,
            )

    @property
    def moved(self) -> int | None:
        return None if self._transfer is None else self._transfer.moved

    @property
    def is_copied(self) -> bool:
        """Everything but a few changes is stored, of what is sent and of what is to come."""
        return self._copied_from >= self._sources and (self._transfer is None or self._transfer.is_copied)

    @property
    def is_complete(self) -> bool:
        return self._has_all() and self._all_sent()

    def _has_all(self) -> bool:
        return self._complete_from >= self._sources

    def _all_sent(self) -> bool:
        return self._transfer is None or self._transfer.is_done

    # What is sent

    def begin(self) -> Effects:
        return [] if self._transfer is None else [Continue()]

    def go_on(self) -> Effects:
        if self._transfer is None:
            return []
        effects: Effects = [*self._transfer.go_on()]
        if self._transfer.wants_to_go_on:
            effects.append(Continue())
        return effects

    def finish(self) -> Effects:
        """No call of the old epoch comes any more."""
        if self._transfer is None:
            return []
        self._transfer.finish()
        return [Continue()]

    def on_changed(self, id: str) -> Effects:
        if self._transfer is None:
            return []
        self._transfer.on_changed(id)
        return [Continue()] if self._transfer.wants_to_go_on else []

    def on_matcher_state_stored(self, matcher: str, message: MatcherStateStored) -> Effects:
        if self._transfer is None:
            return []
        self._transfer.on_stored(matcher, message.chunk)
        effects: Effects = [*self._transfer.sends()]
        if self._transfer.wants_to_go_on:
            effects.append(Continue())
        return effects

    def on_receiver_up(self, matcher: str) -> list[Send]:
        return [] if self._transfer is None else self._transfer.on_receiver_up(matcher)

    # What arrives

    def on_add_matcher_state(self, matcher: str, message: AddMatcherState) -> Effects | None:
        """None when there is no room for it. It is never acknowledged then, and the scaling is given up."""
        if message.chunk <= self._taken.get(matcher, 0):
            return self._acknowledge_again(matcher, message)
        if not self._is_next(matcher, message):
            return []  # those before it were lost with a link, and all of them will be sent again
        # One that came during the copy may be sent twice: in its place, and as a change.
        records = [record for record in message.records if not self._holdings.has_arrived(record)]
        try:
            known = self._holdings.put_arrived(records)
        except (IndexFullError, ValueError) as error:
            log.error("a chunk of another matcher cannot be kept", matcher=matcher, reason=str(error))
            return None
        self._holdings.remove_arrived(message.removed)
        for id, calls in message.calls.items():
            self._calls.learn(id, calls)
        self._taken[matcher] = message.chunk
        state = StoreState(records, known, message.removed, matcher, message.epoch, message.chunk, message.ends)
        return [state, *self._holdings.announcing.changes()]

    def _is_next(self, matcher: str, message: AddMatcherState) -> bool:
        return message.chunk == self._taken.get(matcher, 0) + 1

    def _acknowledge_again(self, matcher: str, message: AddMatcherState) -> Effects:
        """Unless it is on its way to the disk: then it will be acknowledged."""
        if message.chunk > self._stored.get(matcher, 0):
            return []
        return [Send(matcher, [MatcherStateStored(message.epoch, message.chunk)])]

    def on_state_stored(self, stored: StoreState) -> None:
        self._stored[stored.matcher] = stored.chunk
        if stored.ends == "copy":
            self._copied_from.add(stored.matcher)
        if stored.ends == "state":
            self._complete_from.add(stored.matcher)
