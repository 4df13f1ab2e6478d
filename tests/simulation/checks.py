"""What must hold when a simulation is over: the ledger, empty buffers, and subscriptions where they belong."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from braid.anchors import text_of
from braid.keeping import keepers_of
from braid.selector import selector_of
from braid.subscription import SubscriptionRecord
from tests.simulation.ledger import lost, out_of_order, twice, wrong
from tests.simulation.matcher_node import SimulatedMatcher
from tests.simulation.nodes import SimulatedExitPoint

ENDED_WITHIN_S = 2.0  # a matcher looks each second, and its disk takes its time

if TYPE_CHECKING:
    from tests.simulation.cluster import Simulation


def problems_of(simulation: "Simulation") -> list[str]:
    ledger = simulation.ledger
    return [
        *(f"lost: {text}" for text in lost(ledger)),
        *(f"twice: {text}" for text in twice(ledger)),
        *(f"wrong: {text}" for text in wrong(ledger, simulation.sensors)),
        *(f"out of order: {text}" for text in out_of_order(ledger)),
        *(f"stuck: {text}" for text in stuck(simulation)),
        *(f"misplaced: {text}" for text in misplaced(simulation)),
        *(f"misplaced: {text}" for text in misplaced_publications(simulation)),
        *(f"unknown: {text}" for text in unknown(simulation)),
        *(f"violation: {text}" for text in violations(simulation)),
        *(f"too early: {text}" for slice in simulation.slices for text in slice.too_early),
    ]


def stuck(simulation: "Simulation") -> list[str]:
    found = [
        f"{connpoint.ingress.window_publications} unconfirmed at {connpoint.name}"
        for connpoint in simulation.connpoints
        if connpoint.alive and (not connpoint.ingress.is_drained or connpoint.disk)
    ]
    configured = simulation.zookeeper.configuration.exitpoints
    found += [
        f"{e.core.gathers} gathers at {e.name}"
        for e in simulation.exitpoints
        if e.core.gathers and e.name in configured
    ]
    unanswered = sum(len(connpoint.questions) for connpoint in simulation.connpoints)
    if unanswered:
        found.append(f"{unanswered} calls never answered")
    if simulation.zookeeper.record is not None or simulation.zookeeper.configuration.change is not None:
        found.append("a scaling never ended")
    return found


def misplaced(simulation: "Simulation") -> list[str]:
    """Each living subscription lies on the matcher of its place, on disk and in the index, and nowhere else."""
    configuration = simulation.zookeeper.configuration
    selector = selector_of(configuration)
    entries = simulation.ledger.subscriptions
    found = []
    for matcher in simulation.matchers:
        if matcher.name not in configuration.matchers:
            continue
        kept = {record.id: record for record in matcher.core.index}
        for place, records in (("index", kept), ("disk", matcher.disk)):
            ids = set(records)
            own = {id for id in entries if selector.matcher_of(id) == matcher.name}
            over = {id for id in own if entries[id].until_s < simulation.scheduler.now_s - ENDED_WITHIN_S}
            asked = {id for id in own if entries[id].acknowledged_s is not None and not entries[id].ending}
            promised = asked - over
            found += [f"{id} is missing in the {place} of {matcher.name}" for id in sorted(promised - ids)]
            settled = {id for id in promised & ids if not entries[id].changing}
            found += [
                f"{id} is old in the {place}" for id in sorted(settled) if _is_old(records[id], entries[id].record)
            ]
            ended = over | {id for id in own if entries[id].ended}
            found += [f"{id} is still in the {place} of {matcher.name}" for id in sorted(ended & ids)]
            found += [f"{id} of another is in the {place} of {matcher.name}" for id in sorted(ids - own)]
    return found


def _is_old(record: SubscriptionRecord, promised: SubscriptionRecord | None) -> bool:
    """Since when it is given what it matches is not a promise."""
    return promised is None or replace(record, given_from_s=promised.given_from_s) != promised


def misplaced_publications(simulation: "Simulation") -> list[str]:
    """Each batch that was kept lies with its keeper; and nowhere else where the matcher says that it is so."""
    configuration = simulation.zookeeper.configuration
    selector = selector_of(configuration)
    kept = {matcher.name: matcher.kept for matcher in simulation.matchers}
    found = []
    for matcher in simulation.matchers:
        is_gone = matcher.name not in configuration.matchers
        for key, batch in matcher.ever_kept.items():
            for keeper in keepers_of(selector, batch.origin, batch.sequence, batch.contents):
                if key not in kept[keeper]:
                    found.append(f"{key} of {matcher.name} is missing at {keeper}")
                is_over = not is_gone and not matcher.core.expects_foreign
                if is_over and keeper != matcher.name and key in matcher.kept:
                    found.append(f"{key} of {keeper} is still at {matcher.name}")
    return found


def unknown(simulation: "Simulation") -> list[str]:
    """While routing is anchored, every access point knows just the anchors of every matcher."""
    configuration = simulation.zookeeper.configuration
    if configuration.routing != "anchored":
        return []
    found = []
    matchers = [matcher for matcher in simulation.matchers if matcher.name in configuration.matchers]
    for accesspoint in simulation.accesspoints:
        if accesspoint.name not in configuration.accesspoints:
            continue
        routes = accesspoint.core.routes
        for matcher in matchers:
            kept = {text_of(record) for record in matcher.core.index}
            known = None if routes is None else routes.anchors_of(matcher.name)
            if known != kept:
                found.append(f"{accesspoint.name} knows {known} of {matcher.name}, which keeps {kept}")
    return found


def violations(simulation: "Simulation") -> list[str]:
    """Orders of the scaling that a core saw broken.

    Where somebody is away, or hears nothing from ZooKeeper, for longer than anybody waits, access points go on without
    the exit points, and these say so. How often that may be is bounded where many seeds are run.
    """
    gave_up = any(accesspoint.core.scaling.gave_up for accesspoint in simulation.accesspoints)
    return _seen_by(simulation.matchers) if gave_up else orders_broken(simulation)


def is_excused(simulation: "Simulation") -> bool:
    return violations(simulation) != orders_broken(simulation)


def orders_broken(simulation: "Simulation") -> list[str]:
    return [*_seen_by(simulation.matchers), *_seen_by(simulation.exitpoints)]


def _seen_by(slices: Sequence[SimulatedMatcher | SimulatedExitPoint]) -> list[str]:
    broken = [(slice.core.scaling.violations, slice.name) for slice in slices]
    return [f"{number} at {name}" for number, name in broken if number]
