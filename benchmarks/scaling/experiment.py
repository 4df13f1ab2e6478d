"""One run: a cluster, subscriptions loaded, constant traffic, one scaling, and what everybody saw of it."""

import asyncio
import contextlib
import json
import re
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.local_cluster import LocalCluster, local_cluster
from benchmarks.scaling.measured import Measured, Observed, binned, longest_waits, phases_of, windows
from benchmarks.scaling.publishing import Publishers
from benchmarks.scaling.receiving import Received, Receiver
from benchmarks.scaling.subscribing import Newcomers

_SETTLES_S = 3.0  # after the traffic began, before anything counts
_LOST_S = 20.0  # twice as long as the longest pause of the retry loop
_LOOKS_S = 0.5  # at the longest steps of each slice
_STEP = re.compile(r'^braid_longest_step_seconds\{layer="(\w+)",step="([^"]+)"\} (\S+)$', re.MULTILINE)
# One connection holds all that is loaded, because one subscriber is to see everything.
_SETTINGS = {"BRAID_LIMITS__SUBSCRIPTIONS_PER_CONNECTION_MAX": "10000000"}

Say = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    layer: str
    before: int
    to: int
    rate: float
    new_rate: float
    seconds: float


async def run(subscriptions: int, options: Options, say: Say) -> Measured:
    async with contextlib.AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="braid-")))
        say("starting the cluster")
        # New subscriptions have a door of their own: the scaling is to be measured, not the load of one process.
        cluster = stack.enter_context(
            local_cluster(directory, f"connpoint=2,{options.layer}={options.before}", _SETTINGS)
        )
        api = cluster.api[0]
        receiver = stack.enter_context(Receiver(api, subscriptions))
        load_s = await _load(receiver, subscriptions, say)
        newcomers = stack.enter_context(Newcomers(cluster.api[1], options.new_rate)) if options.new_rate else None
        publishers = Publishers(options.rate, subscriptions)
        await publishers.start(api)
        if newcomers is not None:
            newcomers.begin()
        say("traffic begins")
        await asyncio.sleep(_SETTLES_S)
        begin_s = time.time()
        await asyncio.sleep(options.seconds)
        say(f"{options.layer} from {options.before} to {options.to}")
        shown, steps = await _scale(cluster, options, say)
        say("traffic goes on")
        await asyncio.sleep(options.seconds)
        end_s = time.time()
        await publishers.stop()
        waits = await asyncio.to_thread(newcomers.waits) if newcomers is not None else []
        received = await _all_received(receiver, publishers)
        sent, delay_s = sum(publishers.sent), publishers.longest_delay_s
        observed = Observed(begin_s, end_s, received, waits, steps, sent, delay_s, load_s)
        return _measured(subscriptions, options, shown, observed)


async def _load(receiver: Receiver, subscriptions: int, say: Say) -> float:
    started = time.perf_counter()
    loaded = 0
    while loaded < subscriptions:
        loaded = await asyncio.to_thread(receiver.receive)
        say(f"loading {loaded:,} of {subscriptions:,} subscriptions")
    return time.perf_counter() - started


async def _scale(cluster: LocalCluster, options: Options, say: Say) -> tuple[dict[str, Any], dict[str, float]]:
    """The scaling as it is shown at its end, and the longest steps seen meanwhile."""
    api, steps = cluster.api[0], dict[str, float]()
    asked = json.dumps({"layer": options.layer, "to": options.to}).encode()
    id = (await asyncio.to_thread(_call, f"{api}/v1/cluster/scale", asked))["id"]
    while True:
        shown = await asyncio.to_thread(_call, f"{api}/v1/cluster/scalings/{id}")
        say(f"{options.layer} from {options.before} to {options.to}: {shown['phase']} for {shown['total_s']:.1f} s")
        await asyncio.to_thread(_look, api, steps)
        if shown["state"] != "running":
            await asyncio.sleep(1.0)
            await asyncio.to_thread(_look, api, steps)
            return shown, steps
        await asyncio.sleep(_LOOKS_S)


def _look(api: str, steps: dict[str, float]) -> None:
    for slice in _call(f"{api}/v1/cluster")["slices"]:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{slice['http']}/metrics") as response:
            for _layer, step, seconds in _STEP.findall(response.read().decode()):
                name = f"{slice['name']} {step}"
                steps[name] = max(steps.get(name, 0.0), float(seconds))


async def _all_received(receiver: Receiver, publishers: Publishers) -> Received:
    """Lost is what has not come when nothing has come for a while; a machine that is overloaded only needs longer."""
    count, quiet_since = -1, time.monotonic()
    while receiver.count < sum(publishers.sent) and time.monotonic() < quiet_since + _LOST_S:
        if receiver.count != count:
            count, quiet_since = receiver.count, time.monotonic()
        await asyncio.sleep(0.05)
    await asyncio.sleep(1.0)  # a repetition would come after the original
    return await asyncio.to_thread(receiver.received)


def _measured(subscriptions: int, options: Options, shown: dict[str, Any], observed: Observed) -> Measured:
    begin_s, end_s, received = observed.begin_s, observed.end_s, observed.received
    asked_s = datetime.fromisoformat(shown["asked_at"]).timestamp()
    return Measured(
        subscriptions=subscriptions,
        step=f"{options.layer} {options.before} → {options.to}",
        moved=shown["moved"],
        state=shown["state"],
        reason=shown["reason"],
        total_s=shown["total_s"],
        phase_s=shown["phase_s"],
        longest_pause_s=round(shown["longest_pause_s"], 4),
        windows=windows(observed, phases_of(shown, asked_s)),
        longest_step_ms={name: round(1000 * seconds, 1) for name, seconds in sorted(observed.steps_s.items())},
        generator_delay_ms=round(1000 * observed.generator_delay_s, 1),
        sent=observed.sent,
        lost=observed.sent - sum(received.counts.values()),
        twice=received.twice,
        out_of_order=received.out_of_order,
        load_s=round(observed.load_s, 1),
        bins=binned(received.arrived_s, begin_s, end_s),
        bins_begin_s=round(begin_s - asked_s, 3),
        waits_s=longest_waits(observed.waits, begin_s, end_s, asked_s),
    )


def _call(url: str, body: bytes | None = None) -> dict[str, Any]:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as response:
        answer: dict[str, Any] = json.load(response)
    return answer
