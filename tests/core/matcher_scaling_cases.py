"""A matcher in a scaling: one with subscriptions, brought to any state by what it hears."""

from collections.abc import Iterable
from typing import Any

from braid.messages import AddMatcherState, ChangeMatcherOnExitPoint, MatcherStateStored, Send
from braid.subscription import SubscriptionRecord
from braid.topology import Configuration
from services.matcher.core import MatcherCore
from services.matcher.effects import Continue, Effects, Erase, Store, StoreState
from services.matcher.scaling import State
from tests.core.scaling_cases import IDS, NEW_EPOCH, SETTLED, during, record

ACCESSPOINTS = ("accesspoint-1", "accesspoint-2")


def matcher(name: str, ids: Iterable[str] = (), *, configuration: Configuration = SETTLED) -> MatcherCore:
    core = MatcherCore(name, lambda: 999)
    core.on_recovered([record(id) for id in ids])
    core.on_configuration(configuration)
    return core


def start(core: MatcherCore, epoch: int = NEW_EPOCH) -> Effects:
    """`StartScale` of everybody."""
    return [effect for name in ACCESSPOINTS for effect in core.scaling.on_start_scale(name, epoch)]


def cut(core: MatcherCore, *accesspoints: str, old: bool = True) -> Effects:
    """Everything that an access point says at the cut."""
    effects: Effects = []
    for name in accesspoints or ACCESSPOINTS:
        if old:
            effects += core.scaling.on_change_matcher_on_exit_point(name, at_cut(name))
        effects += core.scaling.on_exit_point_scaling(name, NEW_EPOCH)
        effects += core.scaling.on_change_matcher(name, NEW_EPOCH)
    return effects


def at_cut(accesspoint: str) -> ChangeMatcherOnExitPoint:
    return ChangeMatcherOnExitPoint(NEW_EPOCH, accesspoint, 2)


def end(core: MatcherCore) -> Effects:
    return [effect for name in ACCESSPOINTS for effect in core.scaling.on_scale_end(name, NEW_EPOCH)]


def chunks_of(effects: Iterable[Any]) -> list[AddMatcherState]:
    sends = [effect for effect in effects if isinstance(effect, Send)]
    return [message for send in sends for message in send.messages if isinstance(message, AddMatcherState)]


def chunk(number: int, *ids: str, last: bool = False) -> AddMatcherState:
    return AddMatcherState(NEW_EPOCH, number, [record(id) for id in ids], last)


def store_all(core: MatcherCore, effects: Iterable[Any]) -> Effects:
    """The disk writes what there is to write, and what follows from it."""
    left, followed = list(effects), []
    while left:
        effect = left.pop(0)
        match effect:
            case StoreState():
                left += core.scaling.on_state_stored(effect)
            case Store(_, answer):
                left += core.on_written(answer)
            case Erase(_, answer) if answer is not None:
                left += core.on_written(answer)
            case _:
                followed.append(effect)
    return followed


def settle(core: MatcherCore, effects: Iterable[Any]) -> Effects:
    """`Continue` until there is no more to do."""
    left, others = list(effects), []
    while left:
        effect = left.pop(0)
        if isinstance(effect, Continue):
            left = [other for other in left if not isinstance(other, Continue)] + core.on_continue()
        else:
            others.append(effect)
    return others


def sender(state: State = State.SERVING) -> MatcherCore:
    """matcher-1, who has everything in the old epoch."""
    core = matcher("matcher-1", IDS)
    if state is State.SERVING:
        return core
    core.on_configuration(during("moving"))
    if state is State.STARTING:
        return core
    sent = settle(core, start(core))
    if state is State.SENDING:
        return core
    for message in chunks_of(sent):
        core.scaling.on_matcher_state_stored("matcher-2", MatcherStateStored(NEW_EPOCH, message.chunk))
    core.on_configuration(during("changing"))
    if state is State.READY:
        return core
    cut(core)
    if state is State.ENDED:
        core.on_configuration(during("ending"))
        end(core)
    return core


def receiver(state: State = State.SERVING, *records: SubscriptionRecord) -> MatcherCore:
    """matcher-2, who has nothing in the old epoch."""
    core = matcher("matcher-2")
    if state is State.SERVING:
        return core
    core.on_configuration(during("moving"))
    if state is State.STARTING:
        return core
    start(core)
    if state is State.SENDING:
        return core
    message = AddMatcherState(NEW_EPOCH, 1, list(records), last=True)
    store_all(core, core.scaling.on_add_matcher_state("matcher-1", message))
    core.on_configuration(during("changing"))
    if state is State.READY:
        return core
    cut(core, old=False)
    return core
