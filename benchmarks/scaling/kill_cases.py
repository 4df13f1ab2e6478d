"""Who is killed in which phase, in which order, and how such a scaling must end."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

from benchmarks.scaling.steps import Step
from braid.topology import CONFIGURED_LAYERS, PHASES, Configuration, Layer

OLD_MATCHER, ACCESSPOINT, EXITPOINT, COORDINATOR = "old matcher", "accesspoint", "exitpoint", "coordinator"
NEW: dict[str, Layer] = {f"new {layer}": layer for layer in CONFIGURED_LAYERS}
LEAVING: dict[str, Layer] = {f"leaving {layer}": layer for layer in CONFIGURED_LAYERS}
# Connection points are not among them: they hold the connections of those who publish, subscribe and receive here.
PARTICIPANTS = (OLD_MATCHER, ACCESSPOINT, EXITPOINT, COORDINATOR, *NEW, *LEAVING)
FEW, MANY = 1, 2  # slices of a layer, between which the cluster goes up and down

NO_KILL = ""  # the participant of a way back, in which nobody is killed
OVER = "over"  # no phase: the scaling had ended before the kill
_PLACES: dict[str, int] = {phase: place for place, phase in enumerate(PHASES)}


class Case(NamedTuple):
    participant: str
    phase: str


WAY_BACK = Case(NO_KILL, "")


def cases_of(participants: Sequence[str], phases: Sequence[str]) -> list[Case]:
    return [Case(participant, phase) for participant, phase in product(participants, phases)]


def layer_of(participant: str) -> Layer:
    """The one that is scaled: matchers, unless somebody of another layer is to come or to leave."""
    return NEW.get(participant) or LEAVING.get(participant) or "matcher"


def step_from(layer: Layer, number: int) -> Step:
    """The cluster goes up and down, so that it need not be brought back after every case."""
    return Step(layer, str(MANY if number == FEW else FEW))


def next_case(pending: Sequence[Case], numbers: Mapping[Layer, int]) -> tuple[Case, Step]:
    """Of those that are possible now, first those that are possible in one direction only.

    A slice is new only on the way up, and leaves only on the way down. Where no case is possible, the cluster is
    brought to where the first one is.
    """
    one_way = [case for case in pending if case.participant in NEW or case.participant in LEAVING]
    both_ways = [case for case in pending if case not in one_way]
    for case in (*one_way, *both_ways):
        layer = layer_of(case.participant)
        if case in both_ways or (numbers[layer] == FEW) == (case.participant in NEW):
            return case, step_from(layer, numbers[layer])
    layer = layer_of(pending[0].participant)
    return WAY_BACK, step_from(layer, numbers[layer])


def victim_of(participant: str, configuration: Configuration) -> str:
    """The slice that is meant, while a change stands there; empty when there is none, or it is no slice."""
    if participant == OLD_MATCHER:
        return configuration.matchers[0]
    if participant == ACCESSPOINT:
        return configuration.accesspoints[0]
    if participant == EXITPOINT:
        return configuration.exitpoints[0]
    target = configuration.target()
    if target is None or participant == COORDINATOR:
        return ""
    layer = layer_of(participant)
    before, after = configuration.of_layer(layer), target.of_layer(layer)
    here, there = (after, before) if participant in NEW else (before, after)
    return next((name for name in here if name not in there), "")


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
