"""Brings a scaling into a phase and holds it there, for as long as somebody who must report in it is stopped."""

from dataclasses import dataclass

from braid.topology import Phase
from tests.cluster.scaled_cluster import ScaledCluster, until

# Those that are stopped; the others may be killed.
ACCESSPOINT, EXITPOINT = "accesspoint-1", "exitpoint-1"


@dataclass(frozen=True)
class Held:
    id: str
    old_matcher: str  # leaves
    new_matcher: str  # comes


async def hold(cluster: ScaledCluster, phase: Phase) -> Held:
    """Replaces the last matcher, and stops in the phase until `resume_all`."""
    staying, leaving = cluster.configuration().matchers
    id = await cluster.ask(replace=[leaving])
    await until(lambda: (record := cluster.record()) is not None and record.wants)
    record = cluster.record()
    assert record is not None
    (coming,) = record.wants
    held = Held(id, leaving, coming)
    cluster.stop("coordinator")  # so that the change does not begin before somebody holds it
    await until(lambda: coming in cluster.registrations())
    await _hold_copying(cluster, staying)
    if phase == "copying":
        return held
    await _hold_moving(cluster, staying)
    if phase == "moving":
        return held
    await _hold_changing(cluster)
    if phase == "changing":
        return held
    await _hold_flushing(cluster)
    if phase == "flushing":
        return held
    await _hold_ending(cluster, leaving)
    return held


async def _hold_copying(cluster: ScaledCluster, staying: str) -> None:
    """Every matcher must report that its copy is there."""
    cluster.stop(staying)
    cluster.resume("coordinator")
    await until(lambda: cluster.phase() == "copying")


async def _hold_moving(cluster: ScaledCluster, staying: str) -> None:
    """No matcher sends the last of its state before every access point has said `StartScale`.

    While matchers copy, access points must know their anchors, so none is stopped before all of them have reported.
    """
    cluster.stop("coordinator")
    cluster.resume(staying)
    matchers = cluster.configuration().union("matcher")
    await until(lambda: all(cluster.has_reported("copied", matcher) for matcher in matchers))
    cluster.stop(ACCESSPOINT)
    cluster.resume("coordinator")
    await until(lambda: cluster.phase() == "moving")


async def _hold_changing(cluster: ScaledCluster) -> None:
    """Every exit point must report that it counts the new matchers."""
    cluster.stop(EXITPOINT)
    cluster.resume(ACCESSPOINT)
    await until(lambda: cluster.phase() == "changing")


async def _hold_flushing(cluster: ScaledCluster) -> None:
    """Every access point must report, and is not needed in `changing` any more once every matcher has its cuts."""
    matchers = cluster.configuration().union("matcher")
    await until(lambda: all(cluster.has_reported("done", matcher) for matcher in matchers))
    cluster.stop(ACCESSPOINT)
    cluster.resume(EXITPOINT)
    await until(lambda: cluster.phase() == "flushing")


async def _hold_ending(cluster: ScaledCluster, leaving: str) -> None:
    """Whoever leaves must report that it has nothing left to do."""
    cluster.stop(leaving)
    cluster.resume(ACCESSPOINT)
    await until(lambda: cluster.phase() == "ending")
