"""The matcher's part in a scaling: it hands over what others keep from now on, and changes sides at the cut.

States
    serving   no scaling, or it is over here
    starting  a scaling is under way; some old access point may still send subscriptions of the old epoch
    sending   the snapshot is taken and on its way; what others send is arriving
    ready     all of it is there and on disk, here and where it was sent; both epochs can be answered
    changed   every access point has passed the cut
    ended     nobody speaks of the old epoch any more

Invariants: the snapshot is taken when every old access point has said `StartScale`; `change-ready` is reported when
every chunk sent is stored and the last chunk of every other old matcher is stored here; `ChangeMatcherOnExitPoint` of
an access point is forwarded before its `ChangeMatcher` comes.
"""

import enum
from typing import Any, Protocol

import msgspec
import structlog

from braid.machine import Machine, Transition, in_each
from braid.matching.index import IndexFullError
from braid.messages import AddMatcherState, ChangeMatcherOnExitPoint, MatcherStateStored, Send
from braid.phases import Changing, Ending, Flushing, Moving, PhaseEvent, Settled, phase_events
from braid.scaling import ReportStep, Step
from braid.selector import BroadcastSelector
from braid.topology import Change, Configuration
from services.matcher.effects import Continue, Effects, StoreState
from services.matcher.holdings import Holdings
from services.matcher.transfer import Transfer

log = structlog.get_logger()


class State(enum.Enum):
    SERVING = "serving"
    STARTING = "starting"
    SENDING = "sending"
    READY = "ready"
    CHANGED = "changed"
    ENDED = "ended"


class AllStarted(msgspec.Struct, frozen=True):
    """`StartScale` of every old access point is there."""


class AllStateThere(msgspec.Struct, frozen=True):
    """Everything sent is stored, everything expected has arrived and is stored."""


class AllCut(msgspec.Struct, frozen=True):
    """`ExitPointScaling` and `ChangeMatcher` of every access point are there."""


class AllEnded(msgspec.Struct, frozen=True):
    """`ScaleEnd` of every access point is there."""


class _Heard(msgspec.Struct):
    """Who has said what about one new epoch, perhaps before ZooKeeper told us of it."""

    started: set[str] = msgspec.field(default_factory=set)
    exit_cut: set[str] = msgspec.field(default_factory=set)
    cut: set[str] = msgspec.field(default_factory=set)
    ended: set[str] = msgspec.field(default_factory=set)
    cuts_for_exit_points: dict[str, ChangeMatcherOnExitPoint] = msgspec.field(default_factory=dict)
    chunks: list[tuple[str, AddMatcherState]] = msgspec.field(default_factory=list)  # until we know what they are
    complete_from: set[str] = msgspec.field(default_factory=set)  # whose last chunk is stored


class Core(Protocol):
    """What the scaling needs of the rest of the matcher."""

    def on_begun(self) -> Effects:
        """Subscriptions of others may be in the store from now on."""

    @property
    def is_clean(self) -> bool:
        """Nothing that belongs to others is left in the index or on disk."""

    def on_cut(self, *, all_passed: bool) -> Effects:
        """Every access point has passed the cut, or nobody waits for the others any longer."""

    def on_settled(self, selector: BroadcastSelector) -> Effects:
        """One epoch is left."""

    def on_refused(self, subscriptions: int) -> None:
        """So many of another matcher did not find room."""


class MatcherScaling:
    def __init__(self, name: str, holdings: Holdings, core: Core) -> None:
        self.state = State.SERVING
        self.violations = 0
        self._name = name
        self._holdings = holdings
        self._core = core
        self._configuration: Configuration | None = None
        self._old: BroadcastSelector | None = None
        self._new: BroadcastSelector | None = None
        self._took_over = False  # started again behind the point of no return: the old epoch is not answered
        self._heard: dict[int, _Heard] = {}
        self._transfer: Transfer | None = None
        self._reported: set[tuple[str, Step]] = set()

    # What others ask

    def selector_of(self, epoch: int) -> BroadcastSelector | None:
        """None for an epoch that is not answered here now."""
        configuration = self._configuration
        if configuration is None:
            return None
        change = configuration.change
        if change is not None and epoch == change.to.epoch:
            if self.state in (State.STARTING, State.SENDING):
                self._violation("something of the new epoch before all state was there", epoch=epoch)
                return None
            return self._new
        if epoch == configuration.epoch and self.state is not State.ENDED and not self._took_over:
            return self._old
        return None

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

    def must_hold_answer(self, epoch: int) -> bool:
        """Whether a subscription of this epoch is not acknowledged yet: some access point may not know the epoch."""
        change = self._change
        if change is None or epoch != change.to.epoch or change.phase == "ending":
            return False
        return self.state is State.READY or (self.state is State.CHANGED and self._took_over)

    def progress(self) -> dict[str, float]:
        return {} if self._transfer is None else {"moved": self._transfer.moved}

    @property
    def change(self) -> Change | None:
        return self._change

    # What comes

    def on_configuration(self, configuration: Configuration) -> Effects:
        effects: Effects = []
        for event in phase_events(self._name, "matcher", self._change, configuration):
            effects += MACHINE.step(self, event)
        return effects + self._advance()

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
                self._of(message.epoch).chunks.append((matcher, message))  # bounded by what a sender has under way
            return []
        if self.state not in (State.STARTING, State.SENDING):
            # Sent again although it is here; behind the cut it may be older than what we have.
            return [Send(matcher, [MatcherStateStored(message.epoch, message.chunk)])]
        try:
            self._holdings.put_arrived(message.records)
        except (IndexFullError, ValueError) as error:
            # Never acknowledged: the scaling is given up when its time is over.
            log.error("a chunk of another matcher cannot be kept", matcher=matcher, reason=str(error))
            self._core.on_refused(len(message.records))
            return []
        return [StoreState(message.records, matcher, message.epoch, message.chunk, message.last)]

    def on_state_stored(self, stored: StoreState) -> Effects:
        """The shell has written a chunk to disk."""
        if not self.is_new(stored.epoch):
            return []
        if stored.last:
            self._of(stored.epoch).complete_from.add(stored.matcher)
        return [Send(stored.matcher, [MatcherStateStored(stored.epoch, stored.chunk)]), *self._advance()]

    def on_matcher_state_stored(self, matcher: str, message: MatcherStateStored) -> Effects:
        if self._transfer is None or not self.is_new(message.epoch):
            return []
        self._transfer.on_stored(matcher, message.chunk)
        return self.on_continue()

    def on_continue(self) -> Effects:
        """Goes on with what was left for later."""
        if self._transfer is None:
            return []
        effects: Effects = [*self._transfer.go_on()]
        if self._transfer.wants_to_go_on:
            effects.append(Continue())
        return effects + self._advance()

    def on_clean(self) -> Effects:
        """What belongs to others is gone, from the disk too."""
        return self._advance()

    def on_peer_up(self, peer: str) -> list[Send]:
        """A link is there, perhaps again: what may have been lost with the last one is sent once more."""
        change = self._change
        if change is None:
            return []
        sends = [] if self._transfer is None else self._transfer.on_receiver_up(peer)
        configuration = self._configuration
        assert configuration is not None
        if peer in configuration.union("exitpoint"):
            cuts = list(self._of(change.to.epoch).cuts_for_exit_points.values())
            sends += [Send(peer, cuts)] if cuts else []
        return sends

    # The machine

    def on_settled(self, event: Settled) -> Effects:
        configuration, change = event.configuration, self._change
        if change is not None and configuration.epoch == change.to.epoch:
            self._holdings.shares.go_forward()
        else:
            self._holdings.shares.go_back()
        self._configuration = configuration
        self._old, self._new = BroadcastSelector(configuration), None
        self._transfer, self._took_over = None, False
        self.state = State.SERVING
        used = max(configuration.epoch, configuration.epochs)
        self._heard = {epoch: heard for epoch, heard in self._heard.items() if epoch > used}
        if self._name not in configuration.matchers:
            self._holdings.throw_out_all()  # whatever was missed, an idle matcher keeps nothing
        return self._core.on_cut(all_passed=True) + self._core.on_settled(self._old)

    def on_moving(self, event: Moving) -> Effects:
        change = self._know(event)
        self.state = State.STARTING
        effects: Effects = self._core.on_begun()
        heard = self._of(change.to.epoch)
        chunks, heard.chunks = heard.chunks, []
        for matcher, chunk in chunks:
            effects += self.on_add_matcher_state(matcher, chunk)
        return effects

    def on_all_started(self, _event: AllStarted) -> Effects:
        self.state = State.SENDING
        configuration = self._configuration
        assert configuration is not None
        if self._name in configuration.matchers:
            assert self._new is not None
            holdings = self._holdings
            self._transfer = Transfer(
                self._name, holdings.own_ids(), self._new, holdings.index.get, holdings.shares.leaving.add
            )
            return [Continue()]
        return []

    def on_all_state_there(self, _event: AllStateThere) -> Effects:
        self.state = State.READY
        return self._report("change-ready", self.progress())

    def on_all_cut(self, _event: AllCut) -> Effects:
        self.state = State.CHANGED
        return [*self._core.on_cut(all_passed=True), *self._report("done")]

    def on_all_ended(self, _event: AllEnded) -> Effects:
        self.state = State.ENDED
        self._holdings.shares.go_forward()
        change = self._change
        leaves = change is not None and self._name not in change.to.matchers
        return [Continue(), *(self._report("drained") if leaves else [])]

    def on_changing_after_start(self, event: Changing) -> Effects:
        """Started again since all state arrived: what is on disk is the state of the new epoch."""
        self._know(event)
        self.state = State.READY
        return self._take_over()

    def on_over(self, event: Flushing | Ending) -> Effects:
        """The coordinator has gone on; whoever is late need not see every cut."""
        started_again = self.state is State.SERVING
        self._know(event)
        effects = self._take_over() if started_again else []
        if isinstance(self._due(), AllCut):
            return effects + self.on_all_cut(AllCut())
        # Somebody may still speak of the old epoch: it gets no answer, and what it sent comes again in the new one.
        self._took_over = True
        self.state = State.CHANGED
        return [*effects, *self._core.on_cut(all_passed=isinstance(event, Ending)), *self._report("done")]

    def on_ending(self, event: Ending) -> Effects:
        self._configuration = event.configuration
        return self._core.on_cut(all_passed=True)

    def on_same_phase(self, event: PhaseEvent) -> Effects:
        self._configuration = event.configuration
        return []

    # Details

    @property
    def _change(self) -> Change | None:
        return None if self._configuration is None else self._configuration.change

    def _know(self, event: PhaseEvent) -> Change:
        configuration = self._configuration = event.configuration
        target, change = configuration.target(), configuration.change
        assert target is not None
        assert change is not None
        self._old, self._new = BroadcastSelector(configuration), BroadcastSelector(target)
        return change

    def _take_over(self) -> Effects:
        """What is on disk and belongs to us in the new epoch is all that counts."""
        assert self._new is not None
        self._took_over = True
        self._holdings.throw_out_foreign(self._name, self._new)
        return [Continue()]

    def _of(self, epoch: int) -> _Heard:
        return self._heard.setdefault(epoch, _Heard())

    def _advance(self) -> Effects:
        """As far as what was heard leads."""
        effects: Effects = []
        while (event := self._due()) is not None:
            effects += MACHINE.step(self, event)
        return effects

    def _due(self) -> AllStarted | AllStateThere | AllCut | AllEnded | None:
        configuration, change = self._configuration, self._change
        if configuration is None or change is None:
            return None
        heard = self._of(change.to.epoch)
        accesspoints = set(configuration.union("accesspoint"))
        match self.state:
            case State.STARTING if heard.started >= set(configuration.accesspoints):
                return AllStarted()
            case State.SENDING if self._all_here(heard.complete_from, configuration, change):
                return AllStateThere()
            case State.READY if heard.cut >= accesspoints and heard.exit_cut >= accesspoints:
                return AllCut()
            case State.CHANGED if heard.ended >= accesspoints:
                return AllEnded()
        return None

    def _all_here(self, complete_from: set[str], configuration: Configuration, change: Change) -> bool:
        """What was sent and what was to come; and nothing old is on disk that a start would take for new."""
        return self._all_sent() and complete_from >= self._sources(configuration, change) and self._core.is_clean

    def _all_sent(self) -> bool:
        return self._transfer is None or self._transfer.is_done

    def _sources(self, configuration: Configuration, change: Change) -> set[str]:
        return set(configuration.matchers) - {self._name} if self._name in change.to.matchers else set()

    def _report(self, step: Step, details: dict[str, float] | None = None) -> Effects:
        """Once for each change."""
        change = self._change
        if change is None or (change.id, step) in self._reported:
            return []
        self._reported = {entry for entry in self._reported if entry[0] == change.id} | {(change.id, step)}
        return [ReportStep(change.id, step, details or {})]

    def _violation(self, what: str, **fields: Any) -> None:
        self.violations += 1
        log.error("an order of the scaling was not kept", what=what, **fields)


_S = State
_M = MatcherScaling
MACHINE: Machine[State, Effects] = Machine(
    State.SERVING,
    [
        *in_each(State, Settled, (_S.SERVING,), "keeps what the configuration in force gives it", _M.on_settled),
        Transition(_S.SERVING, Moving, (_S.STARTING,), "waits for every StartScale", _M.on_moving),
        *in_each((_S.STARTING, _S.SENDING, _S.READY), Moving, (), "knows it", _M.on_same_phase),
        Transition(_S.STARTING, AllStarted, (_S.SENDING,), "takes the snapshot, sends it", _M.on_all_started),
        Transition(_S.SENDING, AllStateThere, (_S.READY,), "reports change-ready", _M.on_all_state_there),
        Transition(_S.SERVING, Changing, (_S.READY,), "takes over from its disk", _M.on_changing_after_start),
        *in_each((_S.READY, _S.CHANGED), Changing, (), "knows it", _M.on_same_phase),
        Transition(_S.READY, AllCut, (_S.CHANGED,), "answers what waited, reports done", _M.on_all_cut),
        *in_each((_S.SERVING, _S.READY), Flushing, (_S.CHANGED,), "does not wait any longer", _M.on_over),
        Transition(_S.CHANGED, Flushing, (), "knows it", _M.on_same_phase),
        *in_each((_S.SERVING, _S.READY), Ending, (_S.CHANGED,), "does not wait any longer", _M.on_over),
        *in_each((_S.CHANGED, _S.ENDED), Ending, (), "answers what waited", _M.on_ending),
        Transition(_S.CHANGED, AllEnded, (_S.ENDED,), "forgets the old epoch", _M.on_all_ended),
    ],
)
