"""Who is killed in which phase, in which order, and how such a scaling must end."""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from benchmarks.scaling.steps import Step
from braid.topology import PHASES, Configuration

OLD_MATCHER, NEW_MATCHER, ACCESSPOINT, EXITPOINT, COORDINATOR = (
    "old matcher",
    "new matcher",
    "accesspoint",
    "exitpoint",
    "coordinator",
)
# Connection points are not among them: they hold the connections of those who publish, subscribe and receive here.
PARTICIPANTS = (OLD_MATCHER, NEW_MATCHER, ACCESSPOINT, EXITPOINT, COORDINATOR)
FEW, MANY = 1, 2  # matchers, between which the cluster goes up and down

NO_KILL = ""  # the participant of a way back, in which nobody is killed
OVER = "over"  # no phase: the scaling had ended before the kill
_PLACES: dict[str, int] = {phase: place for place, phase in enumerate(PHASES)}


class Case(NamedTuple):
    participant: str
    phase: str


WAY_BACK = Case(NO_KILL, "")


def cases_of(participants: Sequence[str], phases: Sequence[str]) -> list[Case]:
    return [Case(participant, phase) for participant, phase in product(participants, phases)]


def step_from(matchers: int) -> Step:
    """The cluster goes up and down, so that it need not be brought back after every case."""
    return Step("matcher", str(MANY if matchers == FEW else FEW))


def next_case(pending: Sequence[Case], matchers: int) -> Case:
    """Of those that are possible now, first those that are possible in one direction only.

    A matcher is new only on the way up. On the way down there is something to do for as long as others are left.
    """
    needing_more = [case for case in pending if case.participant == NEW_MATCHER]
    others = [case for case in pending if case.participant != NEW_MATCHER]
    if matchers == FEW:
        return (needing_more or others)[0]
    return others[0] if others else WAY_BACK


def victim_of(participant: str, configuration: Configuration) -> str:
    """The slice that is meant, while a change stands there; empty when there is none, or it is no slice."""
    target = configuration.target()
    if participant == OLD_MATCHER:
        return configuration.matchers[0]
    if participant == NEW_MATCHER:
        new = [] if target is None else [name for name in target.matchers if name not in configuration.matchers]
        return new[0] if new else ""
    if participant == ACCESSPOINT:
        return configuration.accesspoints[0]
    if participant == EXITPOINT:
        return configuration.exitpoints[0]
    return ""


def has_reached(phase: str, aimed: str) -> bool:
    return _PLACES[phase] >= _PLACES[aimed]


def ends_by_rule(participant: str, hit: str, state: str) -> bool:
    """Before `changing` stands there everything goes back, after it everything goes forward.

    Whoever coordinates takes no part in the change itself: the next one goes on where it stands. And a slice that has
    nothing left to report before `changing` may be back before anybody missed it: then nothing has to go back.
    """
    if participant in (NO_KILL, COORDINATOR) or hit == OVER or has_reached(hit, "changing"):
        return state == "done"
    return state in ("aborted", "done")
