"""A source: records that are there already, until the subscribers they match have them."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator

from benchmarks.kafka.topics import fill
from benchmarks.local_cluster import LocalCluster
from benchmarks.receiver import Receiver

_S_MAX = 300.0


async def measure(cluster: LocalCluster, receiver: Receiver, bootstrap: str, topic: str, records: int) -> float:
    """Records per second, from the first notification to the last."""
    before = receiver.count
    with frozen(cluster.slice_pids()["connpoint-1"]):
        await fill(bootstrap, topic, records)
    await _wait_for(receiver, before + 1)
    first, started = receiver.count, time.perf_counter()
    await _wait_for(receiver, before + records)
    return (before + records - first) / (time.perf_counter() - started)


async def _wait_for(receiver: Receiver, count: int) -> None:
    """All that came: every round has the same marks."""
    async with asyncio.timeout(_S_MAX):
        while receiver.count < count:
            await asyncio.sleep(0.001)


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Nobody reads what is written meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
