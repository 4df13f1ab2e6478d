"""One cell of a plan: a cluster in its configuration, its load, its traffic, and what was seen of it."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.frames import Frames, PreparedFrames, SensorFrames
from benchmarks.load import MissingError, Publisher, Receives, flood, paced, publishers_of
from benchmarks.local_cluster import LocalCluster, launched_cluster
from benchmarks.receiver import Receiver
from benchmarks.scaling.asking import route
from braid.client import Client
from spark.experiments.histograms import histogram, percentile_ms
from spark.experiments.plan import Cell
from spark.experiments.results import LOGS, Rows
from spark.experiments.sampling import Sampler, cpu_us_of_layers, delivered_s, stolen_share
from spark.experiments.scaling_cell import measure_scaling
from spark.experiments.stored import StoredSubscriptions
from spark.experiments.workloads import ready_of

_CONNECTIONS = 4
_BATCH = 200  # publications in a frame of a flood
# One connection holds all that is loaded, because one subscriber is to see everything.
_SETTINGS = {"BRAID_LIMITS__SUBSCRIPTIONS_PER_CONNECTION_MAX": "10000000"}

Say = Callable[[str], None]


class _Load(NamedTuple):
    frames: Sequence[Frames]  # of each connection
    given: Iterable[str] | None  # subscriptions; None: to sensors
    known: dict[str, Any]  # beforehand, for the ledger


class Counted:
    """What a receiver waits for. What has not come in time is lost: the ledger tells that, and the cell is measured."""

    def __init__(self, receiver: Receives) -> None:
        self._receiver = receiver

    async def wait_for(self, count: int, timeout_s: float) -> None:
        with contextlib.suppress(MissingError):
            await self._receiver.wait_for(count, timeout_s)


async def measure(cell: Cell, directory: Path, say: Say) -> Rows:
    """The cluster works in the directory. Raises `RuntimeError` when it does not come up."""
    says = directory / LOGS / "launcher.log"
    if cell.scaling is not None:
        return await measure_scaling(cell, cell.scaling, directory, says, say)
    load = await _load_of(cell, say)
    say("starting the cluster")
    with launched_cluster(directory, f"connpoint=1,{cell.layout.slices}", _SETTINGS, says) as cluster:
        await cluster.until_ready()
        if cell.routing is not None:
            async with Client(cluster.api[0]) as client:
                await route(client, cell.routing, say)
        return await _measure_steady(cell, load, cluster, say)


async def _load_of(cell: Cell, say: Say) -> _Load:
    if cell.workload is None:
        return _Load([SensorFrames(place, cell.subscriptions) for place in range(_CONNECTIONS)], None, {})
    say("counting what should arrive")
    publications, matches = await ready_of(cell.workload, cell.subscriptions)
    return _Load(
        [PreparedFrames(place, _CONNECTIONS, publications) for place in range(_CONNECTIONS)],
        StoredSubscriptions(Path(cell.workload.subscriptions), cell.subscriptions),
        {"matches_per_publication": round(matches, 3)},
    )


async def _measure_steady(cell: Cell, load: _Load, cluster: LocalCluster, say: Say) -> Rows:
    api = cluster.api[0]

    def on_loaded(loaded: int) -> None:
        say(f"loading {loaded:,} of {cell.subscriptions:,} subscriptions")

    async with contextlib.AsyncExitStack() as stack:
        receiver = stack.enter_context(Receiver(api, cell.subscriptions, given=load.given))
        await receiver.load(on_loaded)
        publishers = await stack.enter_async_context(publishers_of(api, load.frames))
        say("warming up")
        sent = await _publish(cell, publishers, receiver, cell.warm_up_s) if cell.warm_up_s else 0
        await receiver.received()  # latencies of the warm-up do not count
        say("measuring")
        published = 0

        def on_published(count: int) -> None:
            nonlocal published
            published += count

        # Not all that came: repetitions and what nobody wants would be throughput, and make each delivery cheaper.
        sampler = Sampler(cluster, lambda: published, lambda: receiver.arrived, [receiver.pid])
        async with sampler.sampling(cell.seconds):
            sent += await _publish(cell, publishers, receiver, cell.seconds, on_published)
        await receiver.until_still()  # or the ledger does not know what comes twice or unwanted behind the last one
        latencies_s, arrived = await receiver.received()
    wanted = sum(publisher.wanted for publisher in publishers)
    lost = wanted - arrived.received
    counts = histogram(latencies_s)
    cpu_us = cpu_us_of_layers(sampler.seconds, sampler.usage)  # of each that arrives
    ledger = {
        "sent": sent,
        "wanted": wanted,
        **load.known,
        **arrived._asdict(),
        "lost": lost,
        "cpu_us_per_publication": {layer: round(us * arrived.received / sent, 2) for layer, us in cpu_us.items()},
        "stolen": round(stolen_share(sampler.usage), 4),
        "summary": f"{delivered_s(sampler.seconds):,.0f} notifications/s, p99 {percentile_ms(counts, 0.99):,.0f} ms"
        + (f", {lost:,} lost" if lost else ""),
    }
    rows = [("steady", upper_ms, count) for upper_ms, count in counts]
    return Rows({"seconds": sampler.seconds, "usage": sampler.usage, "latencies": rows}, ledger)


async def _publish(
    cell: Cell,
    publishers: list[Publisher],
    receiver: Receives,
    seconds: float,
    on_published: Callable[[int], None] = lambda _count: None,
) -> int:
    counted = Counted(receiver)
    if cell.rate:
        return await paced(publishers, counted, cell.rate, seconds, on_published=on_published)
    _, sent = await flood(publishers, counted, seconds, _BATCH, on_published=on_published)
    return sent
