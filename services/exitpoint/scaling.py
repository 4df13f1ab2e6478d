"""The exit point's part in a scaling: it learns at the cut how many matchers answer from then on.

States
    serving   no scaling, or it is over here
    changing  a scaling is under way, some cut has not arrived yet
    updated   the cut of every access point came through every old matcher, and was reported

Invariants: every cut tells the number of matchers that the configuration has; a partial of the new epoch comes when
updated, and expects that number. Requests say themselves how many partials make the whole, so nothing depends on it;
that both hold shows that the cut is one.
"""

import enum

import msgspec
import structlog

from braid.machine import Machine, Transition, in_each
from braid.messages import ChangeMatcherOnExitPoint, Partial
from braid.phases import Changing, Copying, Ending, Flushing, Moving, PhaseEvent, Settled, phase_events
from braid.scaling import Reports, ReportStep
from braid.topology import Change, Configuration, Target

log = structlog.get_logger()

Effects = list[ReportStep]
Cuts = dict[tuple[str, str], int]  # by access point and old matcher: how many matchers there are from then on


class State(enum.Enum):
    SERVING = "serving"
    CHANGING = "changing"
    UPDATED = "updated"


class CutArrived(msgspec.Struct, frozen=True):
    """The cut of one access point came through one matcher."""

    matcher: str
    message: ChangeMatcherOnExitPoint


class ExitPointScaling:
    def __init__(self, name: str) -> None:
        self.state = State.SERVING
        self.violations = 0
        self._name = name
        self._configuration: Configuration | None = None
        self._matchers: dict[int, tuple[int, bool]] = {}  # by epoch: how many there are, and whether all are asked
        self._cuts: dict[int, Cuts] = {}  # by new epoch
        self._complained_of: set[int] = set()
        self._reports = Reports()

    def on_configuration(self, configuration: Configuration) -> Effects:
        effects: Effects = []
        for event in phase_events(self._name, "exitpoint", self._change, configuration):
            effects += MACHINE.step(self, event)
        return effects

    def on_change_matcher_on_exit_point(self, matcher: str, message: ChangeMatcherOnExitPoint) -> Effects:
        return MACHINE.step(self, CutArrived(matcher, message))

    def on_tick(self, gathers: int) -> Effects:
        """An exit point that leaves says when nothing is left to be done."""
        change = self._change
        if change is None or change.phase != "ending" or gathers or self._name in change.to.exitpoints:
            return []
        return [*self._reports.once(change, "drained")]

    def check(self, partial: Partial) -> None:
        """Loud where the number that a request expects is not the one that was learned at the cut."""
        known, all_asked = self._matchers.get(partial.epoch, (0, True))
        if known == partial.partials or (not all_asked and partial.partials < known):
            return
        if not self._matchers or partial.epoch < min(self._matchers):
            return
        self.violations += 1
        if partial.epoch in self._complained_of:
            return  # counted; once is loud enough
        self._complained_of = {partial.epoch}
        log.error(
            "a partial that the cut does not allow",
            matcher=partial.matcher,
            epoch=partial.epoch,
            expects=partial.partials,
            learned=known or None,
        )

    def on_settled(self, event: Settled) -> Effects:
        configuration = self._configuration = event.configuration
        self.state = State.SERVING
        self._matchers = {configuration.epoch: _number(configuration)}
        used = max(configuration.epoch, configuration.epochs)
        self._cuts = {epoch: pairs for epoch, pairs in self._cuts.items() if epoch > used}
        return []

    def on_begun(self, event: Copying | Moving | Changing) -> Effects:
        configuration = self._configuration = event.configuration
        self.state = State.CHANGING
        self._matchers.setdefault(configuration.epoch, _number(configuration))
        return self._update_when_cut()

    def on_cut_arrived(self, event: CutArrived) -> Effects:
        message = event.message
        self._cuts.setdefault(message.epoch, {})[message.accesspoint, event.matcher] = message.matchers
        return self._update_when_cut() if self.state is State.CHANGING else []

    def on_over(self, event: Flushing | Ending) -> Effects:
        """The coordinator has gone on: whoever started again meanwhile need not see the cut."""
        self._configuration = event.configuration
        return self._update()

    def on_same_phase(self, event: PhaseEvent) -> Effects:
        self._configuration = event.configuration
        return []

    @property
    def _change(self) -> Change | None:
        return None if self._configuration is None else self._configuration.change

    def _update_when_cut(self) -> Effects:
        configuration, change = self._configuration, self._change
        assert configuration is not None
        assert change is not None
        awaited = {(a, m) for a in configuration.union("accesspoint") for m in configuration.matchers}
        return self._update() if awaited <= self._cuts.get(change.to.epoch, {}).keys() else []

    def _update(self) -> Effects:
        change = self._change
        assert change is not None
        self.state = State.UPDATED
        number, all_asked = _number(change.to)
        for (accesspoint, matcher), told in self._cuts.get(change.to.epoch, {}).items():
            if told != number:
                self.violations += 1
                log.error(
                    "a cut tells another number of matchers than the configuration",
                    accesspoint=accesspoint,
                    matcher=matcher,
                    epoch=change.to.epoch,
                    tells=told,
                    configured=number,
                )
        self._matchers[change.to.epoch] = number, all_asked
        return [*self._reports.once(change, "exit-point-matcher-updated")]


def _number(configuration: Configuration | Target) -> tuple[int, bool]:
    return len(configuration.matchers), configuration.routing == "broadcast"


_S = State
_E = ExitPointScaling
MACHINE: Machine[State, Effects] = Machine(
    State.SERVING,
    [
        *in_each(State, Settled, (_S.SERVING,), "forgets the old epoch", _E.on_settled),
        *(
            Transition(_S.SERVING, begun, (_S.CHANGING, _S.UPDATED), "expects a cut of each pair", _E.on_begun)
            for begun in (Copying, Moving, Changing)
        ),
        *in_each((_S.CHANGING, _S.UPDATED), Copying, (), "knows it", _E.on_same_phase),
        *in_each((_S.CHANGING, _S.UPDATED), Moving, (), "knows it", _E.on_same_phase),
        *in_each((_S.CHANGING, _S.UPDATED), Changing, (), "knows it", _E.on_same_phase),
        *in_each((_S.SERVING, _S.UPDATED), CutArrived, (), "notes it", _E.on_cut_arrived),
        Transition(
            _S.CHANGING,
            CutArrived,
            (_S.CHANGING, _S.UPDATED),
            "takes the new number when all are there",
            _E.on_cut_arrived,
        ),
        *in_each(State, Flushing, (_S.UPDATED,), "takes the new number", _E.on_over),
        *in_each(State, Ending, (_S.UPDATED,), "takes the new number", _E.on_over),
    ],
)
