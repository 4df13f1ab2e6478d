"""One run: a cluster, subscriptions loaded, constant traffic, one scaling or several, and what everybody saw of it."""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from benchmarks.local_cluster import LocalCluster, launched_cluster
from benchmarks.scaling.asking import Say, route, subscriptions_kept, take
from benchmarks.scaling.measured import Observed, Scaled
from benchmarks.scaling.publishing import Publishers
from benchmarks.scaling.receiving import Received, Receiver
from benchmarks.scaling.steps import Step
from benchmarks.scaling.subscribing import Newcomers, Subscribed
from benchmarks.scaling.watching import Watcher
from benchmarks.stillness import until_still
from braid.client import Client

_SETTLES_S = 3.0  # after the traffic began, before anything counts
LOST_S = 20.0  # twice as long as the longest pause of the retry loop
# One connection holds all that is loaded, because one subscriber is to see everything.
_SETTINGS = {"BRAID_LIMITS__SUBSCRIPTIONS_PER_CONNECTION_MAX": "10000000"}


@dataclass(frozen=True)
class Options:
    slices: str  # at the beginning, as in `--slices`
    routing: str | None
    rate: float
    new_rate: float
    new_max: int
    data: Path | None  # None: a directory that is removed afterwards
    watch: bool = False  # who has the processors
    says: Path | None = None  # where the cluster writes what goes wrong; None: to standard error


class Running(NamedTuple):
    """A loaded cluster with traffic."""

    cluster: LocalCluster
    client: Client
    receiver: Receiver
    publishers: Publishers
    say: Say
    newcomers: Newcomers | None = None  # where subscriptions come meanwhile


Script = Callable[[Running], Awaitable[list[Scaled]]]  # what happens to the cluster meanwhile


async def run(subscriptions: int, script: Script, options: Options, say: Say) -> Observed:
    async with contextlib.AsyncExitStack() as stack:
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="braid-")))
        say("starting the cluster")
        cluster = stack.enter_context(
            launched_cluster(options.data or temporary, options.slices, _SETTINGS, options.says)
        )
        await cluster.until_ready()
        api = cluster.api[0]
        client = await stack.enter_async_context(Client(api))
        await client.cluster()  # what the first call loads is loaded before the publishers share this loop
        if options.routing is not None:
            await route(client, options.routing, say)
        receiver = stack.enter_context(Receiver(api, subscriptions))
        load_s = await _load(receiver, subscriptions, say)
        newcomers = None
        if options.new_rate:
            newcomers = stack.enter_context(Newcomers(cluster.api[1], options.new_rate, options.new_max))
        publishers = Publishers(options.rate, subscriptions)
        stack.push_async_callback(publishers.close)
        await publishers.start(api)
        if newcomers is not None:
            newcomers.begin()
        say("traffic begins")
        watcher = None
        if options.watch:
            own = {receiver.pid: "receiver"} | ({} if newcomers is None else {newcomers.pid: "subscribers"})
            watcher = stack.enter_context(Watcher(cluster.directory / "cluster.json", own))
        await asyncio.sleep(_SETTLES_S)
        begin_s, processor = time.time(), psutil.cpu_times()
        scaled = await script(Running(cluster, client, receiver, publishers, say, newcomers))
        end_s = time.time()
        ran = await asyncio.to_thread(watcher.notes) if watcher is not None else ()
        await publishers.stop()
        new = await asyncio.to_thread(newcomers.subscribed) if newcomers is not None else Subscribed([], 0, 0, 0)
        say("waiting for what is under way")
        received = await _all_received(receiver, publishers)
        kept = await subscriptions_kept(client, subscriptions + new.at_end)
        sent, refused, delay_s = publishers.promised, publishers.refused, publishers.longest_delay_s
        return Observed(
            subscriptions,
            begin_s,
            end_s,
            received,
            new,
            scaled,
            sent,
            delay_s,
            load_s,
            kept,
            refused,
            stolen=stolen_since(processor),
            ran=ran,
        )


def stolen_since(before: Any) -> float:
    """The share of the processors' time that the host gave to other machines since then."""
    now = psutil.cpu_times()
    passed = sum(now) - sum(before)
    return float((now.steal - before.steal) / passed) if passed and hasattr(now, "steal") else 0.0


def steps_in_turn(steps: Sequence[Step], seconds: float) -> Script:
    """With so many seconds of calm before, between and after. Ends with a step that does not end."""

    async def script(running: Running) -> list[Scaled]:
        scaled: list[Scaled] = []
        await asyncio.sleep(seconds)
        for step in steps:
            scaled.append(await take(running.client, step, running.say))
            if scaled[-1].state == "running":
                break
            running.say(f"traffic goes on after {scaled[-1].name}")
            await asyncio.sleep(seconds)
        return scaled

    return script


async def _load(receiver: Receiver, subscriptions: int, say: Say) -> float:
    started = time.perf_counter()
    loaded = 0
    while loaded < subscriptions:
        loaded = await asyncio.to_thread(receiver.receive)
        say(f"loading {loaded:,} of {subscriptions:,} subscriptions")
    return time.perf_counter() - started


async def _all_received(receiver: Receiver, publishers: Publishers) -> Received:
    """Lost is what has not come when nothing has come for a while; a machine that is overloaded only needs longer."""
    count, quiet_since = -1, time.monotonic()
    while receiver.count < publishers.promised and time.monotonic() < quiet_since + LOST_S:
        if receiver.count != count:
            count, quiet_since = receiver.count, time.monotonic()
        await asyncio.sleep(0.05)
    await until_still(lambda: receiver.came)
    return await asyncio.to_thread(receiver.received)
