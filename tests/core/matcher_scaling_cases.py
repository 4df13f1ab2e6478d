"""A matcher in a scaling: one with subscriptions, brought to any state by what it hears."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

from braid.messages import (
    AddMatcherState,
    Calls,
    ChangeMatcherOnExitPoint,
    HandOverPrevious,
    MatcherStateStored,
    PreviousHandedOver,
    Send,
    Subscribe,
    Unsubscribe,
)
from braid.subscription import SubscriptionRecord
from braid.topology import Configuration
from services.matcher.core import MatcherCore
from services.matcher.effects import Continue, Effects, Erase, Store, StoreState
from services.matcher.scaling_states import State
from tests.core.scaling_cases import IDS, NEW, NEW_EPOCH, OLD_EPOCH, SETTLED, during, record

ACCESSPOINTS = ("accesspoint-1", "accesspoint-2")
COMING, COMING_HERE = (
    next(id for id in (f"new-{number}" for number in range(99)) if NEW.matcher_of(id) == name)
    for name in ("matcher-2", "matcher-1")
)  # subscriptions that come meanwhile
NOTHING_REMEMBERED = Send("matcher-2", [HandOverPrevious(NEW_EPOCH, 1, 1, {}, True)])


def matcher(
    name: str,
    ids: Iterable[str] = (),
    *,
    configuration: Configuration = SETTLED,
    keeps: bool = False,
    clock_s: float = 999e-9,
) -> MatcherCore:
    core = MatcherCore(name, lambda: round(clock_s * 1e9), keeps_publications=keeps)
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


def take_previous(core: MatcherCore, number: int = 1) -> Effects:
    """matcher-2 has what matcher-1 remembers."""
    return core.scaling.on_previous_handed_over("matcher-2", PreviousHandedOver(NEW_EPOCH, number))


def at_cut(accesspoint: str) -> ChangeMatcherOnExitPoint:
    return ChangeMatcherOnExitPoint(NEW_EPOCH, accesspoint, 2)


def end(core: MatcherCore) -> Effects:
    return [effect for name in ACCESSPOINTS for effect in core.scaling.on_scale_end(name, NEW_EPOCH)]


def chunks_of(effects: Iterable[Any]) -> list[AddMatcherState]:
    sends = [effect for effect in effects if isinstance(effect, Send)]
    return [message for send in sends for message in send.messages if isinstance(message, AddMatcherState)]


def chunk(
    number: int,
    *ids: str,
    removed: Iterable[str] = (),
    calls: dict[str, Calls] | None = None,
    ends: Literal["", "copy", "state"] = "",
) -> AddMatcherState:
    return chunk_of(number, [record(id) for id in ids], removed, calls, ends)


def chunk_of(
    number: int,
    records: Iterable[SubscriptionRecord],
    removed: Iterable[str] = (),
    calls: dict[str, Calls] | None = None,
    ends: Literal["", "copy", "state"] = "",
) -> AddMatcherState:
    return AddMatcherState(NEW_EPOCH, number, list(records), list(removed), calls or {}, ends)


def receive(core: MatcherCore, message: AddMatcherState) -> Effects:
    """A chunk of matcher-1 comes and is stored."""
    return store_all(core, core.scaling.on_add_matcher_state("matcher-1", message))


def acknowledge(core: MatcherCore, effects: Iterable[Any]) -> Effects:
    """matcher-2 stores every chunk that was sent to it, and every one that follows from it; what else is done."""
    left, others = list(effects), []
    while left:
        effect = left.pop(0)
        chunks = chunks_of([effect])
        if not chunks:
            others.append(effect)
        for message in chunks:
            stored = MatcherStateStored(message.epoch, message.chunk)
            left += settle(core, core.scaling.on_matcher_state_stored("matcher-2", stored))
    return others


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


def copy(core: MatcherCore, configuration: Configuration | None = None) -> Effects:
    """matcher-1 sends its copy, and matcher-2 stores it."""
    return acknowledge(core, settle(core, core.on_configuration(configuration or during("copying"))))


def sender(state: State = State.SERVING, *, keeps: bool = False) -> MatcherCore:
    """matcher-1, who has everything in the old epoch."""
    sent: Effects = []

    def send_last(core: MatcherCore) -> None:
        sent.extend(settle(core, start(core)))

    def ready(core: MatcherCore) -> None:
        acknowledge(core, sent)
        core.on_configuration(during("changing"))

    def change(core: MatcherCore) -> None:
        cut(core)
        take_previous(core)

    def finish(core: MatcherCore) -> None:
        core.on_configuration(during("ending"))
        end(core)

    ways: dict[State, Callable[[MatcherCore], object]] = {
        State.COPYING: lambda core: core.on_configuration(during("copying")),
        State.COPIED: lambda core: acknowledge(core, settle(core, [Continue()])),
        State.STARTING: lambda core: core.on_configuration(during("moving")),
        State.SENDING: send_last,
        State.READY: ready,
        State.CHANGED: change,
        State.ENDED: finish,
    }
    return _lead(matcher("matcher-1", IDS, keeps=keeps), ways, state)


def receiver(state: State = State.SERVING, *records: SubscriptionRecord, clock_s: float = 0.0) -> MatcherCore:
    """matcher-2, who has nothing in the old epoch; the records are in its copy."""

    def ready(core: MatcherCore) -> None:
        receive(core, chunk(2, ends="state"))
        core.on_configuration(during("changing"))

    ways: dict[State, Callable[[MatcherCore], object]] = {
        State.COPYING: lambda core: core.on_configuration(during("copying")),
        State.COPIED: lambda core: receive(core, chunk_of(1, records, ends="copy")),
        State.STARTING: lambda core: core.on_configuration(during("moving")),
        State.SENDING: start,
        State.READY: ready,
        State.CHANGED: lambda core: cut(core, old=False),
    }
    return _lead(matcher("matcher-2", clock_s=clock_s), ways, state)


def _lead(core: MatcherCore, ways: dict[State, Callable[[MatcherCore], object]], state: State) -> MatcherCore:
    """From one state to the next until it is in this one."""
    for reached, way in ways.items():
        if core.scaling.state is state:
            break
        way(core)
        assert core.scaling.state is reached
    assert core.scaling.state is state
    return core


def subscribe(core: MatcherCore, id: str, filter: str = "n = 1", *, ref: int = 1, epoch: int = OLD_EPOCH) -> Effects:
    return core.on_subscribe("accesspoint-1", Subscribe(epoch, ref, "connpoint-1", record(id, filter)))


def unsubscribe(core: MatcherCore, id: str, *, ref: int = 1, epoch: int = OLD_EPOCH) -> Effects:
    return core.on_unsubscribe("accesspoint-1", Unsubscribe(epoch, ref, "connpoint-1", id))
