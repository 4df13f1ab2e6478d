"""The matcher's part in a scaling: it hands over what others keep from now on, and changes sides at the cut.

States and what leads from one to the next are in `scaling_states.py`.

Invariants: whatever changes while the copy is made is sent behind it; the last chunk is closed when every old access
point has said `StartScale`; `change-ready` is reported when every chunk sent is stored and the last chunk of every
other old matcher is stored here; `ChangeMatcherOnExitPoint` of an access point is forwarded before its `ChangeMatcher`
comes; requests of the new epoch are answered when what every other old matcher remembers for `prev` is there; one that
is started again while everything may still go back throws nothing away before it is known how the scaling goes on.
"""

from typing import Any, Protocol

import structlog

from braid.machine import Machine, Transition, in_each
from braid.messages import (
    AddMatcherState,
    ChangeMatcherOnExitPoint,
    HandOverPrevious,
    HandOverPublications,
    KeptBatch,
    MatcherStateStored,
    PreviousHandedOver,
    PublicationsHandedOver,
    Send,
)
from braid.phases import Changing, Copying, Ending, Flushing, Moving, PhaseEvent, Settled, phase_events
from braid.scaling import Reports, Step
from braid.selector import Selector, selector_of
from braid.topology import REVERSIBLE, Change, Configuration
from services.matcher.calls import LatestCalls
from services.matcher.effects import Continue, Effects, KeepForeign, StoreState
from services.matcher.ended import Ended
from services.matcher.handing_over import HandingOver
from services.matcher.holdings import Holdings
from services.matcher.moving_kept import MovingKept
from services.matcher.moving_previous import MovingPrevious
from services.matcher.relocating import is_kept_by
from services.matcher.scaling_states import AllCopied, AllCut, AllEnded, AllStarted, AllStateThere, Heard, State
from services.matcher.storage.records import Cursor
from services.matcher.transfer import Pace

log = structlog.get_logger()


class Core(Protocol):
    """What the scaling needs of the rest of the matcher."""

    calls: LatestCalls
    keeps_publications: bool
    ended: Ended

    @property
    def expects_foreign(self) -> bool:
        """What belongs to others may be in the store."""

    def on_begun(self) -> Effects:
        """What belongs to others may be in the store from now on."""

    @property
    def is_clean(self) -> bool:
        """Nothing that belongs to others is left in the index or on disk."""

    def on_cut(self, *, all_passed: bool) -> Effects:
        """Every access point has passed the cut, or nobody waits for the others any longer."""

    def answer_requests(self) -> Effects:
        """Those of the new epoch that waited."""

    def behind_partials(self, sends: list[Send]) -> list[Send]:
        """What can be sent of it now; the rest follows the partials that wait for the disk."""

    def on_settled(self, selector: Selector) -> Effects:
        """One epoch is left."""

    def on_refused(self, subscriptions: int) -> None:
        """So many of another matcher did not find room."""


class MatcherScaling:
    def __init__(self, name: str, holdings: Holdings, core: Core, pace: Pace, incarnation: int) -> None:
        self.state = State.SERVING
        self.violations = 0
        self._name = name
        self._incarnation = incarnation
        self._holdings = holdings
        self._core = core
        self._pace = pace
        self._configuration: Configuration | None = None
        self._accesspoints: frozenset[str] = frozenset()  # of the configuration, and of the one that follows
        self._old: Selector | None = None
        self._new: Selector | None = None
        self._took_over = False  # started again behind the point of no return: the old epoch is not answered
        self._may_keep_foreign = True  # publications; what the store held at the start is not known
        self._heard: dict[int, Heard] = {}
        self._handing_over: HandingOver | None = None  # unless this process began behind the point of no return
        self.kept = MovingKept(name)
        self.previous = MovingPrevious(name, holdings.index)
        self._reports = Reports()

    # What others ask

    def selector_of(self, epoch: int) -> Selector | None:
        """None for an epoch that is not answered here now."""
        configuration = self._configuration
        if configuration is None:
            return None
        change = configuration.change
        if change is not None and epoch == change.to.epoch:
            if self.state in _GETTING_STATE:
                self._violation("something of the new epoch before all state was there", epoch=epoch)
                return None
            return self._new
        if epoch == configuration.epoch and self.state is not State.ENDED and not self._took_over:
            return self._old
        return None

    def takes(self, accesspoint: str, epoch: int) -> bool:
        """Whether it has a part in this epoch. One that has left and does not know it is told of no anchor, nobody
        waits for its `StartScale`, and no question for the past goes through it: what it sends would be lost. That is
        so also while a scaling takes it in again, for what it sends of the old epoch.
        """
        if accesspoint not in self._accesspoints or self._configuration is None:
            return False
        return self.is_new(epoch) or accesspoint in self._configuration.accesspoints

    def any_accesspoint(self) -> tuple[str, int]:
        """For what nobody asked: any access point reaches every connection point. With the epoch in force."""
        if self._configuration is None:
            return "", 0
        in_force = self._configuration.in_force()
        return in_force.accesspoints[0], in_force.epoch

    def is_new(self, epoch: int) -> bool:
        return self._change is not None and epoch == self._change.to.epoch

    def must_wait_for_cut(self, epoch: int) -> bool:
        """Whether requests of this epoch are kept until every access point has passed the cut."""
        return self.state is State.READY and self.is_new(epoch)

    def must_wait_for_previous(self, epoch: int) -> bool:
        """Whether they are kept until everything is here that they are compared with."""
        return self.previous.is_awaited and self.is_new(epoch)

    def must_hold_answer(self, epoch: int) -> bool:
        """Whether a subscription of this epoch is not acknowledged yet: some access point may not know the epoch."""
        change = self._change
        if change is None or epoch != change.to.epoch or change.phase == "ending":
            return False
        return self.state is State.READY or (self.state is State.CHANGED and self._took_over)

    def progress(self) -> dict[str, float]:
        moved = None if self._handing_over is None else self._handing_over.moved
        progress = {} if moved is None else {"moved": float(moved)}
        if self.kept.departure is not None:
            progress["publications_handed_over"] = float(self.kept.departure.handed_over)
        return progress

    @property
    def change(self) -> Change | None:
        return self._change

    @property
    def is_in_a_hurry(self) -> bool:
        """New subscriptions are kept back until the last changes have arrived, or publications are."""
        return self.state in (State.STARTING, State.SENDING) or self.previous.is_in_a_hurry

    # What comes

    def on_configuration(self, configuration: Configuration) -> Effects:
        if self._started_in_the_middle(configuration):
            return []
        self._accesspoints = frozenset(configuration.union("accesspoint"))
        effects: Effects = []
        for event in phase_events(self._name, "matcher", self._change, configuration):
            effects += MACHINE.step(self, event)
        return effects + self._announce(configuration) + self._advance()

    def on_start_scale(self, accesspoint: str, epoch: int) -> Effects:
        self._of(epoch).started.add(accesspoint)
        return self._advance()

    def on_change_matcher_on_exit_point(self, accesspoint: str, message: ChangeMatcherOnExitPoint) -> Effects:
        """Forwarded at once, behind every partial of the old epoch that came through this access point."""
        self._of(message.epoch).cuts_for_exit_points[accesspoint] = message
        configuration = self._configuration
        exitpoints = [] if configuration is None else configuration.union("exitpoint")
        return [Send(exitpoint, [message]) for exitpoint in exitpoints]

    def on_exit_point_scaling(self, accesspoint: str, epoch: int) -> Effects:
        self._of(epoch).exit_cut.add(accesspoint)
        return self._advance()

    def on_change_matcher(self, accesspoint: str, epoch: int) -> Effects:
        heard = self._of(epoch)
        configuration = self._configuration
        was_matcher = configuration is not None and self._name in configuration.matchers
        if self.is_new(epoch) and was_matcher and accesspoint not in heard.cuts_for_exit_points:
            self._violation("Change-Matcher before Change-Matcher-On-Exit-Point", accesspoint=accesspoint)
        heard.cut.add(accesspoint)
        return self._advance()

    def on_scale_end(self, accesspoint: str, epoch: int) -> Effects:
        self._of(epoch).ended.add(accesspoint)
        return self._advance()

    def on_add_matcher_state(self, matcher: str, message: AddMatcherState) -> Effects:
        if not self.is_new(message.epoch) or self.state is State.SERVING:
            if self._change is None or message.epoch > self._change.to.epoch:
                self._of(message.epoch).keep_chunk(matcher, message)  # bounded by what is under way
            return []
        if self.state not in _GETTING_STATE or self._handing_over is None:
            # Sent again although it is here; behind the cut it may be older than what we have.
            return [Send(matcher, [MatcherStateStored(message.epoch, message.chunk)])]
        effects = self._handing_over.on_add_matcher_state(matcher, message)
        if effects is None:
            self._core.on_refused(len(message.records))
            return self._report("refused")
        return effects

    def on_state_stored(self, stored: StoreState) -> Effects:
        """The shell has written a chunk to disk."""
        if not self.is_new(stored.epoch):
            return []
        if self._handing_over is not None:
            self._handing_over.on_state_stored(stored)
        return [Send(stored.matcher, [MatcherStateStored(stored.epoch, stored.chunk)]), *self._advance()]

    def on_state_not_stored(self, stored: StoreState) -> Effects:
        """There is no room for it, or the disk fails. Nobody would send it again, so the scaling is given up."""
        return self._report("refused") if self.is_new(stored.epoch) and self.state in _GETTING_STATE else []

    def on_matcher_state_stored(self, matcher: str, message: MatcherStateStored) -> Effects:
        if self._handing_over is None or not self.is_new(message.epoch):
            return []
        return self._handing_over.on_matcher_state_stored(matcher, message) + self._advance()

    def on_continue(self) -> Effects:
        """Goes on with what was left for later."""
        effects = [] if self._handing_over is None else self._handing_over.go_on()
        return effects + self.previous.go_on() + self._advance()

    # Kept publications

    def on_kept(self, batches: list[KeptBatch], now_s: float) -> list[Send]:
        """This matcher is about to keep these."""
        return self.kept.on_kept(batches, now_s)

    def on_kept_read(self, batches: list[KeptBatch], after: Cursor | None, reader: int = 0) -> Effects:
        return self.kept.on_read(batches, after, reader) + self._advance()

    def on_hand_over_publications(self, matcher: str, message: HandOverPublications) -> Effects:
        """Whenever they come, and however often. Whoever sent them may not know the configuration in force yet."""
        self._core.ended.add(message.ended)
        effects: Effects = [KeepForeign(matcher, message.epoch, message.number, message.batches, message.ended)]
        if self._old is None and not self._core.expects_foreign:
            # Started in the middle of a scaling that may be given up: then this is another's, and is to be looked for.
            return self._core.on_begun() + effects
        if self._change is None and self._old is not None and not self._keeps_all(self._old, message.batches):
            self._may_keep_foreign = True
            effects += self._core.on_begun() + self._relocate(self._old)
        return effects

    def _keeps_all(self, selector: Selector, batches: list[KeptBatch]) -> bool:
        """An idle matcher gets nothing but by mistake, and has nobody to ask what to do with it."""
        name = self._name
        return name not in selector.matchers or all(is_kept_by(selector, name, batch) for batch in batches)

    def on_foreign_kept(self, kept: KeepForeign) -> list[Send]:
        return [Send(kept.matcher, [PublicationsHandedOver(kept.epoch, kept.number)])]

    def on_publications_handed_over(self, matcher: str, message: PublicationsHandedOver) -> Effects:
        return self.kept.on_handed_over(matcher, message) + self._advance()

    # What is remembered for `prev`

    def on_hand_over_previous(self, matcher: str, message: HandOverPrevious) -> Effects:
        if not self.is_new(message.epoch) or self.state is State.SERVING:
            if self._change is None or message.epoch > self._change.to.epoch:
                self._of(message.epoch).keep_previous(matcher, message)  # bounded by what is under way
            return []
        was_awaited = self.previous.is_awaited
        effects = self.previous.on_hand_over(matcher, message)
        if was_awaited and not self.previous.is_awaited and self.state is not State.READY:
            effects += self._core.answer_requests()
        return effects

    def on_previous_handed_over(self, matcher: str, message: PreviousHandedOver) -> Effects:
        return self.previous.on_handed_over(matcher, message) + self._advance()

    # Changes

    def on_changed(self, id: str) -> Effects:
        """A call of the old epoch has changed or ended it."""
        return [] if self._handing_over is None else self._handing_over.on_changed(id)

    def on_clean(self) -> Effects:
        """What belongs to others is gone, from the disk too."""
        return self._advance()

    def on_told(self) -> Effects:
        """Access points know more anchors."""
        return self._advance()

    def on_peer_up(self, peer: str) -> Effects:
        """A link is there, perhaps again: what may have been lost with the last one is sent once more."""
        sends: Effects = [*self.kept.on_receiver_up(peer)]
        change = self._change
        if change is None:
            return sends
        sends += [] if self._handing_over is None else self._handing_over.on_receiver_up(peer)
        sends += self.previous.on_receiver_up(peer)
        configuration = self._configuration
        assert configuration is not None
        if peer in configuration.union("exitpoint"):
            cuts = list(self._of(change.to.epoch).cuts_for_exit_points.values())
            sends += [Send(peer, cuts)] if cuts else []
        return sends

    # The machine

    def on_settled(self, event: Settled) -> Effects:
        configuration, change = event.configuration, self._change
        is_over = change is not None and configuration.epoch == change.to.epoch
        if is_over:
            self._holdings.shares.go_forward()
        else:
            self._holdings.shares.go_back()
        effects = self.previous.stop(is_over=is_over)
        self._configuration = configuration
        self._old, self._new = selector_of(configuration), None
        self._handing_over, self._took_over = None, False
        self.kept.stop()
        self.state = State.SERVING
        used = max(configuration.epoch, configuration.epochs)
        self._heard = {epoch: heard for epoch, heard in self._heard.items() if epoch > used}
        if self._name not in configuration.matchers:
            self._holdings.throw_out_all()  # whatever was missed, an idle matcher keeps nothing
        effects += self._core.on_cut(all_passed=True) + self._core.on_settled(self._old)
        return effects + self._relocate(self._old)

    def on_copying(self, event: Copying) -> Effects:
        change = self._know(event)
        self.kept.stop()
        self.state = State.COPYING
        assert self._old is not None
        assert self._new is not None
        self._handing_over = HandingOver(
            self._name, self._old, self._new, holdings=self._holdings, calls=self._core.calls, pace=self._pace
        )
        # Where only the map or the routing is another one, publications stay where they are. Those that have not found
        # their keepers since a scaling before this one still do not lie there.
        self._may_keep_foreign = self._core.expects_foreign or not self._new.keeps_like(self._old)
        # Where nothing moves, nothing foreign comes, and nothing of our own becomes another's.
        begun = [] if self._new.places_like(self._old) else self._core.on_begun()
        effects = begun + self._handing_over.begin() + self._depart()
        heard = self._of(change.to.epoch)
        chunks, heard.chunks = heard.chunks, {}
        for (matcher, _), chunk in chunks.items():
            effects += self.on_add_matcher_state(matcher, chunk)
        return effects + self._begin_previous()

    def on_all_copied(self, _event: AllCopied) -> Effects:
        self.state = State.COPIED
        return self._report("copied", self.progress())

    def on_moving(self, event: Moving) -> Effects:
        effects: Effects = []
        if self.state is State.SERVING:  # it did not hear that others copied
            effects += self.on_copying(Copying(event.configuration))
        self._know(event)
        self.state = State.STARTING
        return effects + self.previous.begin_pass()

    def on_all_started(self, _event: AllStarted) -> Effects:
        self.state = State.SENDING
        return [] if self._handing_over is None else self._handing_over.finish()

    def on_all_state_there(self, _event: AllStateThere) -> Effects:
        self.state = State.READY
        return [*self._report("change-ready", self.progress()), *self.previous.begin_pass()]

    def on_all_cut(self, _event: AllCut) -> Effects:
        self.state = State.CHANGED
        effects = self.previous.finish() + self.previous.on_cut()
        return [*effects, *self._core.on_cut(all_passed=True), *self._report("done")]

    def on_all_ended(self, _event: AllEnded) -> Effects:
        self.state = State.ENDED
        self._holdings.shares.go_forward()
        return [Continue(), *self._report("drained")]

    def on_changing_after_start(self, event: Changing) -> Effects:
        """Started again since all state arrived: what is on disk is the state of the new epoch."""
        self._know(event)
        self.state = State.READY
        return self._take_over() + self._depart() + self._forward_cuts()

    def on_over(self, event: Flushing | Ending) -> Effects:
        """The coordinator has gone on; whoever is late need not see every cut."""
        started_again = self.state is State.SERVING
        self._know(event)
        effects = self._take_over() + self._depart() + self._forward_cuts() if started_again else []
        if isinstance(self._due(), AllCut):
            return effects + self.on_all_cut(AllCut())
        # Somebody may still speak of the old epoch: it gets no answer, and what it sent comes again in the new one.
        self._took_over = True
        self.state = State.CHANGED
        effects += self.previous.finish() + self.previous.on_cut()
        return [*effects, *self._core.on_cut(all_passed=isinstance(event, Ending)), *self._report("done")]

    def on_ending(self, event: Ending) -> Effects:
        self._configuration = event.configuration
        return self._core.on_cut(all_passed=True)

    def on_same_phase(self, event: PhaseEvent) -> Effects:
        self._configuration = event.configuration
        return []

    # Details

    def _started_in_the_middle(self, configuration: Configuration) -> bool:
        """Whether it is not known yet what this matcher shall keep: another incarnation of it took part so far.

        The coordinator gives the scaling up when it sees this one. But it may go on without having seen it, and then
        what is on disk here is all that there is of the subscriptions that were moved. So nothing is thrown away, and
        nobody is answered, until it is known how the scaling goes on.
        """
        change = configuration.change
        if change is None or change.phase not in REVERSIBLE:
            return False
        return change.participants.get(self._name, self._incarnation) != self._incarnation

    @property
    def _change(self) -> Change | None:
        return None if self._configuration is None else self._configuration.change

    def _know(self, event: PhaseEvent) -> Change:
        configuration = self._configuration = event.configuration
        target, change = configuration.target(), configuration.change
        assert target is not None
        assert change is not None
        self._old, self._new = selector_of(configuration), selector_of(target)
        return change

    def _take_over(self) -> Effects:
        """What is on disk and belongs to us in the new epoch is all that counts."""
        assert self._new is not None
        self._took_over = self._may_keep_foreign = True
        # What subscriptions look back to that are another's by now goes to that one, and is forgotten with them.
        effects = self._begin_previous() + self.previous.finish()
        self._holdings.throw_out_foreign(self._name, self._new)
        return [*effects, Continue()]

    def _forward_cuts(self) -> Effects:
        """Those that came before it was known to whom; exit points may hear a cut twice."""
        assert self._configuration is not None
        assert self._new is not None
        cuts = list(self._of(self._new.epoch).cuts_for_exit_points.values())
        sends = [Send(exitpoint, cuts) for exitpoint in self._configuration.union("exitpoint")] if cuts else []
        return [*self._core.behind_partials(sends)]

    def _begin_previous(self) -> Effects:
        """With what came before this matcher knew of the scaling."""
        assert self._old is not None
        assert self._new is not None
        effects: Effects = []
        self.previous.begin(self._old, self._new)
        heard = self._of(self._new.epoch)
        early, heard.previous = heard.previous, {}
        for (matcher, _), message in early.items():
            effects += self.previous.on_hand_over(matcher, message)
        return effects

    def _depart(self) -> Effects:
        """One that is no matcher behind the change has nobody to keep publications for."""
        assert self._old is not None
        assert self._new is not None
        if (
            not self._core.keeps_publications
            or self._name in self._new.matchers
            or self._name not in self._old.matchers
        ):
            return []
        return self.kept.depart(self._new, self._core.ended.all())

    def _relocate(self, selector: Selector) -> Effects:
        """Of what is kept here, some may be another's since the last scaling."""
        may_be = self._core.keeps_publications and self._core.expects_foreign and self._may_keep_foreign
        if not may_be or self._name not in selector.matchers or len(selector.matchers) == 1:
            return []
        return self.kept.relocate(selector)

    def _of(self, epoch: int) -> Heard:
        return self._heard.setdefault(epoch, Heard())

    def _advance(self) -> Effects:
        """As far as what was heard leads."""
        effects: Effects = []
        while (event := self._due()) is not None:
            effects += MACHINE.step(self, event)
        return effects

    def _due(self) -> "_Due | None":
        configuration, change = self._configuration, self._change
        if configuration is None or change is None:
            return None
        heard = self._of(change.to.epoch)
        accesspoints = set(configuration.union("accesspoint"))
        event: _Due | None = None
        is_due = False
        match self.state:
            case State.COPYING:
                event, is_due = AllCopied(), self._all_copied()
            case State.STARTING:
                event, is_due = AllStarted(), heard.started >= set(configuration.accesspoints)
            case State.SENDING:
                event, is_due = AllStateThere(), self._all_here()
            case State.READY:
                event, is_due = AllCut(), heard.cut >= accesspoints and heard.exit_cut >= accesspoints
            case State.CHANGED:
                event, is_due = AllEnded(), heard.ended >= accesspoints and self.kept.is_gone and self.previous.is_gone
        return event if is_due else None

    def _announce(self, configuration: Configuration) -> Effects:
        """Whoever takes part now or after the change must know the anchors of what is kept here."""
        target = configuration.target()
        routings = {configuration.routing, configuration.routing if target is None else target.routing}
        accesspoints = configuration.union("accesspoint")
        return self._holdings.announcing.on_configured(is_on="anchored" in routings, accesspoints=accesspoints)

    def _all_copied(self) -> bool:
        """What is left is sent, and told to access points, while new subscriptions wait."""
        return (
            self._handing_over is not None
            and self._handing_over.is_copied
            and self.kept.is_copied
            and self.previous.is_copied
            and self._core.is_clean
            and self._holdings.announcing.is_nearly_told
        )

    def _all_here(self) -> bool:
        """What was sent and what was to come; nothing old is on disk that a start would take for new; all is known."""
        return (
            self._handing_over is not None
            and self._handing_over.is_complete
            and self._core.is_clean
            and self._holdings.announcing.is_told
        )

    def _report(self, step: Step, details: dict[str, float] | None = None) -> Effects:
        return [*self._reports.once(self._change, step, details)]

    def _violation(self, what: str, **fields: Any) -> None:
        self.violations += 1
        log.error("an order of the scaling was not kept", what=what, **fields)


_Due = AllCopied | AllStarted | AllStateThere | AllCut | AllEnded
_GETTING_STATE = (State.COPYING, State.COPIED, State.STARTING, State.SENDING)

_S = State
_M = MatcherScaling
MACHINE: Machine[State, Effects] = Machine(
    State.SERVING,
    [
        *in_each(State, Settled, (_S.SERVING,), "keeps what the configuration in force gives it", _M.on_settled),
        Transition(_S.SERVING, Copying, (_S.COPYING,), "sends what others will keep", _M.on_copying),
        *in_each((_S.COPYING, _S.COPIED), Copying, (), "knows it", _M.on_same_phase),
        Transition(_S.COPYING, AllCopied, (_S.COPIED,), "reports copied", _M.on_all_copied),
        *in_each(
            (_S.SERVING, _S.COPYING, _S.COPIED), Moving, (_S.STARTING,), "waits for every StartScale", _M.on_moving
        ),
        *in_each((_S.STARTING, _S.SENDING, _S.READY), Moving, (), "knows it", _M.on_same_phase),
        Transition(_S.STARTING, AllStarted, (_S.SENDING,), "sends the last changes", _M.on_all_started),
        Transition(_S.SENDING, AllStateThere, (_S.READY,), "reports change-ready", _M.on_all_state_there),
        Transition(_S.SERVING, Changing, (_S.READY,), "takes over from its disk", _M.on_changing_after_start),
        # Access points may have told of later phases before the configuration is read.
        *in_each((_S.READY, _S.CHANGED, _S.ENDED), Changing, (), "knows it", _M.on_same_phase),
        Transition(_S.READY, AllCut, (_S.CHANGED,), "answers what waited, reports done", _M.on_all_cut),
        *in_each((_S.SERVING, _S.READY), Flushing, (_S.CHANGED,), "does not wait any longer", _M.on_over),
        *in_each((_S.CHANGED, _S.ENDED), Flushing, (), "knows it", _M.on_same_phase),
        *in_each((_S.SERVING, _S.READY), Ending, (_S.CHANGED,), "does not wait any longer", _M.on_over),
        *in_each((_S.CHANGED, _S.ENDED), Ending, (), "answers what waited", _M.on_ending),
        Transition(_S.CHANGED, AllEnded, (_S.ENDED,), "forgets the old epoch", _M.on_all_ended),
    ],
)
