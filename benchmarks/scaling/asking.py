"""Asks a cluster for its next scaling, and looks at its slices until that has ended."""

import asyncio
import contextlib
import http.client
import re
import time
import urllib.request
from collections.abc import Callable
from datetime import datetime
from typing import Any

from benchmarks.scaling.measured import Scaled
from benchmarks.scaling.steps import Step, configured
from braid.client import BraidError, Client, Scaling

Say = Callable[[str], None]

ENDS_S_MAX = 700.0  # the coordinator gives a scaling up before; this is for a cluster without one
SUBSCRIPTIONS_S_MAX = 15.0  # without a change of the number
_LOOKS_S = 0.5  # at the longest steps of each slice
_STEP = re.compile(r'^braid_longest_step_seconds\{layer="(\w+)",step="([^"]+)"\} (\S+)$', re.MULTILINE)
_SUBSCRIPTIONS = re.compile(r'^braid_subscriptions\{layer="matcher"\} (\S+)$', re.MULTILINE)


async def take(client: Client, step: Step, say: Say) -> Scaled:
    """The scaling as it is shown at its end, and the longest steps seen meanwhile. One that is refused is told too."""
    cluster = await client.cluster()
    name, asked_s = step.title(cluster), time.time()
    layers, replaced, routing = step.asks(cluster)
    say(name)
    try:
        id = await client.scale(layers, replace=replaced, routing=routing)
    except BraidError as error:
        return Scaled(name, asked_s, "refused", str(error), {"asked": 0.0}, 0.0, 0, 0.0, {})
    steps_s: dict[str, float] = {}
    scaling = await _ended(client, id, name, steps_s, say)
    return Scaled(
        name,
        datetime.fromisoformat(scaling.asked_at).timestamp(),
        scaling.state,
        scaling.reason,
        scaling.phase_s,
        scaling.total_s,
        scaling.moved,
        scaling.longest_pause_s,
        steps_s,
    )


async def route(client: Client, routing: str, say: Say) -> None:
    """A cluster that has this routing already says so at once."""
    switched = await take(client, Step("routing", routing), say)
    if switched.state != "done":
        raise RuntimeError(f"the cluster did not take the routing '{routing}': {switched.reason}")


async def _ended(client: Client, id: str, name: str, steps_s: dict[str, float], say: Say) -> Scaling:
    deadline = time.monotonic() + ENDS_S_MAX
    while True:
        try:
            scaling = await client.scaling(id)
        except BraidError as error:
            if error.status not in (None, 429, 503) or time.monotonic() > deadline:
                raise
            await asyncio.sleep(_LOOKS_S)  # ZooKeeper may be slow for a moment on a busy machine
            continue
        say(f"{name}: {scaling.phase} for {scaling.total_s:.1f} s")
        await _look(client, steps_s)
        if scaling.state != "running" or time.monotonic() > deadline:
            await asyncio.sleep(1.0)
            await _look(client, steps_s)
            return scaling
        await asyncio.sleep(_LOOKS_S)


async def _look(client: Client, steps_s: dict[str, float]) -> None:
    try:
        cluster = await client.cluster()
    except BraidError:
        return  # the next look will do
    for slice in cluster["slices"]:
        for _layer, step, seconds in _STEP.findall(await asyncio.to_thread(_metrics, slice)):
            name = f"{slice['name']} {step}"
            steps_s[name] = max(steps_s.get(name, 0.0), float(seconds))


async def subscriptions_kept(client: Client, expected: int) -> int:
    """What all matchers have together. They tell it now and then, and remove what moved away step by step."""
    before, deadline = -1, 0.0
    while True:
        cluster = await client.cluster()
        matchers = configured(cluster, "matcher")
        texts = [await asyncio.to_thread(_metrics, each) for each in cluster["slices"] if each["name"] in matchers]
        kept = sum(int(float(number)) for text in texts for number in _SUBSCRIPTIONS.findall(text))
        if kept != before:
            before, deadline = kept, time.monotonic() + SUBSCRIPTIONS_S_MAX
        if kept == expected or time.monotonic() > deadline:
            return kept
        await asyncio.sleep(_LOOKS_S)


def _metrics(slice: dict[str, Any]) -> str:
    """Nothing of a slice that has just been stopped, or killed while it answered."""
    with (
        contextlib.suppress(OSError, http.client.HTTPException),
        urllib.request.urlopen(f"http://{slice['http']}/metrics", timeout=20) as response,
    ):
        text: str = response.read().decode()
        return text
    return ""
