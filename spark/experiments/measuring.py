"""One cell of a plan: a cluster in its configuration, its load, its traffic, and what was seen of it."""

import asyncio
import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path

from websockets.asyncio.client import ClientConnection

from benchmarks.load import Receiver, flood, open_socket, paced, receiver_process
from benchmarks.local_cluster import LocalCluster, local_cluster
from spark.experiments.histograms import histogram
from spark.experiments.plan import Cell, Plan
from spark.experiments.results import Rows
from spark.experiments.sampling import Sampler
from spark.experiments.scaling_cell import measure_scaling

_CONNECTIONS = 4
_BATCH = 200  # publications in a frame of a flood
# One connection holds all that is loaded, because one subscriber is to see everything.
_SETTINGS = {"BRAID_LIMITS__SUBSCRIPTIONS_PER_CONNECTION_MAX": "10000000"}

Say = Callable[[str], None]


async def measure(plan: Plan, cell: Cell, say: Say) -> Rows:
    """Raises `RuntimeError` when the cluster does not come up."""
    if cell.scaling is not None:
        return await measure_scaling(cell, cell.scaling, say)
    with tempfile.TemporaryDirectory(prefix="braid-") as scratch:
        say("starting the cluster")
        with local_cluster(Path(scratch), f"connpoint=1,{cell.layout.slices}", _SETTINGS) as cluster:
            return await _measure_steady(plan, cell, cluster, say)


async def _measure_steady(plan: Plan, cell: Cell, cluster: LocalCluster, say: Say) -> Rows:
    api = cluster.api[0]

    def on_loaded(loaded: int) -> None:
        say(f"loading {loaded:,} of {cell.subscriptions:,} subscriptions")

    async with contextlib.AsyncExitStack() as stack:
        receiver = stack.enter_context(receiver_process(api, cell.subscriptions, on_loaded))
        sockets = [await stack.enter_async_context(open_socket(api)) for _ in range(_CONNECTIONS)]
        say("warming up")
        before = receiver.received
        sent = await _publish(cell, sockets, receiver, plan.warm_up_s) if plan.warm_up_s else 0
        receiver.latencies_s()  # those of the warm-up do not count
        say("measuring")
        published = 0

        def on_published(count: int) -> None:
            nonlocal published
            published += count

        sampler = Sampler(cluster, lambda: published, lambda: receiver.received)
        sampling = asyncio.ensure_future(sampler.run(plan.seconds))
        sent += await _publish(cell, sockets, receiver, plan.seconds, on_published)
        await sampling
        latencies = await asyncio.to_thread(receiver.latencies_s)
        ledger = {"sent": sent, "received": receiver.received - before, "lost": sent - (receiver.received - before)}
    rows = [("steady", upper_ms, count) for upper_ms, count in histogram(latencies)]
    return Rows({"seconds": sampler.seconds, "usage": sampler.usage, "latencies": rows}, ledger)


async def _publish(
    cell: Cell,
    sockets: list[ClientConnection],
    receiver: Receiver,
    seconds: float,
    on_published: Callable[[int], None] = lambda _count: None,
) -> int:
    if cell.rate:
        return await paced(sockets, receiver, cell.rate, seconds, cell.subscriptions, on_published=on_published)
    _, sent = await flood(sockets, receiver, seconds, _BATCH, cell.subscriptions, on_published=on_published)
    return sent
