"""One cluster through many scalings under the same traffic; in each of them somebody is killed."""

import asyncio
import time
import urllib.request
from collections.abc import Sequence
from typing import Any

from benchmarks.local_cluster import LocalCluster
from benchmarks.scaling.asking import take
from benchmarks.scaling.experiment import Running
from benchmarks.scaling.kill_cases import WAY_BACK, Case, next_case
from benchmarks.scaling.killing import MISSED, Killer
from benchmarks.scaling.kills import Attempt
from benchmarks.scaling.measured import Scaled
from benchmarks.scaling.steps import configured
from braid.client import BraidError
from braid.topology import CONFIGURED_LAYERS

_SETTLES_S_MAX = 60.0
_BEHIND_S_MAX = 0.5  # what may be under way when deliveries have caught up
_LOOKS_S = 0.1


class KillRun:
    """Goes through all cases; a phase that was over before the kill hit is aimed at again, a few times."""

    def __init__(self, cases: Sequence[Case], attempts_max: int, calm_s: float, rate: float) -> None:
        self._pending = list(cases)
        self._tries = dict.fromkeys(cases, 0)
        self._attempts_max = attempts_max
        self._calm_s = calm_s
        self._behind_max = int(rate * _BEHIND_S_MAX) + 1
        self.attempts: list[Attempt] = []

    async def __call__(self, running: Running) -> list[Scaled]:
        await self._settled(running)
        with Killer(running.cluster.zookeeper) as killer:
            while self._pending:
                await asyncio.sleep(self._calm_s)
                attempt = await self._attempt(running, killer)
                self.attempts.append(attempt)
                if attempt.scaled.state == "running":
                    break  # whatever follows would only be refused
                self._count(attempt)
        await asyncio.sleep(self._calm_s)
        return [attempt.scaled for attempt in self.attempts]

    def _count(self, attempt: Attempt) -> None:
        case = attempt.case
        if case == WAY_BACK:
            return
        self._tries[case] += 1
        if attempt.hit.phase == case.phase or self._tries[case] >= self._attempts_max:
            self._pending.remove(case)

    async def _attempt(self, running: Running, killer: Killer) -> Attempt:
        shown = await running.client.cluster()
        case, step = next_case(self._pending, {layer: len(configured(shown, layer)) for layer in CONFIGURED_LAYERS})
        about = f"{len(self._pending)} cases left; {case.participant or 'nobody'} in {case.phase or 'no phase'}: "
        if case != WAY_BACK:
            killer.aim(case)
        scaled = await take(running.client, step, lambda text: running.say(about + text))
        hit = MISSED if case == WAY_BACK else await asyncio.to_thread(killer.hit)
        running.say(about + "waiting until everybody is back")
        return Attempt(case, hit, scaled, await self._settled(running))

    async def _settled(self, running: Running) -> float:
        """When everybody was there again and deliveries had caught up, in seconds since 1970."""
        deadline = time.monotonic() + _SETTLES_S_MAX
        while time.monotonic() < deadline:
            behind = running.publishers.promised - running.receiver.count
            if behind <= self._behind_max and await self._all_there(running):
                break
            await asyncio.sleep(_LOOKS_S)
        return time.time()

    async def _all_there(self, running: Running) -> bool:
        try:
            shown = await running.client.cluster()
        except BraidError:
            return False
        return await asyncio.to_thread(_is_whole, shown, running.cluster)


def _is_whole(shown: dict[str, Any], cluster: LocalCluster) -> bool:
    """What runs is what is registered and takes part. A dead slice stays registered until its successor is there."""
    pids = {each["name"]: each["pid"] for each in shown["slices"]}
    if shown["change"] is not None or pids != cluster.slice_pids():
        return False
    return all(each["epoch"] is not None and _is_ready(each["http"]) for each in shown["slices"])


def _is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False
