"""How a scaling goes on from where it stands: one pure function per phase, from what is known to what is written next.

Nothing is remembered between two decisions but what stands in ZooKeeper, for how long it has stood there, and for how
long a matcher has been missing. So a coordinator that was elected a moment ago goes on exactly as the one before it
would have, only with more patience.

Until the phase `changing` is written, everything goes back: whoever is missing ends the scaling. From then on
everything goes forward: whoever is missing is waited for until a deadline, and then named in a warning.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from braid.anchor_map import AnchorMap
from braid.scaling import Ask, Report, ScalingRecord, Step
from braid.scaling_checks import refusal
from braid.topology import CONFIGURED_LAYERS, Change, Configuration, Phase, Registration, Target
from coordinator.events import Inform
from coordinator.placing import Placement, place


@dataclass(frozen=True)
class Deadlines:
    """How long each stage of a scaling may take."""

    gathering_s_max: float = 30.0
    copying_s_max: float = 3600.0
    moving_s_max: float = 60.0  # subscriptions wait meanwhile
    changing_s_max: float = 10.0
    flushing_s_max: float = 10.0
    ending_s_max: float = 10.0
    departing_s_max: float = 600.0  # where only matchers that leave are missing: they have publications to hand over
    returning_s_max: float = 30.0  # since one of these has died, until it is back


@dataclass(frozen=True)
class Known:
    """Everything on which a decision depends."""

    configuration: Configuration
    record: ScalingRecord | None  # of this scaling; somebody may have removed it, then the change goes on without
    slices: Mapping[str, Registration]
    reports: Mapping[tuple[Step, str], Report]
    waited_s: float  # since this stage began
    absent_s: Mapping[str, float]  # of the matchers that are not registered, for how long, at most since then
    clock_s: float  # seconds since 1970
    deadlines: Deadlines
    map: AnchorMap | None = None  # that the record asks for


@dataclass(frozen=True)
class Wait:
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Write:
    configuration: Configuration | None  # None: the record alone
    record: ScalingRecord | None
    informs: tuple[Inform, ...] = ()


Decision = Wait | Write


def gather(known: Known) -> Decision:
    """Answers a request; begins the change when every slice of both configurations is registered."""
    configuration, record = known.configuration, known.record
    assert record is not None, "gathering begins with a request"
    reason = refusal(record.asked, configuration) or _lacks_map(known)
    if reason is not None:
        return Write(None, _end(known, "aborted", reason))
    placement = place(record.asked, configuration, known.slices)
    to = _target(known, record.asked, placement)
    if not placement.differs_from(configuration) and (to.routing, to.map) == (configuration.routing, configuration.map):
        return Write(None, _end(known, "done", epoch=configuration.epoch))
    participants = _participants(configuration, placement)
    missing = tuple(name for name in participants if name not in known.slices)
    if not missing:
        change = Change(record.id, "copying", to, {name: known.slices[name].incarnation for name in participants})
        return Write(replace(configuration, change=change), _enter(known, "copying", epoch=change.to.epoch, wants=()))
    if known.waited_s >= known.deadlines.gathering_s_max:
        reason = f"not registered within {known.deadlines.gathering_s_max:g} s: {', '.join(missing)}"
        return Write(None, _end(known, "aborted", reason))
    if (record.phase, record.wants) != ("gathering", placement.wants):
        return Write(None, _enter(known, "gathering", wants=placement.wants))
    return Wait(missing)


def copy(known: Known) -> Decision:
    """On when every matcher has nearly all its state on disk."""
    return _reversible(known, "copied", "moving", known.deadlines.copying_s_max)


def move(known: Known) -> Decision:
    """On when every matcher has all its state on disk."""
    return _reversible(known, "change-ready", "changing", known.deadlines.moving_s_max)


def _reversible(known: Known, step: Step, following: Phase, patience_s: float) -> Decision:
    """Back when a participant is gone or cannot store its share; on when every matcher has reported."""
    change = _change(known)
    gone = [
        f"{name} is gone" if name not in known.slices else f"{name} started again"
        for name, incarnation in change.participants.items()
        if name not in known.slices or known.slices[name].incarnation != incarnation
    ]
    if gone:
        return _give_up(known, ", ".join(gone))
    refused = [name for (reported, name) in known.reports if reported == "refused"]
    if refused:
        reason = f"no room, or a failing disk, for what is moved to {', '.join(sorted(refused))}; its log says which"
        return _give_up(known, reason)
    missing = tuple(
        name
        for name in known.configuration.union("matcher")
        if (report := known.reports.get((step, name))) is None or report.incarnation != change.participants[name]
    )
    if not missing:
        return _proceed(known, following)
    if known.waited_s >= patience_s:
        return _give_up(known, f"not {step} within {patience_s:g} s: {', '.join(missing)}")
    return Wait(missing)


def cut(known: Known) -> Decision:
    """On when every exit point counts the new matchers and every matcher knows it."""
    exitpoints, matchers = known.configuration.union("exitpoint"), known.configuration.union("matcher")
    missing = _unreported(known, "exit-point-matcher-updated", exitpoints) + _unreported(known, "done", matchers)
    if missing and known.waited_s < known.deadlines.changing_s_max:
        return Wait(missing)
    return _proceed(known, "flushing", _overdue(known, missing))


def flush(known: Known) -> Decision:
    """On when every access point has sent what it held."""
    missing = _unreported(known, "scale-end", known.configuration.union("accesspoint"))
    if missing and known.waited_s < known.deadlines.flushing_s_max:
        return Wait(missing)
    return _proceed(known, "ending", _overdue(known, missing))


def finish(known: Known) -> Decision:
    """Ends when every slice that leaves has nothing left to do, and no matcher expects the old epoch any more."""
    target = known.configuration.target()
    assert target is not None, "there is a change"
    staying = {name for layer in CONFIGURED_LAYERS for name in target.of_layer(layer)}
    leaving = [
        name for layer in CONFIGURED_LAYERS for name in known.configuration.of_layer(layer) if name not in staying
    ]
    awaited = dict.fromkeys((*known.configuration.union("matcher"), *leaving))
    missing = _unreported(known, "drained", awaited)
    undrained = [name for name in awaited if ("drained", name) not in known.reports]
    departing = [name for name in known.configuration.matchers if name not in staying]
    if missing and _may_drain(known, undrained, departing):
        return Wait(missing)
    ready = [report for (step, _), report in known.reports.items() if step == "change-ready"]
    ended = [report for (step, _), report in known.reports.items() if step == "scale-end"]
    record = _end(
        known,
        "done",
        moved=int(sum(report.details.get("moved", 0) for report in ready)),
        longest_pause_s=max((report.details.get("held_s", 0.0) for report in ended), default=0.0),
        longest_wait_s=max((report.details.get("kept_back_s", 0.0) for report in ended), default=0.0),
    )
    return Write(target, record, _overdue(known, missing))


def _may_drain(known: Known, undrained: Iterable[str], departing: Iterable[str]) -> bool:
    """One that leaves may have to read all its publications once more, when it has died behind the cut. If all others
    have drained, nobody waits for anything else: every access point has said the last word. One that stays and has
    died meanwhile does not tell whether that is so, and takes no time from one that hands over.
    """
    deadlines = known.deadlines
    others = set(undrained).difference(departing)
    if others and known.waited_s < deadlines.ending_s_max:
        return True
    if any(not _has_died(known, name) for name in others):
        return False
    still = [name for name in undrained if name in departing]
    is_awaited = any(known.absent_s.get(name, 0.0) < deadlines.returning_s_max for name in still)
    return is_awaited and known.waited_s < deadlines.departing_s_max


def _has_died(known: Known, name: str) -> bool:
    """Since the scaling began; it may be back."""
    registration = known.slices.get(name)
    return registration is None or registration.incarnation != _change(known).participants.get(name)


DECISIONS: dict[str, Callable[[Known], Decision]] = {
    "gathering": gather,
    "copying": copy,
    "moving": move,
    "changing": cut,
    "flushing": flush,
    "ending": finish,
}


def _change(known: Known) -> Change:
    assert known.configuration.change is not None, "there is a change"
    return known.configuration.change


def _participants(configuration: Configuration, placement: Placement) -> list[str]:
    """The slices of both configurations, layer by layer, the old ones first."""
    both = [name for layer in CONFIGURED_LAYERS for name in (*configuration.of_layer(layer), *placement.layers[layer])]
    return list(dict.fromkeys(both))


def _lacks_map(known: Known) -> str | None:
    asked = None if known.record is None else known.record.asked.named_map
    if asked is None or (known.map is not None and known.map.version == asked):
        return None
    return f"the map {asked} is missing in ZooKeeper, or damaged; ask for it again"


def _target(known: Known, asked: Ask, placement: Placement) -> Target:
    """What is not asked for stays as it is. Where subscriptions do not lie by their anchors there is no map."""
    configuration = known.configuration
    routing = asked.routing or configuration.routing
    map = configuration.map if asked.map is None else known.map  # None: there is to be none
    return Target(
        epoch=max(configuration.epoch, configuration.epochs) + 1,
        accesspoints=placement.layers["accesspoint"],
        matchers=placement.layers["matcher"],
        exitpoints=placement.layers["exitpoint"],
        routing=routing,
        map=map if routing == "anchored" else None,
    )


def _proceed(known: Known, phase: Phase, informs: tuple[Inform, ...] = ()) -> Write:
    change = replace(_change(known), phase=phase)
    return Write(replace(known.configuration, change=change), _enter(known, phase), informs)


def _give_up(known: Known, reason: str) -> Write:
    """The old configuration has been in force all the time; the number of the new one is used up.

    What was moved comes to nothing; subscriptions were kept back since `moving` began, if it did.
    """
    configuration = replace(known.configuration, change=None, epochs=_change(known).to.epoch)
    moving_s = None if known.record is None else known.record.began_s.get("moving")
    waited_s = 0.0 if moving_s is None else max(0.0, known.clock_s - moving_s)
    return Write(configuration, _end(known, "aborted", reason, longest_wait_s=waited_s))


def _enter(known: Known, phase: str, **fields: Any) -> ScalingRecord | None:
    if known.record is None:
        return None
    began_s = known.record.began_s if phase == known.record.phase else {**known.record.began_s, phase: known.clock_s}
    return replace(known.record, phase=phase, began_s=began_s, **fields)


def _end(known: Known, state: str, reason: str = "", **fields: Any) -> ScalingRecord | None:
    return _enter(known, state, state=state, reason=reason, wants=(), **fields)


def _unreported(known: Known, step: Step, names: Iterable[str]) -> tuple[str, ...]:
    """As the znodes of the reports are called."""
    return tuple(f"{step}:{name}" for name in names if (step, name) not in known.reports)


def _overdue(known: Known, missing: tuple[str, ...]) -> tuple[Inform, ...]:
    if not missing:
        return ()
    change = _change(known)
    fields = {"id": change.id, "phase": change.phase, "waited_s": round(known.waited_s, 1), "missing": missing}
    return (Inform("the scaling goes on without reports that did not come in time", fields, warning=True),)
