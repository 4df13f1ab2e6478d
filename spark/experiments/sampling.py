"""Every second of a measurement: what was published and delivered, and what each slice used."""

import asyncio
import contextlib
import os
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from typing import NamedTuple

import psutil

from benchmarks.local_cluster import LocalCluster

LOAD, MACHINE, STOLEN = "load", "machine", "stolen"  # what is no layer
# The guests are counted as user already. What was stolen the host gave to other machines: nothing of it ran here.
_NOT_BUSY = ("idle", "iowait", "steal", "guest", "guest_nice")


class Second(NamedTuple):
    second: int
    published: int
    delivered: int
    lasted_s: float


class Usage(NamedTuple):
    second: int
    slice: str
    layer: str
    cpu_s: float
    rss_bytes: int
    lasted_s: float


class Used(NamedTuple):
    cpu_s: float  # so far
    rss_bytes: int
    pid: int = 0

    def since(self, before: "Used | None") -> float:
        """A process that was not there has used all of it since then."""
        return self.cpu_s - before.cpu_s if before is not None and before.pid == self.pid else self.cpu_s


class Sampler:
    """Looks once a second, and notes how long that second really was.

    Whoever was kept from looking skips the seconds that he missed: what happened in them is in one long one.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        published: Callable[[], int] = lambda: 0,
        delivered: Callable[[], int] = lambda: 0,
        load: Iterable[int] = (),
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`load` are the processes that publish and receive, besides this one."""
        self._cluster = cluster
        self._published = published
        self._delivered = delivered
        self._load = {f"{LOAD}-{place}": pid for place, pid in enumerate((os.getpid(), *load), start=1)}
        self._clock = clock
        self._sleep = sleep
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
        begin_s = at_s = self._clock()
        counts, used = self._counts(), await self._used()
        second = 0
        while seconds is None or second < seconds:
            await self._sleep(max(0.0, begin_s + second + 1 - self._clock()))
            now_s, now_counts, now_used = self._clock(), self._counts(), await self._used()
            second = max(second + 1, int(now_s - begin_s))
            lasted_s = now_s - at_s
            published, delivered = (now - before for now, before in zip(now_counts, counts, strict=True))
            self.seconds.append(Second(second, published, delivered, lasted_s))
            self.usage += [
                Usage(second, name, layer_of(name), now.since(used.get(name)), now.rss_bytes, lasted_s)
                for name, now in now_used.items()
            ]
            at_s, counts, used = now_s, now_counts, now_used

    def _counts(self) -> tuple[int, int]:
        return self._published(), self._delivered()

    async def _used(self) -> dict[str, Used]:
        return await asyncio.to_thread(lambda: _look_at({**self._cluster.slice_pids(), **self._load}))


def layer_of(name: str) -> str:
    return name.rpartition("-")[0] or name


def delivered_s(seconds: Collection[Second]) -> float:
    return sum(second.delivered for second in seconds) / sum(second.lasted_s for second in seconds)


def stolen_share(usage: Iterable[Usage]) -> float:
    """Of the processors' time: what the host gave to other machines."""
    rows = [used for used in usage if used.layer == STOLEN]
    passed_s = (os.cpu_count() or 1) * sum(used.lasted_s for used in rows)
    return sum(used.cpu_s for used in rows) / passed_s if passed_s else 0.0


def cpu_us_of_layers(seconds: Iterable[Second], usage: Iterable[Usage]) -> dict[str, float]:
    """Microseconds of processor time for each delivery; empty when nothing was delivered."""
    delivered = sum(second.delivered for second in seconds)
    spent_s: defaultdict[str, float] = defaultdict(float)
    for used in usage:
        if used.layer != STOLEN:
            spent_s[used.layer] += used.cpu_s
    return {layer: round(1e6 * cpu_s / delivered, 2) for layer, cpu_s in sorted(spent_s.items())} if delivered else {}


def _look_at(pids: dict[str, int]) -> dict[str, Used]:
    """One that has just gone is left out. The machine and what was stolen from it are two more, without memory."""
    times = psutil.cpu_times()._asdict()
    busy_s = sum(spent_s for kind, spent_s in times.items() if kind not in _NOT_BUSY)
    found = {MACHINE: Used(busy_s, 0), STOLEN: Used(times.get("steal", 0.0), 0)}
    for name, pid in pids.items():
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            spent = process.cpu_times()
            found[name] = Used(spent.user + spent.system, process.memory_info().rss, pid)
    return found
