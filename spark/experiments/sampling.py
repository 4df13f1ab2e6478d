"""Every second of a measurement: what was published and delivered, and what each slice used."""

import asyncio
import contextlib
import os
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from typing import NamedTuple

import psutil

from benchmarks.local_cluster import LocalCluster

LOAD, MACHINE = "load", "machine"  # what is no layer
_IDLE = ("idle", "iowait", "guest", "guest_nice")  # the last two are counted as user already


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


class Used(NamedTuple):
    cpu_s: float  # so far
    rss_bytes: int


class Sampler:
    """Looks once a second, and divides what it saw by how long that second really was."""

    def __init__(
        self,
        cluster: LocalCluster,
        published: Callable[[], int] = lambda: 0,
        delivered: Callable[[], int] = lambda: 0,
        load: Iterable[int] = (),
    ) -> None:
        """`load` are the processes that publish and receive, besides this one."""
        self._cluster = cluster
        self._published = published
        self._delivered = delivered
        self._load = {f"{LOAD}-{place}": pid for place, pid in enumerate((os.getpid(), *load), start=1)}
        self.seconds: list[Second] = []
        self.usage: list[Usage] = []

    @contextlib.asynccontextmanager
    async def sampling(self, seconds: int | None = None) -> AsyncIterator[None]:
        """Meanwhile: as many seconds, or as long as this lasts."""
        task = asyncio.create_task(self._run(seconds))
        try:
            yield
            if seconds is not None:
                await task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self, seconds: int | None) -> None:
        begin_s = at_s = time.monotonic()
        counts, used = self._counts(), await self._used()
        second = 0
        while seconds is None or second < seconds:
            second += 1
            await asyncio.sleep(max(0.0, begin_s + second - time.monotonic()))
            now_s, now_counts, now_used = time.monotonic(), self._counts(), await self._used()
            lasted_s = now_s - at_s
            published, delivered = (
                round((now - before) / lasted_s) for now, before in zip(now_counts, counts, strict=True)
            )
            self.seconds.append(Second(second, published, delivered))
            self.usage += [
                Usage(second, name, layer_of(name), (now.cpu_s - used[name].cpu_s) / lasted_s, now.rss_bytes)
                for name, now in now_used.items()
                if name in used
            ]
            at_s, counts, used = now_s, now_counts, now_used

    def _counts(self) -> tuple[int, int]:
        return self._published(), self._delivered()

    async def _used(self) -> dict[str, Used]:
        return await asyncio.to_thread(lambda: _look_at({**self._cluster.slice_pids(), **self._load}))


def layer_of(name: str) -> str:
    return name.rpartition("-")[0] or name


def cpu_us_of_layers(seconds: Iterable[Second], usage: Iterable[Usage]) -> dict[str, float]:
    """Microseconds of processor time for each delivery; empty when nothing was delivered."""
    delivered = sum(second.delivered for second in seconds)
    spent_s: defaultdict[str, float] = defaultdict(float)
    for used in usage:
        spent_s[used.layer] += used.cpu_s
    return {layer: round(1e6 * cpu_s / delivered, 2) for layer, cpu_s in sorted(spent_s.items())} if delivered else {}


def _look_at(pids: dict[str, int]) -> dict[str, Used]:
    """One that has just gone is left out. The machine as a whole is one more, without what its memory holds."""
    found = {MACHINE: Used(_busy_s(), 0)}
    for name, pid in pids.items():
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            times = process.cpu_times()
            found[name] = Used(times.user + times.system, process.memory_info().rss)
    return found


def _busy_s() -> float:
    times = psutil.cpu_times()._asdict()
    return float(sum(spent_s for kind, spent_s in times.items() if kind not in _IDLE))
