"""The access point's part in a scaling: what it keeps back, what it holds, and what it tells the matchers.

States
    serving    no scaling, or it is over here, or matchers still copy (phase copying)
    buffering  subscriptions are kept back, publications flow under the old epoch (phase moving)
    holding    both cuts are sent, publications too wait for the exit points (phase changing)
    flushed    everything flows under the new epoch; the scaling ends elsewhere
    parting    one that leaves goes on, because a connection point has not said yet that it sends elsewhere
    left       one that leaves has said `ScaleEnd`, its last word: it sends no publications and no calls any more

One that is taken in has no part before it holds, but a connection point may hear of `changing` before it does: what
comes from there waits as well, for the cut or for the way back; but not for longer than `EARLY_S_MAX` before the cut.

Holding ends by itself when something has waited in it for `HELD_S_MAX`, so that publications and calls go on also while
ZooKeeper is away: requests carry their epoch, so they are answered rightly, though exit points will say that they have
not seen the cut.

A connection point may hear of the scaling later than everybody else. One that leaves takes what comes from there until
it has heard, for `PARTING_S_MAX` at most: what came behind its last word would have to be sent again.

Invariants: `StartScale` goes behind the last subscription of the old epoch; to each matcher
`ChangeMatcherOnExitPoint` goes before `ChangeMatcher`, behind the last request of the old epoch and before anything of
the new one; nothing that is kept back or held is forgotten before it is sent; behind `ScaleEnd` of one that leaves
nothing follows that a matcher has to know, so nobody has to wait for it when the scaling has ended.
"""

import enum
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from braid.machine import Machine, Transition, in_each
from braid.messages import (
    ChangeMatcher,
    ChangeMatcherOnExitPoint,
    ExitPointScaling,
    GoesElsewhere,
    Publications,
    ScaleEnd,
    Send,
    StartScale,
    Subscribe,
    Unsubscribe,
)
from braid.phases import Changing, Copying, Ending, Flushing, Moving, PhaseEvent, Settled, phase_events
from braid.scaling import Reports, ReportStep
from braid.topology import Change, Configuration

KEPT_BACK_MAX = 200_000  # calls; beyond it they are dropped, and their connection points ask again
ASKED_AGAIN_S_MAX = 4.0  # connection points ask again each second while somebody waits for the answer
HELD_S_MAX = 3.0
PARTING_S_MAX = 1.0  # a matcher that drains and a second scaling wait for it
# What came for one that is taken in, before it holds: connection points hear of `changing` at nearly the same time, so
# what is older has nothing to do with it. It was most likely sent again since, or will be.
EARLY_S_MAX = 3.0
# Beyond it batches are dropped, and their connection points send them again. Half of what a link buffers by default:
# what was held is sent at once, and behind it there must be room for what was kept back and for what comes.
HELD_BYTES_MAX = 16 * 1024 * 1024

log = structlog.get_logger()

Call = Subscribe | Unsubscribe
Effect = Send | ReportStep
Effects = list[Effect]


class State(enum.Enum):
    SERVING = "serving"
    BUFFERING = "buffering"
    HOLDING = "holding"
    FLUSHED = "flushed"
    PARTING = "parting"
    LEFT = "left"


class HeldTooLong(msgspec.Struct, frozen=True):
    """The exit points, or ZooKeeper, did not answer in time."""


class Parted(msgspec.Struct, frozen=True):
    """Every connection point that is linked sends elsewhere, or was waited for long enough."""


class Buffers(msgspec.Struct):
    """What waits, and since when; told to whoever watches the scaling."""

    # By connection point and ref, and when it was asked last.
    kept_back: dict[tuple[str, int], tuple[Call, float]] = msgspec.field(default_factory=dict)
    # With their arrival in nanoseconds, for hops, and in seconds.
    held: list[tuple[Publications, int, float]] = msgspec.field(default_factory=list)
    held_bytes: int = 0
    kept_back_since_s: float | None = None
    held_since_s: float | None = None
    kept_back_s_max: float = 0.0
    held_s_max: float = 0.0
    dropped: int = 0  # beyond the bounds, since start; connection points send and ask again

    @property
    def waiting_since_s(self) -> float | None:
        return min(
            (since_s for since_s in (self.kept_back_since_s, self.held_since_s) if since_s is not None), default=None
        )

    def begin(self) -> None:
        """Another scaling: how long something waits is told of each by itself."""
        self.kept_back_s_max = self.held_s_max = 0.0

    def keep_back(self, call: Call, now_s: float) -> None:
        key = call.connpoint, call.ref  # asked again it is the same call
        if len(self.kept_back) >= KEPT_BACK_MAX and key not in self.kept_back:
            self.dropped += 1
            return
        if self.kept_back_since_s is None:
            self.kept_back_since_s = now_s
        self.kept_back[key] = call, now_s

    def hold(self, batch: list[Publications], now_s: float, arrived_ns: int) -> None:
        for message in batch:
            size = sum(map(len, message.contents))
            if self.held_bytes + size > HELD_BYTES_MAX:
                self.dropped += 1
                continue
            if self.held_since_s is None:
                self.held_since_s = now_s
            self.held.append((message, arrived_ns, now_s))
            self.held_bytes += size

    def drop_early(self, now_s: float) -> None:
        """What came too early to belong to the cut."""
        late = bisect_left(self.held, now_s - EARLY_S_MAX, key=lambda held: held[2])
        for message, _, _ in self.held[:late]:
            self.held_bytes -= sum(map(len, message.contents))
        del self.held[:late]
        self.dropped += late
        self.held_since_s = self.held[0][2] if self.held else None

    def wait_from(self, now_s: float) -> None:
        """What is here has waited for nothing so far."""
        self.kept_back_since_s = now_s if self.kept_back else None
        self.held_since_s = now_s if self.held else None

    def take_kept_back(self, now_s: float) -> list[Call]:
        """In the order of arrival. A call that is not repeated any more has nobody who waits for its answer."""
        calls = [call for call, asked_s in self.kept_back.values() if now_s - asked_s <= ASKED_AGAIN_S_MAX]
        self.kept_back = {}
        if self.kept_back_since_s is not None:
            self.kept_back_s_max = max(self.kept_back_s_max, now_s - self.kept_back_since_s)
            self.kept_back_since_s = None
        return calls

    def take_held(self, now_s: float) -> list[tuple[Publications, int]]:
        held = [(message, arrived_ns) for message, arrived_ns, _ in self.held]
        self.held, self.held_bytes = [], 0
        if self.held_since_s is not None:
            self.held_s_max = max(self.held_s_max, now_s - self.held_since_s)
            self.held_since_s = None
        return held


class AccessPointScaling:
    """`release` sends what is kept back, `flush` what is held, under the epoch in force then."""

    def __init__(
        self,
        name: str,
        on_in_force: Callable[[Configuration | None], None],
        release: Callable[[float], list[Send]],
        flush: Callable[[float], list[Send]],
    ) -> None:
        self.state = State.SERVING
        self._name = name
        self._on_in_force = on_in_force
        self._release = release
        self._flush = flush
        self._configuration: Configuration | None = None
        self._reports = Reports()
        self._holding_since_s = self._parting_since_s = 0.0
        self._connpoints: dict[str, int] = {}  # that are linked; up to which epoch they send nothing to who leaves
        self.buffers = Buffers()
        self.gave_up = 0  # scalings whose exit points were not waited for any longer
        self.left_early = 0  # scalings at whose end a connection point had not said that it sends elsewhere

    @property
    def keeps_back(self) -> bool:
        return self.state in (State.BUFFERING, State.HOLDING) or self._is_taken_in

    @property
    def holds(self) -> bool:
        return self.state is State.HOLDING or self._is_taken_in

    @property
    def _is_taken_in(self) -> bool:
        """Whether it has a part only behind the cut. A connection point may hear of that before it does."""
        configuration, change = self._configuration, self._change
        if configuration is None or change is None or self.state not in (State.SERVING, State.BUFFERING):
            return False
        return self._name in change.to.accesspoints and self._name not in configuration.accesspoints

    @property
    def has_left(self) -> bool:
        return self.state is State.LEFT

    def on_configuration(self, configuration: Configuration, now_s: float) -> Effects:
        effects: Effects = []
        for event in phase_events(self._name, "accesspoint", self._change, configuration):
            effects += MACHINE.step(self, event, now_s)
        return effects

    def on_tick(self, now_s: float) -> Effects:
        if self._is_taken_in:
            self.buffers.drop_early(now_s)
        since_s = self.buffers.waiting_since_s
        if (
            self.state is State.HOLDING
            and since_s is not None
            and now_s - max(since_s, self._holding_since_s) > HELD_S_MAX
        ):
            return MACHINE.step(self, HeldTooLong(), now_s)
        if self.state is State.PARTING and now_s - self._parting_since_s > PARTING_S_MAX:
            log.warning("leaving without the last word of connection points", missing=self._sending_here())
            self.left_early += 1
            return MACHINE.step(self, Parted(), now_s)
        return []

    def on_connpoint_up(self, connpoint: str) -> None:
        """Whatever it said on another link, it says again."""
        self._connpoints[connpoint] = 0

    def on_connpoint_down(self, connpoint: str, now_s: float) -> Effects:
        """What it had sent is lost, and is sent again. It may be back in a moment and send more, which is sent again
        too: to wait for it would make each crash of a connection point cost the whole second.
        """
        self._connpoints.pop(connpoint, None)
        return self._part(now_s)

    def on_goes_elsewhere(self, connpoint: str, message: GoesElsewhere, now_s: float) -> Effects:
        if connpoint in self._connpoints:
            self._connpoints[connpoint] = message.epoch
        return self._part(now_s)

    def _part(self, now_s: float) -> Effects:
        if self.state is State.PARTING and not self._sending_here():
            return MACHINE.step(self, Parted(), now_s)
        return []

    def _sending_here(self) -> list[str]:
        """Connection points that may not know yet that this one leaves."""
        change = self._change
        return [name for name, epoch in self._connpoints.items() if change is not None and epoch < change.to.epoch]

    def on_matcher_up(self, matcher: str) -> list[Send]:
        """A link to it is there, perhaps again: what it must know of the scaling is sent once more."""
        configuration = self._configuration
        if configuration is None or configuration.change is None or self.state is State.SERVING:
            return []
        if self.state is State.BUFFERING:
            return [Send(matcher, [StartScale(configuration.change.to.epoch)])]
        sends = [self._cut(configuration, matcher)]
        if configuration.change.phase == "ending" and self.state is not State.PARTING:
            sends.append(Send(matcher, [ScaleEnd(configuration.change.to.epoch)]))
        return sends

    def on_settled(self, event: Settled, now_s: float) -> Effects:
        """Also the way back: what was kept back goes to the old matchers."""
        configuration = self._configuration = event.configuration
        self._serve(configuration)
        self.state = State.SERVING
        return [*self._flush(now_s), *self._release(now_s)]

    def on_copying(self, event: Copying, now_s: float) -> Effects:
        self._serve(self._enter(event).in_force())
        return []

    def on_moving(self, event: Moving, now_s: float) -> Effects:
        configuration = self._enter(event)
        self._serve(configuration.in_force())
        self.state = State.BUFFERING
        self.buffers.begin()
        start = StartScale(_target_epoch(configuration))
        return [Send(matcher, [start]) for matcher in configuration.union("matcher")]

    def on_changing(self, event: Changing, now_s: float) -> Effects:
        if self.state is State.SERVING:
            self.buffers.begin()
        configuration = self._enter(event)
        if self._is_taken_in:  # matchers may have copied for an hour, which nobody has waited for
            self.buffers.drop_early(now_s)
            self.buffers.wait_from(now_s)
        cuts: Effects = [self._cut(configuration, matcher) for matcher in configuration.union("matcher")]
        self._on_in_force(configuration.in_force())
        self.state, self._holding_since_s = State.HOLDING, now_s
        return cuts

    def on_held_too_long(self, _event: HeldTooLong, now_s: float) -> Effects:
        log.error("something was held for too long; going on without the exit points", held_s=HELD_S_MAX)
        self.state = State.FLUSHED
        self.gave_up += 1
        # Calls too: one that waited on would come behind later ones about the same subscription.
        return [*self._flush(now_s), *self._release(now_s)]

    def on_flushing(self, event: Flushing, now_s: float) -> Effects:
        effects: Effects = []
        if self.state not in (State.HOLDING, State.FLUSHED):
            effects += self.on_changing(Changing(event.configuration), now_s)
        configuration = self._enter(event)
        self.state = State.FLUSHED
        # Publications first: there may be very many calls, and nobody was promised anything about them yet.
        effects += self._flush(now_s) + self._release(now_s)
        details = {"kept_back_s": self.buffers.kept_back_s_max, "held_s": self.buffers.held_s_max}
        return [*effects, *self._reports.once(configuration.change, "scale-end", details)]

    def on_ending(self, event: Ending, now_s: float) -> Effects:
        effects: Effects = []
        effects += self.on_flushing(Flushing(event.configuration), now_s)
        configuration = self._enter(event)
        change = configuration.change
        if change is None or self._name in change.to.accesspoints:
            return [*effects, *self._last_words(configuration)]
        if self._sending_here():
            self.state, self._parting_since_s = State.PARTING, now_s
            return effects
        return [*effects, *self.on_parted(Parted(), now_s)]

    def on_parted(self, _event: Parted, _now_s: float) -> Effects:
        """When the scaling has ended, matchers neither tell it of anchors nor let questions of the past wait for it.

        What a connection point sends here nevertheless, it sends again, elsewhere, as soon as it knows of the scaling.
        """
        configuration = self._configuration
        assert configuration is not None
        assert configuration.change is not None
        self.state = State.LEFT
        return [*self._last_words(configuration), ReportStep(configuration.change.id, "drained")]

    def _last_words(self, configuration: Configuration) -> list[Send]:
        end = ScaleEnd(_target_epoch(configuration))
        return [Send(matcher, [end]) for matcher in configuration.union("matcher")]

    def on_same_phase(self, event: PhaseEvent, now_s: float) -> Effects:
        """Seen again after a lost connection to ZooKeeper."""
        self._configuration = event.configuration
        return []

    def _serve(self, configuration: Configuration) -> None:
        """One that it leaves out must not go on under what it knows: nobody would wait for it at the next cut, and one
        that is about to be taken in does not know all anchors before matchers are ready to change.
        """
        self._on_in_force(configuration if self._name in configuration.accesspoints else None)

    @property
    def _change(self) -> Change | None:
        return None if self._configuration is None else self._configuration.change

    def _enter(self, event: PhaseEvent) -> Configuration:
        self._configuration = event.configuration
        return event.configuration

    def _cut(self, configuration: Configuration, matcher: str) -> Send:
        change = configuration.change
        assert change is not None
        epoch = change.to.epoch
        cut: list[Any] = [ExitPointScaling(epoch), ChangeMatcher(epoch)]
        if matcher in configuration.matchers:
            cut.insert(0, ChangeMatcherOnExitPoint(epoch, self._name, len(change.to.matchers)))
        return Send(matcher, cut)


def _target_epoch(configuration: Configuration) -> int:
    assert configuration.change is not None
    return configuration.change.to.epoch


_S = State
_STAYING = (_S.SERVING, _S.BUFFERING, _S.HOLDING, _S.FLUSHED)
MACHINE: Machine[State, Effects] = Machine(
    State.SERVING,
    [
        *in_each(State, Settled, (_S.SERVING,), "sends what waits", AccessPointScaling.on_settled),
        Transition(_S.SERVING, Copying, (), "goes on", AccessPointScaling.on_copying),
        Transition(_S.SERVING, Moving, (_S.BUFFERING,), "keeps subscriptions back", AccessPointScaling.on_moving),
        Transition(_S.BUFFERING, Moving, (), "knows it", AccessPointScaling.on_same_phase),
        *in_each(
            (_S.SERVING, _S.BUFFERING), Changing, (_S.HOLDING,), "sends the cuts, holds", AccessPointScaling.on_changing
        ),
        *in_each(
            (_S.HOLDING, _S.FLUSHED, _S.PARTING, _S.LEFT), Changing, (), "knows it", AccessPointScaling.on_same_phase
        ),
        Transition(
            _S.HOLDING,
            HeldTooLong,
            (_S.FLUSHED,),
            "goes on without the exit points",
            AccessPointScaling.on_held_too_long,
        ),
        *in_each(_STAYING, Flushing, (_S.FLUSHED,), "sends what it held", AccessPointScaling.on_flushing),
        *in_each((_S.PARTING, _S.LEFT), Flushing, (), "knows it", AccessPointScaling.on_same_phase),
        *in_each(
            _STAYING,
            Ending,
            (_S.FLUSHED, _S.PARTING, _S.LEFT),
            "sends ScaleEnd, unless it leaves and is sent to",
            AccessPointScaling.on_ending,
        ),
        Transition(_S.PARTING, Parted, (_S.LEFT,), "sends ScaleEnd", AccessPointScaling.on_parted),
        *in_each((_S.PARTING, _S.LEFT), Ending, (), "knows it", AccessPointScaling.on_same_phase),
    ],
)
