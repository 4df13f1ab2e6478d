"""Brings a scaling into a phase and holds it there, for as long as somebody who must report in it is stopped.

ZooKeeper is asked on threads: where it is away, an answer takes seconds, and traffic on the event loop must go on.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from braid.topology import Layer, Phase
from tests.cluster.scaled_cluster import ScaledCluster, until

# Those that are stopped; the others may be killed.
ACCESSPOINT, EXITPOINT = "accesspoint-1", "exitpoint-1"


@dataclass(frozen=True)
class Held:
    """One slice of each layer that is changed leaves, and another one comes."""

    id: str
    leaving: dict[Layer, str]
    coming: dict[Layer, str]


async def hold(cluster: ScaledCluster, phase: Phase, layers: Sequence[Layer] = ("matcher",)) -> Held:
    """Replaces the last slice of each of these layers, and stops in the phase until `resume_all`."""
    configuration = await asyncio.to_thread(cluster.configuration)
    staying = configuration.matchers[0]
    leaving = {layer: configuration.of_layer(layer)[-1] for layer in layers}
    id = await cluster.ask(replace=list(leaving.values()))
    await until(lambda: (record := cluster.record()) is not None and record.wants)
    record = await asyncio.to_thread(cluster.record)
    assert record is not None
    coming = {layer: name for layer in layers for name in record.wants if name.startswith(layer)}
    assert len(coming) == len(record.wants) == len(layers)
    held = Held(id, leaving, coming)
    cluster.stop("coordinator")  # so that the change does not begin before somebody holds it
    await until(lambda: set(coming.values()) <= set(cluster.registrations()))
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
    await _hold_ending(cluster, leaving.values())
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
    matchers = (await asyncio.to_thread(cluster.configuration)).union("matcher")
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
    matchers = (await asyncio.to_thread(cluster.configuration)).union("matcher")
    await until(lambda: all(cluster.has_reported("done", matcher) for matcher in matchers))
    cluster.stop(ACCESSPOINT)
    cluster.resume(EXITPOINT)
    await until(lambda: cluster.phase() == "flushing")


async def _hold_ending(cluster: ScaledCluster, leaving: Iterable[str]) -> None:
    """Whoever leaves must report that it has nothing left to do. An access point that leaves must flush before."""
    cluster.stop("coordinator")
    cluster.resume(ACCESSPOINT)
    accesspoints = (await asyncio.to_thread(cluster.configuration)).union("accesspoint")
    await until(lambda: all(cluster.has_reported("scale-end", accesspoint) for accesspoint in accesspoints))
    for name in leaving:
        cluster.stop(name)
    cluster.resume("coordinator")
    await until(lambda: cluster.phase() == "ending")
