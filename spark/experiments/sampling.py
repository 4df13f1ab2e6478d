"""Every second of a measurement: what was published and delivered, and what each slice used."""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

import psutil

from benchmarks.local_cluster import LocalCluster


class Second(NamedTuple):
    second: int
    published: int
    delivered: int


class Usage(NamedTuple):
    second: int
    slice: str
    layer: str
    cpu_s: float
    rss_bytes: int


class Sampler:
    """Looks once a second, and divides what it saw by how long that second really was."""

    def __init__(self, cluster: LocalCluster, published: Callable[[], int], delivered: Callable[[], int]) -> None:
        self._cluster = cluster
        self._published = published
        self._delivered = delivered
        self.seconds: list[Second] = []
        self.usage: list[Usage] = []

    async def run(self, seconds: float) -> None:
        begin_s = at_s = time.monotonic()
        counts, used = self._counts(), await self._used()
        for second in range(1, int(seconds) + 1):
            await asyncio.sleep(max(0.0, begin_s + second - time.monotonic()))
            now_s, now_counts, now_used = time.monotonic(), self._counts(), await self._used()
            lasted_s = now_s - at_s
            published, delivered = (
                round((now - before) / lasted_s) for now, before in zip(now_counts, counts, strict=True)
            )
            self.seconds.append(Second(second, published, delivered))
            for name, (cpu_s, rss_bytes) in now_used.items():
                if name in used:
                    spent_s = (cpu_s - used[name][0]) / lasted_s
                    self.usage.append(Usage(second, name, name.rpartition("-")[0], spent_s, rss_bytes))
            at_s, counts, used = now_s, now_counts, now_used

    def _counts(self) -> tuple[int, int]:
        return self._published(), self._delivered()

    async def _used(self) -> dict[str, tuple[float, int]]:
        return await asyncio.to_thread(_look_at, self._cluster.slice_pids())


def _look_at(pids: dict[str, int]) -> dict[str, tuple[float, int]]:
    """Processor seconds so far and memory now. One that has just gone is left out."""
    found = {}
    for name, pid in pids.items():
        try:
            process = psutil.Process(pid)
            times = process.cpu_times()
            found[name] = (times.user + times.system, process.memory_info().rss)
        except psutil.Error:
            continue
    return found
